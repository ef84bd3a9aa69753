"""The shape of a model, as its config.json records it."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from elmo.errors import ConfigError

LayerNorm = Literal["none", "allennlp", "bilm-tf"]

# More layers than any model has; a larger number comes from a damaged file.
MAX_DEPTH = 64


@dataclass(frozen=True)
class TextConfig:
    """How strings become rows of ids."""

    tokenizer: str | None = None
    """Tokeniser applied to raw strings; none recorded means white space."""
    characters: Literal["bytes", "codepoints", "jamo", "dictionary", "none"] = "bytes"
    """Character scheme: UTF-8 bytes, code points, Korean jamo, ELMoForManyLangs' code points, or
    no characters at all."""
    max_characters: int = 50
    """Character columns of a token row, the marks of its beginning and end included."""
    special_tokens: tuple[str, str, str] = ("<S>", "</S>", "<UNK>")
    """Names of the sentence marks and of the unknown word in the table of input words."""
    cut_words: bool = False
    """Look words up cut to the characters a row has room for, as ELMoForManyLangs does."""

    def __post_init__(self) -> None:
        """Refuse a row without room for a single character."""
        if self.characters != "none" and self.max_characters < 3:
            raise ConfigError(
                f"max_characters is {self.max_characters}, but a token needs at least 3: its "
                "beginning, one character, its end"
            )


@dataclass(frozen=True)
class EncoderConfig:
    """The context-independent token encoder: character CNN, highway, word table, projection."""

    n_characters: int = 262
    """Rows of the character table, the mask row included; 0 means no characters."""
    character_dim: int = 16
    """Width of a character vector."""
    filters: tuple[tuple[int, int], ...] = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    """Convolutions as (width, count)."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation after the max over positions."""
    n_highway: int = 2
    """Highway layers after the convolutions."""
    project: bool = True
    """Whether a linear layer brings the result to the width of the LSTM."""
    n_words: int = 0
    """Rows of the word table, the mask row included; 0 means no word table."""
    word_dim: int = 0
    """Width of a word vector."""
    word_role: Literal["join", "cache"] = "join"
    """Word vectors stand beside the characters, or in their place for the words in the table."""

    def __post_init__(self) -> None:
        """Refuse an encoder without input and a width without a table."""
        if not self.n_characters and not self.n_words:
            raise ConfigError("the token encoder has neither characters nor words as its input")
        if self.n_characters and not self.filters:
            raise ConfigError("a character encoder needs at least one filter [width, count]")
        if any(width < 1 or count < 1 for width, count in self.filters):
            raise ConfigError(f"filters must be positive [width, count] pairs: {self.filters}")
        if not 0 <= self.n_highway <= MAX_DEPTH:
            raise ConfigError(f"n_highway must be from 0 to {MAX_DEPTH}, not {self.n_highway}")
        if self.word_role == "cache" and not self.n_characters:
            raise ConfigError("a word cache needs the characters it stands in for")

    @property
    def n_filters(self) -> int:
        """Width of the character part before the projection."""
        return sum(count for _, count in self.filters) if self.n_characters else 0

    @property
    def width(self) -> int:
        """Width of the encoder before the projection."""
        joined = self.word_dim if self.n_words and self.word_role == "join" else 0
        return self.n_filters + joined


@dataclass(frozen=True)
class LSTMConfig:
    """The two stacks of LSTM layers with projection."""

    cell_dim: int = 4096
    """Width of the cell."""
    projection_dim: int = 512
    """Width of a layer's input and output; equal to cell_dim means no projection."""
    n_layers: int = 2
    """Layers of each direction."""
    cell_clip: float | None = 3.0
    """The cell is clipped to plus and minus this value."""
    projection_clip: float | None = 3.0
    """The projected output is clipped to plus and minus this value."""
    residual: bool = True
    """Layers after the first add their input to their output."""
    forget_bias: float = 1.0
    """Added to the stored bias of the forget gate at run time."""

    def __post_init__(self) -> None:
        """Refuse sizes and clips that compute nothing."""
        for name in ("cell_dim", "projection_dim", "n_layers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.n_layers > MAX_DEPTH:
            raise ConfigError(f"n_layers must be at most {MAX_DEPTH}, not {self.n_layers}")
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} must be positive or absent, not {value}")
        if not math.isfinite(self.forget_bias):
            raise ConfigError(f"forget_bias must be a number, not {self.forget_bias}")

    @property
    def has_projection(self) -> bool:
        """Whether a matrix brings the cell's output to the projected width."""
        return self.cell_dim != self.projection_dim


