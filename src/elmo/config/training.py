"""Options of a training run. Presets are YAML files of these fields (`elmo/presets`).

Field names are unique within the config of a command, so that each field is one flag.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from elmo.config.corpus import CorpusConfig
from elmo.config.model import EncoderConfig, LSTMConfig
from elmo.errors import ConfigError

Kernel = Literal["auto", "fused", "cudnn", "reference"]
TrainingPrecision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class InputConfig:
    """How a token is presented to the model."""

    characters: Literal["bytes", "codepoints", "jamo", "none"] = "bytes"
    """Characters of a word: UTF-8 bytes, code points, Korean jamo, or none (word ids only)."""
    max_characters: int | None = 50
    """Characters per token, including the begin and end markers; null: fit to the text."""
    character_dim: int = 16
    """Dimension of a character embedding."""
    filters: tuple[tuple[int, int], ...] = EncoderConfig.filters
    """Convolutions as [width, count] pairs."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation after max pooling over positions."""
    n_highway: int = 2
    """Number of highway layers after the convolutions."""
    word_dim: int = 0
    """Dimension of a word embedding, used besides or instead of characters; 0 for none."""

    def __post_init__(self) -> None:
        """Validate sizes, and that a token has any input."""
        if self.max_characters is not None and self.max_characters < 3:
            raise ConfigError(f"max_characters must be at least 3 (got {self.max_characters}).")
        if self.character_dim < 1:
            raise ConfigError(f"character_dim must be at least 1 (got {self.character_dim}).")
        if self.word_dim < 0:
            raise ConfigError(f"word_dim must be 0 or more (got {self.word_dim}).")
        if self.characters == "none" and not self.word_dim:
            raise ConfigError(
                "The model would have no input: characters is none and word_dim is 0. "
                "Set one of them."
            )


@dataclass(frozen=True)
class StreamConfig:
    """How a corpus is cut into batches for truncated BPTT."""

    batch_size: int = 128
    """Batch rows over all processes; each row reads its own stream of text."""
    unroll: int = 20
    """Time steps per BPTT segment; gradients stop at segment borders."""
    order: Literal["shuffled", "text"] = "shuffled"
    """shuffled: sentences in random order. text: each row reads a contiguous part of the text."""
    directions: Literal["together", "independent"] = "together"
    """together: both directions read the same sentences at the same time. independent: as in
    bilm-tf."""
    reset: float | None = 0.0
    """Fraction of sentences that start from a zero state: 0 always carries the state, as bilm-tf
    does, 1 never. null when fine-tuning: as the model was trained."""

    def __post_init__(self) -> None:
        """Validate sizes, the reset fraction and conflicting options."""
        for name in ("batch_size", "unroll"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)}).")
        if self.reset is not None and not 0.0 <= self.reset <= 1.0:
            raise ConfigError(f"reset must be a fraction from 0 to 1 (got {self.reset}).")
        if self.order == "text" and self.directions == "independent":
            raise ConfigError("directions: independent requires order: shuffled.")


@dataclass(frozen=True)
class LossConfig:
    """The language-model loss."""

    softmax: Literal["full", "sampled", "adaptive"] = "full"
    """full: all words. sampled: a sample of candidates, as in bilm-tf. adaptive: rare words in
    clusters."""
    n_samples: int = 8192
    """Sampled softmax: candidates per direction and step."""
    cutoffs: tuple[int, ...] = (4000, 20000)
    """Adaptive softmax: vocabulary ranks at which the clusters of rarer words start."""
    unigram_bias: bool = True
    """Initialize the softmax bias from the word counts instead of zero."""

    def __post_init__(self) -> None:
        """Validate the number of samples."""
        if self.n_samples < 1:
            raise ConfigError(f"n_samples must be at least 1 (got {self.n_samples}).")


@dataclass(frozen=True)
class OptimizerConfig:
    """Optimizer and learning-rate schedule."""

    optimizer: Literal["adagrad", "adamw"] = "adagrad"
    """adagrad: as bilm-tf. adamw: with warmup and decay."""
    learning_rate: float = 0.2
    """Peak learning rate."""
    accumulator: float = 1.0
    """Adagrad: initial value of the accumulated squared gradients."""
    warmup_steps: int = 0
    """Steps of linear warmup."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning-rate schedule after warmup."""
    final_rate: float = 0.0
    """Cosine: final learning rate as a fraction of the peak."""
    weight_decay: float = 0.0
    """AdamW: weight decay of matrices."""
    beta1: float = 0.9
    """AdamW: decay rate of the gradient average."""
    beta2: float = 0.999
    """AdamW: decay rate of the squared-gradient average."""
    clip_norm: float = 10.0
    """Maximum gradient norm over all weights; 0 for no clipping."""
    loss_scale: float | None = None
    """Factor applied to the loss before backpropagation. Default: unroll with Adagrad, else 1."""

    def __post_init__(self) -> None:
        """Validate learning rates, steps and fractions."""
        for name in ("learning_rate", "accumulator", "loss_scale"):
            value = getattr(self, name)
            # The bound catches typing errors long before float32 overflows.
            if value is not None and not 0 < value <= 1e6:
                raise ConfigError(f"{name} must be above 0 and at most 1e6 (got {value}).")
        for name in ("warmup_steps", "weight_decay", "clip_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be 0 or more (got {getattr(self, name)}).")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be at least 0 and below 1 (got {getattr(self, name)})."
                )
        if not 0 <= self.final_rate <= 1:
            raise ConfigError(f"final_rate must be a fraction from 0 to 1 (got {self.final_rate}).")
        if self.weight_decay and self.optimizer != "adamw":
            raise ConfigError("weight_decay is only supported with optimizer: adamw.")


