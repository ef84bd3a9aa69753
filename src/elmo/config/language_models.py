"""Config classes of recurrent language models over characters, bytes or words (`elmo lm`)."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from elmo.config.bounds import require_at_least_one, require_type
from elmo.config.training import LossConfig, OptimizerConfig, RunConfig
from elmo.errors import ConfigError

Unit = Literal["characters", "bytes", "words"]
Cell = Literal["rnn", "gru", "lstm", "lstmp"]


@dataclass(frozen=True)
class SymbolConfig:
    """Symbols of a language model, and the parts of its text."""

    unit: Unit = "characters"
    """What the model predicts: Unicode characters, bytes, or words. Bytes accept any file."""
    tokenizer: str = "whitespace"
    """Words: tokenizer applied to each line (whitespace, english, korean, or spacy:NAME)."""
    strip_lines: bool = False
    """Remove white space at both ends of each line, as in the character version of the Penn
    Treebank."""
    min_count: int = 1
    """Minimum number of occurrences for a character or word to be a symbol of its own; all others
    are <UNK>."""
    vocab_size: int | None = None
    """Words: maximum number of different words."""
    valid_fraction: float = 0.1
    """Fraction of the text that is held out for validation, without --valid. It is the end of the
    text, before the part for --test-fraction."""
    test_fraction: float = 0.0
    """Fraction at the end of the text that is held out for testing, without --test."""

    def __post_init__(self) -> None:
        """Validate counts and fractions."""
        require_at_least_one(self, "min_count", "vocab_size")
        if self.vocab_size is not None and self.unit != "words":
            raise ConfigError("vocab_size is only supported with unit: words.")
        for name in ("valid_fraction", "test_fraction"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(
                    f"{name} must be at least 0 and below 1 (got {getattr(self, name)})."
                )
        if self.valid_fraction + self.test_fraction >= 1.0:
            raise ConfigError("valid_fraction and test_fraction must leave text for training.")


@dataclass(frozen=True)
class RecurrentConfig:
    """Architecture of a recurrent language model."""

    cell: Cell = "lstm"
    """Recurrent cell: simple RNN, GRU, LSTM, or LSTM with projection."""
    n_layers: int = 2
    """Number of recurrent layers."""
    hidden_dim: int = 256
    """Number of hidden units per layer; with lstmp the number of cells."""
    projection_dim: int | None = None
    """lstmp: dimension of the projected output. Default: half of --hidden-dim."""
    nonlinearity: Literal["tanh", "relu"] = "tanh"
    """rnn: activation function."""
    embedding_dim: int | None = None
    """Dimension of the input vectors. Default: the dimension of the output of a layer."""
    tied: bool = False
    """Use the input vectors as weights of the softmax too. The output of the last layer then has
    the dimension of the input vectors."""
    word_input: Literal["ids", "characters"] = "ids"
    """Words: input vector from a table with one row per word, or from a CNN over the characters of
    the word."""
    character_dim: int = 16
    """Dimension of the character vectors of the CNN."""
    filters: tuple[tuple[int, int], ...] = (
        (1, 64),
        (2, 128),
        (3, 192),
        (4, 192),
        (5, 192),
        (6, 192),
        (7, 192),
    )
    """Convolution filters of the CNN, as [width, count] pairs."""
    n_highway: int = 2
    """Number of highway layers after the convolutions."""
    mogrifier_rounds: int = 0
    """lstm: number of rounds in which input and state gate each other before each step (Mogrifier
    LSTM)."""
    mogrifier_rank: int | None = None
    """Rank of the matrices of the Mogrifier gates. Default: full matrices."""

    def __post_init__(self) -> None:
        """Validate dimensions and conflicting options."""
        require_at_least_one(self, "n_layers", "hidden_dim", "character_dim")
        require_at_least_one(self, "projection_dim", "embedding_dim", "mogrifier_rank")
        for name in ("n_highway", "mogrifier_rounds"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more (got {getattr(self, name)}).")
        if not self.filters or any(width < 1 or count < 1 for width, count in self.filters):
            raise ConfigError(
                "filters must have at least one pair of positive integers [width, count] (got "
                f"{[list(pair) for pair in self.filters]})."
            )
        if self.mogrifier_rank is not None and not self.mogrifier_rounds:
            raise ConfigError("mogrifier_rank needs mogrifier_rounds.")
        self._require_options_of_cell()

    def _require_options_of_cell(self) -> None:
        """Raise an error if an option of another cell is set."""
        if self.projection_dim is not None and self.cell != "lstmp":
            raise ConfigError("projection_dim is only supported with cell: lstmp.")
        if self.nonlinearity != "tanh" and self.cell != "rnn":
            raise ConfigError("nonlinearity is only supported with cell: rnn.")
        if self.mogrifier_rounds and self.cell != "lstm":
            raise ConfigError("mogrifier_rounds is only supported with cell: lstm.")

    @property
    def output_dim(self) -> int:
        """Dimension of the output of all layers but the last."""
        if self.cell != "lstmp":
            return self.hidden_dim
        return self.projection_dim or max(1, self.hidden_dim // 2)

    @property
    def input_dim(self) -> int:
        """Dimension of the input vectors."""
        return self.embedding_dim or self.output_dim

    @property
    def softmax_dim(self) -> int:
        """Dimension of the output of the last layer."""
        return self.input_dim if self.tied else self.output_dim

    @property
    def layer_dims(self) -> tuple[tuple[int, int], ...]:
        """Number of hidden units (of cells with lstmp) and dimension of the output of each layer.

        The last layer of a tied network has as many units as its output has dimensions.
        """
        outputs = [self.output_dim] * (self.n_layers - 1) + [self.softmax_dim]
        return tuple((self.hidden_dim if self.cell == "lstmp" else n, n) for n in outputs)


@dataclass(frozen=True)
class RecurrentModelConfig:
    """A trained recurrent language model, stored as `config.json` in its folder."""

    unit: Unit
    """What the model predicts."""
    n_symbols: int
    """Number of symbols, including <UNK>."""
    network: RecurrentConfig
    """Architecture."""
    tokenizer: str = "whitespace"
    """Words: tokenizer."""
    strip_lines: bool = False
    """Whether white space at both ends of each line of a text file is removed."""
    max_characters: int = 0
    """Input from characters: maximum number of characters per word, with begin and end markers."""
    softmax_cutoffs: tuple[int, ...] = ()
    """Adaptive softmax: ranks at which its clusters begin; empty for a full softmax."""

    def __post_init__(self) -> None:
        """Check that the clusters of an adaptive softmax have at least one dimension."""
        # The dimension shrinks by a factor of 4 from cluster to cluster.
        smallest = 4 ** len(self.softmax_cutoffs)
        if self.network.softmax_dim < smallest:
            raise ConfigError(
                f"An adaptive softmax with {len(self.softmax_cutoffs)} cutoffs needs an output "
                f"dimension of at least {smallest} (got {self.network.softmax_dim}). Use fewer "
                "--cutoffs or a larger --hidden-dim."
            )


@dataclass(frozen=True)
class SegmentConfig:
    """How a text is divided into batches for truncated BPTT."""

    batch_size: int = 32
    """Number of batch rows. Each row reads its own contiguous part of the text."""
    unroll: int = 64
    """Number of time steps per segment. Gradients do not cross the border of a segment."""
    state: Literal["carry", "reset"] = "carry"
    """carry: a segment starts from the state at the end of the segment before it. reset: from
    zero."""

    def __post_init__(self) -> None:
        """Validate sizes."""
        require_at_least_one(self, "batch_size", "unroll")


@dataclass(frozen=True)
class RecurrentDropoutConfig:
    """Regularization of a recurrent language model."""

    dropout: float = 0.0
    """Dropout on the input of every layer and on the output of the last one."""
    input_dropout: float | None = None
    """Dropout on the input of the first layer. Default: same as --dropout."""
    output_dropout: float | None = None
    """Dropout on the output before the softmax. Default: same as --dropout."""
    state_dropout: float = 0.0
    """Dropout on the hidden state before the recurrent product, with the same mask at all time
    steps of a segment."""
    locked: bool = True
    """Use the same dropout mask at all time steps of a segment (variational dropout)."""
    embedding_dropout: float = 0.0
    """Fraction of the symbols whose input vectors are zeroed in a segment, at all positions."""
    weight_drop: float = 0.0
    """Dropout on the recurrent weights (DropConnect)."""
    activation_penalty: float = 0.0
    """Weight of the mean square of the output of the last layer in the loss."""
    slowness_penalty: float = 0.0
    """Weight of the mean squared change of this output from step to step in the loss."""

    def __post_init__(self) -> None:
        """Validate rates and weights."""
        for name in (
            "dropout",
            "input_dropout",
            "output_dropout",
            "state_dropout",
            "embedding_dropout",
            "weight_drop",
        ):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < 1.0:
                raise ConfigError(f"{name} must be at least 0 and below 1 (got {value}).")
        for name in ("activation_penalty", "slowness_penalty"):
            if not 0.0 <= getattr(self, name) <= 1e6:
                raise ConfigError(f"{name} must be 0 or more (got {getattr(self, name)}).")


@dataclass(frozen=True)
class AveragingConfig:
    """Averages of the weights, which are evaluated and saved instead of the weights."""

    average: Literal["none", "ema", "triggered"] = "none"
    """ema: exponential moving average. triggered: mean of all steps since the held-out loss stopped
    improving (NT-ASGD)."""
    average_decay: float = 0.999
    """ema: decay per step."""
    average_patience: int = 5
    """triggered: number of evaluations without improvement before the mean begins."""

    def __post_init__(self) -> None:
        """Validate decay and patience."""
        if not 0.0 <= self.average_decay < 1.0:
            raise ConfigError(
                f"average_decay must be at least 0 and below 1 (got {self.average_decay})."
            )
        require_at_least_one(self, "average_patience")


@dataclass(frozen=True)
class TextSampleConfig:
    """Text that the model writes while it learns."""

    sample_every: int | None = None
    """Number of steps between samples. Default: a sample after each evaluation. 0: no samples."""
    sample_length: int = 200
    """Number of symbols per sample."""
    sample_prompt: str = ""
    """Beginning of each sample."""
    sample_temperature: float = 0.8
    """Temperature of the samples."""

    def __post_init__(self) -> None:
        """Validate numbers."""
        if self.sample_every is not None and self.sample_every < 0:
            raise ConfigError(f"sample_every must be 0 or more (got {self.sample_every}).")
        require_at_least_one(self, "sample_length")
        if not 0.0 <= self.sample_temperature < math.inf:
            raise ConfigError(
                f"sample_temperature must be 0 or more (got {self.sample_temperature})."
            )


@dataclass(frozen=True)
class SamplingConfig:
    """How symbols are drawn from the probabilities of a language model."""

    length: int = 500
    """Number of symbols to write: characters, bytes, or words and line breaks."""
    temperature: float = 1.0
    """Divisor of the logits. Below 1, likely symbols become more likely; 0 always writes the most
    likely symbol."""
    top_k: int | None = None
    """Only draw from this number of most likely symbols."""
    top_p: float | None = None
    """Only draw from the most likely symbols that together have this probability, after --top-k."""
    seed: int = 1
    """Seed of the random numbers. The same seed writes the same text."""
    stop: str | None = None
    """String before which the text ends. It is searched for after the prompt."""

    def __post_init__(self) -> None:
        """Validate types and numbers."""
        for name in ("length", "seed", "top_k"):
            require_type(name, getattr(self, name), "an integer", optional=name == "top_k")
        for name in ("temperature", "top_p"):
            require_type(name, getattr(self, name), "a number", optional=name == "top_p")
        require_type("stop", self.stop, "a string", optional=True)
        for name in ("length", "seed"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more (got {getattr(self, name)}).")
        if not 0.0 <= self.temperature < math.inf:
            raise ConfigError(
                f"temperature must be 0 or more (got {self.temperature}). 0 writes the most likely "
                "symbols."
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k must be at least 1 (got {self.top_k}).")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise ConfigError(f"top_p must be above 0 and at most 1 (got {self.top_p}).")
        if self.stop == "":
            raise ConfigError("stop must not be empty. Omit it to write the whole length.")


@dataclass(frozen=True)
class RecurrentRunConfig(RunConfig):
    """Duration, hardware, logging and checkpoints of the training of a language model."""

    kernel: Literal["auto", "cudnn", "reference"] = "auto"
    """Implementation of the recurrent layers. reference: plain PyTorch, slow."""


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

    def check_given(self, given: Collection[str]) -> None:
        """Raise an error if an option that the user gave has no effect with the others.

        Values of presets and config files are not checked: another option can make them unused.
        """
        if self.valid and self.symbols.valid_fraction and "valid_fraction" in given:
            raise ConfigError("Both --valid and --valid-fraction are given. Remove one of them.")
        optimizer, average, softmax = self.optimizer, self.averaging.average, self.loss.softmax
        for names, has_effect, condition in (
            (("average_decay",), average == "ema", "without average: ema"),
            (("average_patience",), average == "triggered", "without average: triggered"),
            (
                ("character_dim", "filters", "n_highway"),
                self.network.word_input == "characters",
                "without word_input: characters",
            ),
            (("n_samples",), softmax == "sampled", "without softmax: sampled"),
            (("unigram_bias",), softmax != "adaptive", "with softmax: adaptive"),
            (("cutoffs",), softmax == "adaptive", "without softmax: adaptive"),
            (("accumulator",), optimizer.optimizer == "adagrad", "without optimizer: adagrad"),
            (
                ("beta1", "beta2"),
                optimizer.optimizer != "adagrad",
                "with optimizer: adagrad",
            ),
            (
                ("sample_length", "sample_prompt", "sample_temperature"),
                self.samples.sample_every != 0,
                "with sample_every: 0",
            ),
            (("mlflow_store",), self.run.mlflow, "without mlflow"),
        ):
            for name in names:
                if name in given and not has_effect:
                    raise ConfigError(f"{name} has no effect {condition}.")

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
