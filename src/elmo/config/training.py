"""Everything a training run can set. Presets are YAML files of these fields (`elmo/presets`).

Leaf names are unique over the whole of a verb's config, so that each is one flag.
"""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from elmo.config.corpus import CorpusConfig
from elmo.config.model import EncoderConfig, LSTMConfig
from elmo.errors import ConfigError

Kernel = Literal["auto", "fused", "cudnn", "reference"]


@dataclass(frozen=True)
class InputConfig:
    """What a token is to the model."""

    characters: Literal["bytes", "codepoints", "jamo", "none"] = "bytes"
    """Characters of a word: UTF-8 bytes, code points, Korean jamo, or none (word ids)."""
    max_characters: int | None = 50
    """Characters of a token, two marks included; null fits them to the text."""
    character_dim: int = 16
    """Width of a character vector."""
    filters: tuple[tuple[int, int], ...] = EncoderConfig.filters
    """Convolutions as [width, count] pairs."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation after the max over positions."""
    n_highway: int = 2
    """Highway layers after the convolutions."""
    word_dim: int = 0
    """Width of a word vector beside the characters, or instead of them; 0 means none."""

    def __post_init__(self) -> None:
        """Refuse a token without input."""
        if self.max_characters is not None and self.max_characters < 3:
            raise ConfigError(f"max_characters is {self.max_characters}; at least 3 are needed")
        if self.character_dim < 1 or self.word_dim < 0:
            raise ConfigError("character_dim must be at least 1, word_dim at least 0")
        if self.characters == "none" and not self.word_dim:
            raise ConfigError("characters is none and word_dim is 0: the model would have no input")