@dataclass(frozen=True)
class RegularizationConfig:
    """Dropout and weight tying."""

    dropout: float = 0.0
    """Dropout on the input of every LSTM layer and on the output."""
    input_dropout: float | None = None
    """Dropout on the input of the first layer. Default: same as dropout."""
    output_dropout: float | None = None
    """Dropout on the output before the softmax. Default: same as dropout."""
    locked: bool = False
    """Use one dropout mask for all time steps of a segment (variational dropout)."""
    weight_drop: float = 0.0
    """Dropout on the recurrent weights."""
    embedding_dropout: float = 0.0
    """Fraction of word types whose embeddings are zeroed in a step."""
    tied: bool = False
    """Share word embeddings between input and softmax (models over word ids)."""

    def __post_init__(self) -> None:
        """Validate the dropout rates."""
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
    """Duration, hardware, logging and checkpoints of a run."""

    epochs: float = 10.0
    """Passes over the text or the examples."""
    max_steps: int | None = None
    """Maximum number of steps, regardless of epochs."""
    seed: int = 1
    """Random seed of weights, order, dropout and sampled candidates."""
    precision: TrainingPrecision = "float32"
    """Arithmetic precision. bfloat16: mixed precision with float32 weights."""
    kernel: Kernel = "auto"
    """LSTM implementation: auto, fused or cudnn; reference uses plain PyTorch for every
    operation."""
    accelerator: str = "auto"
    """Device type: cpu, cuda, or auto."""
    devices: int = 1
    """Devices per node."""
    num_nodes: int = 1
    """Number of nodes."""
    strategy: Literal["auto", "ddp"] = "auto"
    """Parallelization. auto: data parallel with several devices."""
    accumulate: int = 1
    """Parts of a batch that are processed one after another, to save memory. The result is the
    same."""
    log_every: int = 10
    """Steps between log lines."""
    evaluate_every: int | None = None
    """Steps between evaluations on the validation set. Default: once per epoch."""
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    patience: int | None = None
    """Stop after this many evaluations without improvement, once scores have started to change."""
    mlflow: bool = False
    """Also log to MLflow."""
    mlflow_store: str | None = None
    """MLflow tracking URI or folder. Default: mlruns in the training folder."""
    dry_run: bool = False
    """Print the plan and an estimate of memory, then exit."""

    def __post_init__(self) -> None:
        """Validate durations, counts, kernel and seed."""
        if not 0 < self.epochs < math.inf:
            raise ConfigError(f"epochs must be above 0 (got {self.epochs}).")
        for name in ("devices", "num_nodes", "accumulate", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)}).")
        if self.kernel not in get_args(Kernel):
            choices = ", ".join(get_args(Kernel))
            raise ConfigError(f"Unknown kernel {self.kernel!r}. Expected one of: {choices}.")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must be an integer from 0 to 2^63 - 1 (got {self.seed}).")
        for name in ("max_steps", "evaluate_every", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1 (got {value}).")


@dataclass(frozen=True)
class PretrainConfig:
    """Train a bidirectional language model on a text.

    Rerun with the same --out to resume from the last checkpoint.

    Examples:
      elmo pretrain --config tiny --data corpus --out run
      elmo pretrain --config original --data corpus --out run --devices 8 --precision bfloat16
      elmo pretrain --config small --data 'text/*.txt.gz' --out run --learning-rate 0.1 --dry-run
    """

    data: tuple[str, ...]
    """Prepared corpus, or text files and globs."""
    out: str
    """Training folder for checkpoints, log and the final model."""
    valid: tuple[str, ...] = ()
    """Validation text, if the data is text."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """Corpus preparation, if the data is text."""
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
    """Options that only apply to fine-tuning."""

    new_words: int = 2
    """Minimum count for a new word to be added to the softmax vocabulary; 0 adds none."""
    softmax_steps: int | None = None
    """Steps in which only a new softmax is trained. Default: a tenth of all steps."""
    keep_optimizer: bool = True
    """Continue with the Adagrad state of a bilm-tf checkpoint, and with its Adagrad settings unless
    flags override them."""

    def __post_init__(self) -> None:
        """Validate the counts."""
        for name in ("new_words", "softmax_steps"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} must be 0 or more (got {value}).")


@dataclass(frozen=True)
class FinetuneConfig:
    """Continue training a model on a target text.

    Prints the perplexity before and after. Rerun with the same --out to resume from the last
    checkpoint.

    Examples:
      elmo finetune --model my-elmo --data target.txt --out tuned
      elmo finetune --model elmo_weights.hdf5 --options elmo_options.json --data corpus --out tuned
    """

    model: str
    """Bundled model name, model folder, hub id, or a file of an earlier ELMo program."""
    data: tuple[str, ...]
    """Prepared corpus, or text files and globs."""
    out: str
    """Training folder for checkpoints, log and the final model."""
    valid: tuple[str, ...] = ()
    """Validation text, if the data is text."""
    options: str | None = None
    """Path of options.json. Default: next to the weights."""
    old_vocab: str | None = None
    """Vocabulary file of the model. Default: next to the weights."""
    tune: TuneConfig = field(default_factory=TuneConfig)
    """Fine-tuning."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """Corpus preparation, if the data is text."""
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(batch_size=64, reset=None))
    """Batches."""
    loss: LossConfig = field(default_factory=LossConfig)
    """Loss."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            optimizer="adamw",
            learning_rate=5e-4,
            warmup_steps=100,
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
