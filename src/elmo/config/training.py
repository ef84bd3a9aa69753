"""Config classes for pre-training and fine-tuning.

The presets in `elmo/presets` are YAML files with these fields. Field names are unique within the
config of a command, because each field becomes a command-line flag.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from elmo.config.bounds import require_at_least_one
from elmo.config.corpus import CorpusConfig
from elmo.config.model import EncoderConfig, LSTMConfig
from elmo.errors import ConfigError

Kernel = Literal["auto", "fused", "cudnn", "reference"]
TrainingPrecision = Literal["float32", "bfloat16"]
OptimizerName = Literal["adagrad", "adamw", "muon"]


@dataclass(frozen=True)
class InputConfig:
    """Input representation of a token."""

    characters: Literal["bytes", "codepoints", "jamo", "none"] = "bytes"
    """Character input: UTF-8 bytes, code points, Korean jamo, or none for models with word ids
    only."""
    max_characters: int | None = 50
    """Maximum number of characters per token, including the begin and end markers. null: determined
    from the text."""
    character_dim: int = 16
    """Dimension of the character embeddings."""
    filters: tuple[tuple[int, int], ...] = EncoderConfig.filters
    """Convolution filters over characters, as [width, count] pairs."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation function after max pooling."""
    n_highway: int = 2
    """Number of highway layers after the convolutions."""
    word_dim: int = 0
    """Dimension of the word embeddings, used in addition to or instead of characters. 0: no word
    embeddings."""

    def __post_init__(self) -> None:
        if self.max_characters is not None and self.max_characters < 3:
            raise ConfigError(f"max_characters must be at least 3 (got {self.max_characters}).")
        require_at_least_one(self, "character_dim")
        if self.word_dim < 0:
            raise ConfigError(f"word_dim must be 0 or more (got {self.word_dim}).")
        if self.characters == "none" and not self.word_dim:
            raise ConfigError(
                "The model has no input: characters is none and word_dim is 0. Set one of them."
            )


@dataclass(frozen=True)
class StreamConfig:
    """How a corpus is divided into batches for truncated BPTT."""

    batch_size: int = 128
    """Total number of batch rows over all processes. Each row reads its own stream of text."""
    unroll: int = 20
    """Number of time steps per segment in truncated backpropagation through time."""
    order: Literal["shuffled", "text"] = "shuffled"
    """shuffled: read sentences in random order. text: each batch row reads a contiguous part of the
    text."""
    directions: Literal["together", "independent"] = "together"
    """together: both directions read the same sentences at the same time. independent: each
    direction reads its own stream of sentences, as in bilm-tf."""
    reset: float | None = 0.0
    """Fraction of sentences that start from a zero LSTM state. 0: always carry the state over, as
    in bilm-tf. 1: reset before every sentence. null (fine-tuning only): use the setting the model
    was trained with."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "batch_size", "unroll")
        if self.reset is not None and not 0.0 <= self.reset <= 1.0:
            raise ConfigError(f"reset must be a fraction from 0 to 1 (got {self.reset}).")
        if self.order == "text" and self.directions == "independent":
            raise ConfigError("directions: independent requires order: shuffled.")


@dataclass(frozen=True)
class LossConfig:
    """Language-model loss."""

    softmax: Literal["full", "sampled", "adaptive"] = "full"
    """full: softmax over the whole vocabulary. sampled: softmax over randomly sampled words, as in
    bilm-tf. adaptive: adaptive softmax, with rare words in clusters."""
    n_samples: int = 8192
    """Sampled softmax: number of sampled words per step. A bidirectional model samples them for
    each direction."""
    cutoffs: tuple[int, ...] = (4000, 20000)
    """Adaptive softmax: vocabulary ranks at which the clusters of rarer words begin."""
    unigram_bias: bool = True
    """Initialize the softmax bias from the word frequencies instead of with zeros."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "n_samples")
        if any(a >= b for a, b in zip((0, *self.cutoffs), self.cutoffs, strict=False)):
            raise ConfigError(
                "cutoffs must be ascending integers of at least 1 (got "
                f"{', '.join(map(str, self.cutoffs))})."
            )

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect; see `WithUnusedOptions`."""
        unused = {}
        if self.softmax != "sampled":
            unused["n_samples"] = "without softmax: sampled"
        if self.softmax == "adaptive":
            unused["unigram_bias"] = "with softmax: adaptive"
        else:
            unused["cutoffs"] = "without softmax: adaptive"
        return unused


@dataclass(frozen=True)
class OptimizerConfig:
    """Optimizer and learning-rate schedule."""

    optimizer: OptimizerName = "adagrad"
    """Optimizer. adagrad is the one used by bilm-tf. muon: Muon for the matrices of LSTM,
    projection and highway layers, AdamW for all other weights."""
    learning_rate: float = 0.2
    """Peak learning rate."""
    accumulator: float = 1.0
    """Adagrad: initial value of the accumulator of squared gradients."""
    warmup_steps: int | None = 0
    """Number of linear warmup steps. If no default is shown: a tenth of all steps, but at most 100,
    or 50 for tasks."""
    schedule: Literal["constant", "cosine", "wsd"] = "constant"
    """Learning-rate schedule after warmup. cosine: decay to 0 along a cosine. wsd
    (warmup-stable-decay): constant, with a linear decay to 0 in the last steps."""
    decay_steps: int | None = None
    """wsd schedule: number of decay steps at the end of the run. Default: a fifth of all steps."""
    weight_decay: float = 0.0
    """AdamW and Muon: weight decay, applied to weight matrices only."""
    beta1: float = 0.9
    """AdamW, also as a part of Muon: decay rate of the running mean of gradients."""
    beta2: float = 0.999
    """AdamW, also as a part of Muon: decay rate of the running mean of squared gradients."""
    clip_norm: float = 10.0
    """Maximum global gradient norm. 0: no clipping."""
    loss_scale: float | None = None
    """Factor applied to the loss before backpropagation. Default: 1, except that language models
    trained with Adagrad use the number of words per BPTT segment."""

    def __post_init__(self) -> None:
        if self.optimizer not in get_args(OptimizerName):
            choices = ", ".join(get_args(OptimizerName))
            raise ConfigError(f"Unknown optimizer {self.optimizer!r}. Expected one of: {choices}.")
        for name in ("learning_rate", "accumulator", "loss_scale"):
            value = getattr(self, name)
            # The upper bound catches typos long before float32 overflows.
            if value is not None and not 0 < value <= 1e6:
                raise ConfigError(f"{name} must be above 0 and at most 1e6 (got {value}).")
        for name in ("warmup_steps", "weight_decay", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ConfigError(f"{name} must be 0 or more (got {value}).")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be at least 0 and below 1 (got {getattr(self, name)})."
                )
        require_at_least_one(self, "decay_steps")
        if self.decay_steps is not None and self.schedule != "wsd":
            raise ConfigError("decay_steps is only supported with schedule: wsd.")
        if self.weight_decay and self.optimizer == "adagrad":
            raise ConfigError("weight_decay is only supported with optimizer: adamw or muon.")

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect; see `WithUnusedOptions`."""
        if self.optimizer == "adagrad":
            return dict.fromkeys(("beta1", "beta2"), "with optimizer: adagrad")
        return {"accumulator": "without optimizer: adagrad"}