@dataclass(frozen=True)
class StreamConfig:
    """How the corpus becomes batches."""

    batch_size: int = 128
    """Rows of a batch over all processes; each is a stream of its own."""
    unroll: int = 20
    """Steps of a window; gradients stop at its ends."""
    order: Literal["shuffled", "text"] = "shuffled"
    """shuffled: sentences in random order; text: each row reads a part of the text as it stands."""
    directions: Literal["together", "independent"] = "together"
    """together: both directions read the same sentences at a time; independent: as bilm-tf."""
    reset: float | None = 0.0
    """Share of sentences that start from the zero state: 0 carries it on as bilm-tf, 1 always; null
    fine-tunes a model as it was trained."""

    def __post_init__(self) -> None:
        """Refuse empty windows."""
        for name in ("batch_size", "unroll"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.reset is not None and not 0.0 <= self.reset <= 1.0:
            raise ConfigError(f"reset is {self.reset}; a share from 0 to 1 is meant")
        if self.order == "text" and self.directions == "independent":
            raise ConfigError("directions are independent in shuffled order only")


@dataclass(frozen=True)
class LossConfig:
    """What is minimised."""

    softmax: Literal["full", "sampled", "adaptive"] = "full"
    """full: all words; sampled: a few candidates, as bilm-tf; adaptive: rare words in clusters."""
    n_samples: int = 8192
    """sampled: candidates drawn for each direction and step."""
    cutoffs: tuple[int, ...] = (4000, 20000)
    """adaptive: where the clusters of rarer words begin."""
    unigram_bias: bool = True
    """A new softmax begins with every word as likely as its count says, not all alike."""

    def __post_init__(self) -> None:
        """Refuse a sample of nothing."""
        if self.n_samples < 1:
            raise ConfigError(f"n_samples is {self.n_samples}; it must be at least 1")


@dataclass(frozen=True)
class OptimizerConfig:
    """How weights move."""

    optimizer: Literal["adagrad", "adamw"] = "adagrad"
    """adagrad: as bilm-tf; adamw: with warm-up and decay."""
    learning_rate: float = 0.2
    """Highest learning rate."""
    accumulator: float = 1.0
    """adagrad: where the sums of squares begin."""
    warmup_steps: int = 0
    """Steps in which the rate rises from 0."""
    schedule: Literal["constant", "cosine"] = "constant"
    """What the rate does after the warm-up."""
    final_rate: float = 0.0
    """cosine: share of the rate that is left at the end."""
    weight_decay: float = 0.0
    """adamw: decay of matrices."""
    beta1: float = 0.9
    """adamw: decay of the mean."""
    beta2: float = 0.999
    """adamw: decay of the squares."""
    clip_norm: float = 10.0
    """Gradients are scaled down to this norm over all weights; 0 never."""
    loss_scale: float | None = None
    """The loss is multiplied by this before the gradient; null takes unroll for adagrad, else 1."""

    def __post_init__(self) -> None:
        """Refuse rates that move nothing or everything."""
        for name in ("learning_rate", "accumulator", "loss_scale"):
            value = getattr(self, name)
            # float32 ends at 3e38; a rate beyond 1e6 is a slip of the keyboard.
            if value is not None and not 0 < value <= 1e6:
                raise ConfigError(f"{name} is {value}; it must be above 0, and 1e6 at most")
        for name in ("warmup_steps", "weight_decay", "clip_norm"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; from 0 to below 1 is meant")
        if not 0 <= self.final_rate <= 1:
            raise ConfigError(f"final_rate is {self.final_rate}; a share from 0 to 1 is meant")
        if self.weight_decay and self.optimizer != "adamw":
            raise ConfigError("weight_decay is for adamw; adagrad has none")


@dataclass(frozen=True)
class RegularizationConfig:
    """What keeps a model from learning its text by heart."""

    dropout: float = 0.0
    """Dropout of the input of every LSTM layer and of the output."""
    input_dropout: float | None = None
    """Dropout of the first layer's input, where it is another."""
    output_dropout: float | None = None
    """Dropout of the output before the softmax, where it is another."""
    locked: bool = False
    """One dropout mask for all steps of a window, not a fresh one at each step."""
    weight_drop: float = 0.0
    """Dropout of recurrent weights."""
    embedding_dropout: float = 0.0
    """Share of word types whose vectors are left out of a step."""
    tied: bool = False
    """Words as input share their vectors with the softmax."""

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        for name in (
            "dropout",
            "input_dropout",
            "output_dropout",
            "weight_drop",
            "embedding_dropout",
        ):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < 1.0:
                raise ConfigError(f"{name} is {value}; a share from 0 to below 1 is meant")


@dataclass(frozen=True)
class RunConfig:
    """How long, where and with which reports."""

    epochs: float = 10.0
    """How often all of the text, or all examples, are read."""
    max_steps: int | None = None
    """Stop after this many steps, whatever the epochs."""
    seed: int = 1
    """Of weights, order, dropout and candidates."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Arithmetic."""
    kernel: Kernel = "auto"
    """Implementation of the LSTM: auto, fused, cudnn; reference is the plain one of everything."""
    accelerator: str = "auto"
    """cpu, cuda, or what there is."""
    devices: int = 1
    """Devices on each node."""
    num_nodes: int = 1
    """Machines."""
    strategy: Literal["auto", "ddp"] = "auto"
    """How devices share the work: data parallel where there are several."""
    accumulate: int = 1
    """Parts the batch is cut into, one after another on a device: less memory, the same result."""
    log_every: int = 10
    """Steps between lines of the log."""
    evaluate_every: int | None = None
    """Steps between evaluations on the part to choose by; once an epoch where none is said."""
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    patience: int | None = None
    """Stop after this many evaluations without a better score, once scores have begun to move."""
    mlflow: bool = False
    """Also log to MLflow."""
    mlflow_store: str | None = None
    """MLflow store: a folder or an address; mlruns in the training folder where none is named."""
    dry_run: bool = False
    """Print what would be done and how long it would take, and stop."""

    def __post_init__(self) -> None:
        """Refuse runs without an end or a beginning."""
        if not 0 < self.epochs < math.inf:
            raise ConfigError(f"epochs is {self.epochs}; it must be above 0")
        for name in ("devices", "num_nodes", "accumulate", "log_every", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.kernel not in get_args(Kernel):
            known = ", ".join(get_args(Kernel))
            raise ConfigError(f"kernel is {self.kernel!r}; expected one of {known}")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed is {self.seed}; a whole number from 0 to 2^63 is meant")
        for name in ("max_steps", "evaluate_every", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")


@dataclass(frozen=True)
class PretrainConfig:
    """Train a bidirectional language model on a text.

    Started again with the same folder, it goes on from its last checkpoint.

    Examples:
      elmo pretrain --config tiny --data corpus --out run
      elmo pretrain --config original --data corpus --out run --devices 8 --precision bf16-mixed
      elmo pretrain --config small --data 'text/*.txt.gz' --out run --learning-rate 0.1 --dry-run
    """

    data: tuple[str, ...]
    """A prepared corpus, or text files and globs."""
    out: str
    """Training folder: checkpoints, log, and the model at the end."""
    valid: tuple[str, ...] = ()
    """Validation text, where the data is text."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """How a corpus is made, where the data is text."""
    input: InputConfig = field(default_factory=InputConfig)
    """What a token is."""
    lstm: LSTMConfig = field(default_factory=LSTMConfig)
    """The LSTM stacks."""
    stream: StreamConfig = field(default_factory=StreamConfig)
    """Batches."""
    loss: LossConfig = field(default_factory=LossConfig)
    """The loss."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The optimiser."""
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)
    """Regularisers."""
    run: RunConfig = field(default_factory=RunConfig)
    """The run."""


@dataclass(frozen=True)
class TuneConfig:
    """What fine-tuning adds to a run."""

    new_words: int = 2
    """Words seen at least this often join the vocabulary; 0 adds none."""
    softmax_steps: int | None = None
    """Steps in which a new softmax learns alone, the rest frozen; a tenth of all by default."""
    keep_optimizer: bool = True
    """Go on with the sums of squares that a bilm-tf checkpoint holds; and with its Adagrad as it
    was, unless flags say otherwise."""

    def __post_init__(self) -> None:
        """Refuse negative numbers."""
        if self.new_words < 0 or (self.softmax_steps or 0) < 0:
            raise ConfigError("new_words and softmax_steps must be 0 or more")


@dataclass(frozen=True)
class FinetuneConfig:
    """Go on with any readable model on a target text, and say what it brought.

    Examples:
      elmo finetune --model my-elmo --data target.txt --out tuned
      elmo finetune --model elmo_weights.hdf5 --options elmo_options.json --data corpus --out tuned
    """

    model: str
    """Model: a bundled name, a folder, a hub id or any older program's file."""
    data: tuple[str, ...]
    """A prepared corpus, or text files and globs."""
    out: str
    """Training folder: checkpoints, log, and the model at the end."""
    valid: tuple[str, ...] = ()
    """Validation text, where the data is text."""
    options: str | None = None
    """options.json, where it does not lie beside the weights."""
    old_vocab: str | None = None
    """Vocabulary of the model, where it does not lie beside the weights."""
    tune: TuneConfig = field(default_factory=TuneConfig)
    """What fine-tuning adds."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """How a corpus is made, where the data is text."""
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(batch_size=64, reset=None))
    """Batches."""
    loss: LossConfig = field(default_factory=LossConfig)
    """The loss."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            optimizer="adamw",
            learning_rate=5e-4,
            warmup_steps=100,
            schedule="cosine",
            clip_norm=1.0,
        )
    )
    """The optimiser."""
    regularization: RegularizationConfig = field(
        default_factory=lambda: RegularizationConfig(dropout=0.1)
    )
    """Regularisers."""
    run: RunConfig = field(default_factory=lambda: RunConfig(epochs=3.0, patience=3))
    """The run."""