@dataclass(frozen=True)
class MixConfig:
    """How the layers are mixed into output representations."""

    n_mixes: int = 1
    """Independent mixes over one pass."""
    layer_norm: LayerNorm = "none"
    """Layer normalisation before mixing, as one of the older programs computes it."""
    top_only: bool = False
    """Scale the top layer alone; the mix has no weights then."""

    def __post_init__(self) -> None:
        """Refuse a negative number of mixes."""
        if self.n_mixes < 0:
            raise ConfigError(
                f"the number of representations is {self.n_mixes}; 0 or more is meant"
            )


@dataclass(frozen=True)
class ModelConfig:
    """A whole model: text, token encoder, LSTMs, mixes, softmax."""

    text: TextConfig = field(default_factory=TextConfig)
    """How strings become rows of ids."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The token encoder."""
    lstm: LSTMConfig = field(default_factory=LSTMConfig)
    """The LSTM stacks."""
    mix: MixConfig = field(default_factory=MixConfig)
    """The mixes."""
    n_softmax_words: int = 0
    """Words of the softmax of the language model; 0 means the model has none."""
    softmax_cutoffs: tuple[int, ...] = ()
    """Where the clusters of an adaptive softmax begin; none means that it is a plain one."""

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together."""
        if (self.text.characters == "none") != (self.encoder.n_characters == 0):
            raise ConfigError("text.characters and encoder.n_characters disagree")
        if self.text.characters != "none":
            widest = max(width for width, _ in self.encoder.filters)
            if widest > self.text.max_characters:
                raise ConfigError(
                    f"a filter is {widest} wide, but a token has {self.text.max_characters} "
                    "characters"
                )
        cutoffs = (0, *self.softmax_cutoffs, self.n_softmax_words)
        if self.softmax_cutoffs and any(a >= b for a, b in pairwise(cutoffs)):
            raise ConfigError(
                f"the cutoffs of the adaptive softmax are {list(self.softmax_cutoffs)}; they must "
                f"grow and stay below its {self.n_softmax_words} words"
            )
        # Each cluster is a quarter as wide as the one before it.
        if self.lstm.projection_dim < 4 ** len(self.softmax_cutoffs):
            raise ConfigError(
                f"an adaptive softmax with {len(self.softmax_cutoffs)} cutoffs needs a "
                f"projection_dim of at least {4 ** len(self.softmax_cutoffs)}, not "
                f"{self.lstm.projection_dim}: take fewer"
            )
        if not self.encoder.project and self.encoder.width != self.lstm.projection_dim:
            raise ConfigError(
                f"the token encoder gives {self.encoder.width} values, the LSTM takes "
                f"{self.lstm.projection_dim}, and there is no projection between them"
            )
        cached = self.encoder.n_words and self.encoder.word_role == "cache"
        if cached and self.encoder.word_dim != self.lstm.projection_dim:
            raise ConfigError(
                f"cached token vectors are {self.encoder.word_dim} wide, the LSTM takes "
                f"{self.lstm.projection_dim}"
            )

    @property
    def n_layers(self) -> int:
        """Layers a mix sees: the token layer and those of the LSTM."""
        return self.lstm.n_layers + 1

    @property
    def dim(self) -> int:
        """Width of a word vector: both directions."""
        return 2 * self.lstm.projection_dim
