"""Config classes of the commands `elmo lm`."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from elmo.config.bounds import require_at_least_one
from elmo.config.language_models import (
    AveragingConfig,
    Cell,
    RecurrentConfig,
    RecurrentDropoutConfig,
    RecurrentRunConfig,
    SamplingConfig,
    SegmentConfig,
    SymbolConfig,
    TextSampleConfig,
)
from elmo.config.training import LossConfig, OptimizerConfig
from elmo.errors import ConfigError


@dataclass(frozen=True)
class LMTrainConfig:
    """Train a recurrent language model on a text.

    Rerun with the same --out to resume from the last checkpoint.

    Examples:
      elmo lm train shakespeare.txt --out run
      elmo lm train shakespeare.txt --out run --config shakespeare --cell gru
      elmo lm train ptb.train.txt --valid ptb.valid.txt --out run --unit words --tied
    """

    text: tuple[str, ...]
    """Text files or globs. Several files are joined in the given order."""
    out: str
    """Training folder for checkpoints, logs and the final model."""
    valid: tuple[str, ...] = ()
    """Files of the validation text. Default: the end of the text."""
    test: tuple[str, ...] = ()
    """Files of the test text, which is evaluated once, after training."""
    symbols: SymbolConfig = field(default_factory=SymbolConfig)
    """Symbols and held-out text."""
    network: RecurrentConfig = field(default_factory=RecurrentConfig)
    """Network."""
    segments: SegmentConfig = field(default_factory=SegmentConfig)
    """Batches."""
    loss: LossConfig = field(default_factory=LossConfig)
    """Loss."""
    label_smoothing: float = 0.0
    """Share of the target probability that is spread over all symbols. Only with --softmax full."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(
            optimizer="adamw",
            learning_rate=3e-3,
            warmup_steps=100,
            schedule="cosine",
            beta2=0.99,
            clip_norm=1.0,
        )
    )
    """Optimizer."""
    regularization: RecurrentDropoutConfig = field(default_factory=RecurrentDropoutConfig)
    """Regularization."""
    averaging: AveragingConfig = field(default_factory=AveragingConfig)
    """Weight averages."""
    samples: TextSampleConfig = field(default_factory=TextSampleConfig)
    """Samples."""
    run: RecurrentRunConfig = field(default_factory=lambda: RecurrentRunConfig(epochs=10))
    """Run."""

    def __post_init__(self) -> None:
        """Validate options that depend on each other."""
        if self.network.word_input == "characters" and self.symbols.unit != "words":
            raise ConfigError("word_input: characters needs unit: words.")
        self._require_used_symbol_options()
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ConfigError(
                f"label_smoothing must be at least 0 and below 1 (got {self.label_smoothing})."
            )
        if self.label_smoothing and self.loss.softmax != "full":
            raise ConfigError("label_smoothing is only supported with softmax: full.")
        self._require_used_width()
        if self.network.tied and self.loss.softmax != "full":
            raise ConfigError("tied is only supported with softmax: full.")
        for name in ("devices", "num_nodes", "accumulate"):
            if getattr(self.run, name) != 1:
                raise ConfigError(f"{name} must be 1 for recurrent language models.")
        if not (self.valid or self.symbols.valid_fraction):
            for is_set, option in (
                (self.averaging.average == "triggered", "average: triggered"),
                (self.run.patience is not None, "patience"),
            ):
                if is_set:
                    raise ConfigError(f"{option} needs held-out text.")

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect; see `WithUnusedOptions`."""
        if self.valid and self.symbols.valid_fraction:
            return {"valid_fraction": "with valid"}
        return {}

    def _require_used_symbol_options(self) -> None:
        """Raise an error if an option of other symbols is set.

        Not a check of `SymbolConfig`, so that existing models can be read.
        """
        symbols = self.symbols
        if symbols.tokenizer != SymbolConfig.tokenizer and symbols.unit != "words":
            raise ConfigError("tokenizer is only supported with unit: words.")
        if symbols.min_count != SymbolConfig.min_count and symbols.unit == "bytes":
            raise ConfigError("min_count is not supported with unit: bytes.")

    def _require_used_width(self) -> None:
        """Raise an error if the width of a single layer is set, but not used.

        Not a check of `RecurrentConfig`, so that existing models can be read.
        """
        network = self.network
        name = "projection_dim" if network.cell == "lstmp" else "hidden_dim"
        width, used = getattr(network, name), network.softmax_dim
        if network.n_layers == 1 and width not in (None, used):
            raise ConfigError(
                f"{name} ({width}) has no effect on a tied network of one layer, whose output has "
                f"the dimension of the input vectors ({used}). Set both to the same value, or omit "
                "--tied or --embedding-dim."
            )


@dataclass(frozen=True)
class LMSampleConfig:
    """Write text with a language model.

    The text appears while it is written. Models of `elmo lm train` and ELMo models with a softmax
    can write; an ELMo model can also write from right to left.

    Examples:
      elmo lm sample run --prompt "KING:" --temperature 0.8
      elmo lm sample run --prompt "KING:" --n 5 --length 200 --top-p 0.9 --seed 7
      elmo lm sample run --prompt "KING:" --clamp 1:37=0.9
      elmo lm sample small-en --prompt "The old town" --length 40 --temperature 0.7
      elmo lm sample small-en --prompt "of the old town." --length 40 --direction backward
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "ELMo models": ("direction", "options", "vocab", "softmax"),
    }

    model: str
    """Folder written by `elmo lm train`, or an ELMo model with a softmax: name of a bundled or
    downloaded model, model folder, hub id, or a model file from another ELMo implementation."""
    prompt: str = ""
    """Beginning of the text; with --direction backward its end. Default: a new line."""
    n: int = 1
    """Number of texts. Each has its own random numbers; the first is that of --n 1."""
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    """Sampling."""
    clamp: tuple[str, ...] = ()
    """Set a hidden unit to a value at every step: layer:unit=value, or layer:unit:cell=value for
    its cell. Layers and units begin at 0. For an ELMo model, they are those of --direction."""
    direction: Literal["forward", "backward"] = "forward"
    """backward: write from right to left. The prompt is then the end of the text, which begins
    after --stop."""
    options: str | None = None
    """Path to options.json. Default: next to the weights file."""
    vocab: str | None = None
    """Path to the vocabulary file. Default: next to the weights file."""
    softmax: str | None = None
    """HDF5 file with the softmax weights, if they are stored separately."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""

    def __post_init__(self) -> None:
        """Validate the number of texts."""
        if self.n < 1:
            raise ConfigError(f"n must be at least 1 (got {self.n}).")


@dataclass(frozen=True)
class LMEvaluateConfig:
    """Measure the loss of a language model on a text.

    The result is in nats per symbol, bits per character and perplexity. The first symbol is
    predicted after a line break.

    Examples:
      elmo lm evaluate run test.txt
      elmo lm evaluate run test.txt --batch-size 32
      elmo lm evaluate run test.txt --clamp 1:37=0
      elmo lm evaluate run test.txt --dynamic-rate 0.1
    """

    GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {
        "Dynamic evaluation": ("dynamic_rate", "dynamic_decay", "dynamic_unroll"),
    }

    model: str
    """Folder written by `elmo lm train`."""
    text: tuple[str, ...]
    """Text files or globs, or - for standard input. Several files are joined in the given order."""
    state: Literal["carry", "reset"] = "carry"
    """carry: carry the state through the whole text. reset: start from zero every --unroll
    symbols."""
    batch_size: int = 1
    """Number of parts of the text that are read at the same time, which is faster. Each part first
    reads 512 symbols before it, so the loss changes very little."""
    unroll: int = 256
    """Number of time steps per segment. Without --state reset it only affects speed and memory."""
    clamp: tuple[str, ...] = ()
    """Also measure the loss while a hidden unit is set to a value at every step, and its change:
    layer:unit=value, or layer:unit:cell=value for its cell. Layers and units begin at 0. Several
    clamps apply together."""
    dynamic_rate: float | None = None
    """Also measure the loss while the weights adapt to the text, with this learning rate. It must
    not be compared with losses of fixed weights."""
    dynamic_decay: float = 0.0
    """Fraction by which the weights return to the trained ones after each update."""
    dynamic_unroll: int = 20
    """Number of symbols between two updates."""
    device: str | None = None
    """Device, such as cpu or cuda. Default: cuda if available."""

    def __post_init__(self) -> None:
        """Validate sizes and the options of dynamic evaluation."""
        if self.clamp and self.dynamic_rate is not None:
            raise ConfigError("clamp and dynamic_rate are both given. Remove one of them.")
        require_at_least_one(self, "batch_size", "unroll", "dynamic_unroll")
        if not 0.0 <= self.dynamic_decay <= 1.0:
            raise ConfigError(
                f"dynamic_decay must be a fraction from 0 to 1 (got {self.dynamic_decay})."
            )
        if self.dynamic_rate is None:
            for name in ("dynamic_decay", "dynamic_unroll"):
                if getattr(self, name) != getattr(LMEvaluateConfig, name):
                    raise ConfigError(f"{name} needs dynamic_rate.")
        elif not 0.0 < self.dynamic_rate <= 1e3:
            raise ConfigError(
                f"dynamic_rate must be above 0 and at most 1000 (got {self.dynamic_rate})."
            )


@dataclass(frozen=True)
class LMInfoConfig:
    """Describe a language model and compare its loss with others.

    Examples:
      elmo lm info run
      elmo lm info run --json
    """

    model: str
    """Folder written by `elmo lm train`."""


@dataclass(frozen=True)
class ComparedNetworkConfig(RecurrentConfig):
    """Architecture of the compared language models, apart from the cells, depths and widths."""

    def _require_options_of_cell(self) -> None:
        """Accept options of all cells: the cell can be replaced by those to compare."""


@dataclass(frozen=True)
class LMCompareConfig(LMTrainConfig):
    """Train several language models and compare them.

    Every combination of cells, depths and widths is trained with the same options. Several --config
    are compared with each other, each with its own cell, depth and width or with all given ones.

    Each model is in a subfolder of --out. Finished runs are not repeated, so the same command
    resumes an interrupted comparison.

    Examples:
      elmo lm compare shakespeare.txt --out grid --cells '[rnn, gru, lstm]' --depths '[1, 2, 3]'
      elmo lm compare linux.c --out grid --config char-small --widths '[64, 128, 256]'
      elmo lm compare shakespeare.txt --out grid --config char-small --config shakespeare
    """

    network: ComparedNetworkConfig = field(default_factory=ComparedNetworkConfig)
    """Network."""
    cells: tuple[Cell, ...] = ()
    """Cells to compare. Default: rnn, gru and lstm; with several --config the cell of each."""
    depths: tuple[int, ...] = ()
    """Numbers of layers to compare. Default: 1, 2 and 3; with several --config that of each."""
    widths: tuple[int, ...] = ()
    """Numbers of hidden units per layer to compare. Default: 128; with several --config that of
    each."""

    def __post_init__(self) -> None:
        """Validate the lists."""
        super().__post_init__()
        for name in ("cells", "depths", "widths"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ConfigError(f"{name} must have each value only once.")
        for name in ("depths", "widths"):
            if min(getattr(self, name), default=1) < 1:
                raise ConfigError(f"{name} must be at least 1 (got {getattr(self, name)}).")

    def _require_used_width(self) -> None:
        """Accept any width: it is that of the network to which the lists apply."""
