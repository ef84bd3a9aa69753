"""Config classes for the model architecture, stored as `config.json` in a model folder."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError

LayerNorm = Literal["none", "allennlp", "bilm-tf"]

# Upper bound for numbers of layers; a larger value can only come from a damaged file.
MAX_DEPTH = 64


@dataclass(frozen=True)
class TextConfig:
    """How text is converted to the token ids that the model reads."""

    tokenizer: str | None = None
    """Tokenizer applied to raw strings. Default: split at whitespace."""
    characters: Literal["bytes", "codepoints", "jamo", "dictionary", "none"] = "bytes"
    """Character input: UTF-8 bytes, code points, Korean jamo, the character dictionary of
    ELMoForManyLangs, or none for models with word ids only."""
    max_characters: int = 50
    """Maximum number of characters per token, including the begin and end markers."""
    special_tokens: tuple[str, str, str] = ("<S>", "</S>", "<UNK>")
    """Begin-of-sentence, end-of-sentence and unknown-word tokens in the word embedding table."""
    cut_words: bool = False
    """Truncate words to max_characters before looking up their embeddings, as ELMoForManyLangs
    does."""

    def __post_init__(self) -> None:
        if self.characters != "none" and self.max_characters < 3:
            raise ConfigError(
                f"max_characters must be at least 3, for the begin marker, one character and the "
                f"end marker (got {self.max_characters})."
            )


@dataclass(frozen=True)
class EncoderConfig:
    """Context-independent token encoder.

    It consists of a character CNN, highway layers, word embeddings and a projection.
    """

    n_characters: int = 262
    """Number of rows in the character embedding table, including the mask row; 0 if there is no
    character input."""
    character_dim: int = 16
    """Dimension of the character embeddings."""
    filters: tuple[tuple[int, int], ...] = (
        (1, 32),
        (2, 32),
        (3, 64),
        (4, 128),
        (5, 256),
        (6, 512),
        (7, 1024),
    )
    """Convolution filters over characters, as (width, number of filters) pairs."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation function after max pooling."""
    n_highway: int = 2
    """Number of highway layers after the convolutions."""
    project: bool = True
    """Whether a linear layer projects the features to the input dimension of the LSTM."""
    n_words: int = 0
    """Number of rows in the word embedding table, including the mask row; 0 if there are no word
    embeddings."""
    word_dim: int = 0
    """Dimension of the word embeddings."""
    word_role: Literal["join", "cache"] = "join"
    """join: concatenate the word embeddings with the character features. cache: the word embeddings
    are precomputed token vectors, which replace the character features of the words in the
    table."""

    def __post_init__(self) -> None:
        if not self.n_characters and not self.n_words:
            raise ConfigError(
                "The token encoder has no input: both n_characters and n_words are 0."
            )
        if self.n_characters and not self.filters:
            raise ConfigError(
                "A character encoder needs at least one filter, given as [width, count]."
            )
        if any(width < 1 or count < 1 for width, count in self.filters):
            raise ConfigError(
                f"filters must be pairs of positive integers [width, count] (got {self.filters})."
            )
        if not 0 <= self.n_highway <= MAX_DEPTH:
            raise ConfigError(f"n_highway must be from 0 to {MAX_DEPTH} (got {self.n_highway}).")
        if self.word_role == "cache" and not self.n_characters:
            raise ConfigError(
                "word_role is 'cache', which requires character input (n_characters > 0)."
            )

    @property
    def n_filters(self) -> int:
        """Total number of convolution filters, which is the dimension of the character features."""
        return sum(count for _, count in self.filters) if self.n_characters else 0

    @property
    def width(self) -> int:
        """Output dimension of the encoder before the projection."""
        joined = self.word_dim if self.n_words and self.word_role == "join" else 0
        return self.n_filters + joined


