"""Config sections of recurrent language models over characters, bytes or words."""

import math
from dataclasses import dataclass
from typing import Literal

from elmo.config.bounds import require_at_least_one, require_type
from elmo.config.training import RunConfig
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

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect; see `WithUnusedOptions`."""
        if self.word_input == "characters":
            return {}
        names = ("character_dim", "filters", "n_highway")
        return dict.fromkeys(names, "without word_input: characters")

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

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect; see `WithUnusedOptions`."""
        unused = {}
        if self.average != "ema":
            unused["average_decay"] = "without average: ema"
        if self.average != "triggered":
            unused["average_patience"] = "without average: triggered"
        return unused


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

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect; see `WithUnusedOptions`."""
        if self.sample_every != 0:
            return {}
        names = ("sample_length", "sample_prompt", "sample_temperature")
        return dict.fromkeys(names, "with sample_every: 0")


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