@dataclass(frozen=True)
class RegularizationConfig:
    """Dropout and weight tying."""

    dropout: float = 0.0
    """Dropout on the input of every LSTM layer and on the output of the last one."""
    input_dropout: float | None = None
    """Dropout on the input of the first LSTM layer. Default: same as --dropout."""
    output_dropout: float | None = None
    """Dropout on the output before the softmax. Default: same as --dropout."""
    locked: bool = False
    """Use the same dropout mask at all time steps of a segment (variational dropout)."""
    weight_drop: float = 0.0
    """Dropout on the recurrent weights."""
    embedding_dropout: float = 0.0
    """Fraction of the vocabulary whose word embeddings are zeroed at each step."""
    tied: bool = False
    """Share the word embeddings between the input and the softmax. Only for models with word ids as
    input."""

    def __post_init__(self) -> None:
        for name in (
            "dropout",
            "input_dropout",
            "output_dropout",
            "weight_drop",
            "embedding_dropout",
        ):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < 1.0:
                raise ConfigError(f"{name} must be at least 0 and below 1 (got {value}).")


@dataclass(frozen=True)
class RunConfig:
    """Duration, hardware, logging and checkpoints of a training run."""

    epochs: float = 10.0
    """Number of passes over the training data."""
    max_steps: int | None = None
    """Maximum number of training steps. The run ends after --epochs or --max-steps, whichever comes
    first."""
    max_minutes: float | None = None
    """Stop after this many minutes of training with a checkpoint, an evaluation and the model.
    Rerun the same command to train for the same time again."""
    max_rollbacks: int = 0
    """How often a run that diverges returns to its last checkpoint and continues with 0.7 times the
    learning rate. Then a rise of the training loss by 0.3 above its lowest value also counts as
    divergence. 0: end with an error."""
    seed: int = 1
    """Random seed for weight initialization, data order, dropout and candidate sampling."""
    precision: TrainingPrecision = "float32"
    """Computation precision. bfloat16: mixed precision with float32 weights."""
    kernel: Kernel = "auto"
    """LSTM implementation. reference: use plain PyTorch for all operations, not only the LSTM."""
    accelerator: str = "auto"
    """Device type: cpu, cuda or auto."""
    devices: int = 1
    """Number of devices per node."""
    num_nodes: int = 1
    """Number of nodes."""
    accumulate: int = 1
    """Number of micro-batches per batch, processed one after another to save memory. Does not
    change the result."""
    log_every: int = 10
    """Number of steps between log lines."""
    evaluate_every: int | None = None
    """Number of steps between evaluations on the validation set. Default: once per epoch."""
    checkpoint_every: int = 1000
    """Number of steps between checkpoints."""
    patience: int | None = None
    """Stop after this many evaluations without improvement. Evaluations before the score first
    changes are not counted."""
    mlflow: bool = False
    """Also log to MLflow."""
    mlflow_store: str | None = None
    """MLflow tracking URI or folder. Default: mlruns in the output folder."""
    dry_run: bool = False
    """Print the training plan, a memory estimate and an estimate of the duration, then exit. Large
    text files are not read completely."""

    def __post_init__(self) -> None:
        if not 0 < self.epochs < math.inf:
            raise ConfigError(f"epochs must be above 0 (got {self.epochs}).")
        require_at_least_one(
            self, "devices", "num_nodes", "accumulate", "log_every", "checkpoint_every"
        )
        if self.kernel not in get_args(Kernel):
            choices = ", ".join(get_args(Kernel))
            raise ConfigError(f"Unknown kernel {self.kernel!r}. Expected one of: {choices}.")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be an integer from 0 to 2^63 - 1 (got {self.seed}).")
        require_at_least_one(self, "max_steps", "evaluate_every", "patience")
        if self.max_minutes is not None and not 0 < self.max_minutes < math.inf:
            raise ConfigError(f"max_minutes must be above 0 (got {self.max_minutes}).")
        if self.max_rollbacks < 0:
            raise ConfigError(f"max_rollbacks must be 0 or more (got {self.max_rollbacks}).")

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect; see `WithUnusedOptions`."""
        return {} if self.mlflow else {"mlflow_store": "without mlflow"}


@dataclass(frozen=True)
class PretrainConfig:
    """Pre-train a bidirectional language model on a text corpus.

    Rerun with the same --out to resume from the last checkpoint.

    Examples:
      elmo pretrain --config tiny --data corpus --out run
      elmo pretrain --config original --data corpus --out run --devices 8 --precision bfloat16
      elmo pretrain --config small --data 'text/*.txt.gz' --out run --learning-rate 0.1 --dry-run
    """

    data: tuple[str, ...]
    """Prepared corpus folder, or text files or globs."""
    out: str
    """Training folder for checkpoints, logs and the final model."""
    valid: tuple[str, ...] = ()
    """Validation text files. Only for raw-text input, not for a prepared corpus."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """Corpus preparation, for raw-text input."""
    input: InputConfig = field(default_factory=InputConfig)
    """Model input."""
    lstm: LSTMConfig = field(default_factory=LSTMConfig)
    """LSTM stacks."""
    stream: StreamConfig = field(default_factory=StreamConfig)
    """Batches."""
    loss: LossConfig = field(default_factory=LossConfig)
    """Loss."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """Optimizer."""
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)
    """Regularization."""
    run: RunConfig = field(default_factory=RunConfig)
    """Run."""


@dataclass(frozen=True)
class TuneConfig:
    """Options that apply to fine-tuning only."""

    new_words: int = 2
    """Minimum number of occurrences for a new word to be added to the softmax vocabulary. 0: add no
    words."""
    softmax_steps: int | None = None
    """If the softmax is new, number of initial steps that train only the softmax. Default: a tenth
    of all steps."""
    keep_optimizer: bool = True
    """When fine-tuning a bilm-tf checkpoint, continue with its Adagrad state and settings. Flags
    override the settings."""

    def __post_init__(self) -> None:
        for name in ("new_words", "softmax_steps"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} must be 0 or more (got {value}).")


@dataclass(frozen=True)
class FinetuneConfig:
    """Fine-tune a language model on a target text.

    Prints the perplexity before and after fine-tuning. Rerun with the same --out to resume from the
    last checkpoint.

    Examples:
      elmo finetune --model my-elmo --data target.txt --out tuned
      elmo finetune --model elmo_weights.hdf5 --options elmo_options.json --data corpus --out tuned
    """

    model: str
    """Bundled model name, model folder, hub id, or a model file from another ELMo implementation
    (bilm-tf, AllenNLP, ELMoForManyLangs)."""
    data: tuple[str, ...]
    """Prepared corpus folder, or text files or globs."""
    out: str
    """Training folder for checkpoints, logs and the final model."""
    valid: tuple[str, ...] = ()
    """Validation text files. Only for raw-text input, not for a prepared corpus."""
    options: str | None = None
    """Path to options.json. Default: next to the weights file."""
    old_vocab: str | None = None
    """Path to the model's vocabulary file. Default: next to the weights file."""
    tune: TuneConfig = field(default_factory=TuneConfig)
    """Fine-tuning."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """Corpus preparation, for raw-text input."""
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(batch_size=64, reset=None))
    """Batches."""
    loss: LossConfig = field(default_factory=LossConfig)
    """Loss."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            optimizer="adamw",
            learning_rate=5e-4,
            warmup_steps=None,
            schedule="cosine",
            clip_norm=1.0,
        )
    )
    """Optimizer."""
    regularization: RegularizationConfig = field(
        default_factory=lambda: RegularizationConfig(dropout=0.1)
    )
    """Regularization."""
    run: RunConfig = field(default_factory=lambda: RunConfig(epochs=3.0, patience=3))
    """Run."""