@dataclass(frozen=True)
class LSTMConfig:
    """Forward and backward LSTM stacks with projection."""

    cell_dim: int = 4096
    """Dimension of the cell state."""
    projection_dim: int = 512
    """Input and output dimension of each layer. If equal to cell_dim, there is no projection."""
    n_layers: int = 2
    """Number of LSTM layers per direction."""
    cell_clip: float | None = 3.0
    """Bound to which the absolute value of the cell state is clipped. null: no clipping."""
    projection_clip: float | None = 3.0
    """Bound to which the absolute value of the projected output is clipped. null: no clipping."""
    residual: bool = True
    """Add residual connections around all layers except the first."""
    forget_bias: float = 1.0
    """Constant added to the stored forget-gate bias at run time."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "cell_dim", "projection_dim", "n_layers")
        if self.n_layers > MAX_DEPTH:
            raise ConfigError(f"n_layers must be at most {MAX_DEPTH} (got {self.n_layers}).")
        for name in ("cell_clip", "projection_clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(
                    f"{name} must be positive, or null for no clipping (got {value})."
                )
        if not math.isfinite(self.forget_bias):
            raise ConfigError(f"forget_bias must be a finite number (got {self.forget_bias}).")

    @property
    def has_projection(self) -> bool:
        """Whether the LSTM output is projected to a smaller dimension."""
        return self.cell_dim != self.projection_dim


@dataclass(frozen=True)
class MixConfig:
    """How the layers are combined into output vectors."""

    n_mixes: int = 1
    """Number of independent layer mixes."""
    layer_norm: LayerNorm = "none"
    """Layer normalization before mixing: none, or computed as in AllenNLP or bilm-tf."""
    top_only: bool = False
    """Use only the top layer, with a scale factor but without mix weights."""

    def __post_init__(self) -> None:
        if self.n_mixes < 0:
            raise ConfigError(f"n_mixes must be 0 or more (got {self.n_mixes}).")


@dataclass(frozen=True)
class ModelConfig:
    """Architecture of a complete model: text, token encoder, LSTM stacks, layer mixes, softmax."""

    text: TextConfig = field(default_factory=TextConfig)
    """Text and characters."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """Token encoder."""
    lstm: LSTMConfig = field(default_factory=LSTMConfig)
    """LSTM stacks."""
    mix: MixConfig = field(default_factory=MixConfig)
    """Layer mixes."""
    n_softmax_words: int = 0
    """Vocabulary size of the language-model softmax; 0 if the model has no softmax."""
    softmax_cutoffs: tuple[int, ...] = ()
    """Cutoffs of the adaptive softmax; empty for a full softmax."""

    def __post_init__(self) -> None:
        """Check that the sections are consistent with each other."""
        if (self.text.characters == "none") != (self.encoder.n_characters == 0):
            raise ConfigError(
                "text.characters and encoder.n_characters contradict each other "
                f"(got {self.text.characters} and {self.encoder.n_characters})."
            )
        if self.text.characters != "none":
            widest = max(width for width, _ in self.encoder.filters)
            if widest > self.text.max_characters:
                raise ConfigError(
                    f"A filter of width {widest} does not fit into a token of "
                    f"{self.text.max_characters} characters (max_characters)."
                )
        cutoffs = (0, *self.softmax_cutoffs, self.n_softmax_words)
        if self.softmax_cutoffs and any(a >= b for a, b in pairwise(cutoffs)):
            raise ConfigError(
                f"The cutoffs of the adaptive softmax must be increasing and below its vocabulary "
                f"size of {self.n_softmax_words} (got {list(self.softmax_cutoffs)})."
            )
        # The dimension shrinks by a factor of 4 from cluster to cluster.
        if self.lstm.projection_dim < 4 ** len(self.softmax_cutoffs):
            raise ConfigError(
                f"An adaptive softmax with {len(self.softmax_cutoffs)} cutoffs needs a "
                f"projection_dim of at least {4 ** len(self.softmax_cutoffs)} "
                f"(got {self.lstm.projection_dim}). Use fewer cutoffs."
            )
        if not self.encoder.project and self.encoder.width != self.lstm.projection_dim:
            raise ConfigError(
                f"The token encoder returns {self.encoder.width} dimensions, but the LSTM expects "
                f"{self.lstm.projection_dim}, and there is no projection between them."
            )
        cached = self.encoder.n_words and self.encoder.word_role == "cache"
        if cached and self.encoder.word_dim != self.lstm.projection_dim:
            raise ConfigError(
                f"Cached token vectors have {self.encoder.word_dim} dimensions, but the LSTM "
                f"expects {self.lstm.projection_dim}."
            )

    @property
    def n_layers(self) -> int:
        """Number of layers in the mix: the token layer and the LSTM layers."""
        return self.lstm.n_layers + 1

    @property
    def dim(self) -> int:
        """Dimension of the word vectors, in which both directions are concatenated."""
        return 2 * self.lstm.projection_dim
