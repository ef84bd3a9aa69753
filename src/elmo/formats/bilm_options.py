"""Conversion between bilm-tf's options.json and `ModelConfig`.

bilm-tf's `n_characters` is 261 during training and 262 afterwards; both are accepted.
"""

from collections.abc import Mapping
from sys import float_info
from typing import Literal

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.errors import ConfigError, FormatError
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT


class Section:
    """A JSON object with typed accessors whose errors name the full path of the key."""

    def __init__(self, data: object, label: str) -> None:
        if not isinstance(data, dict):
            raise FormatError(f"{label} is of type {type(data).__name__}, expected a JSON object.")
        self.data: dict[str, object] = data
        self.label = label

    def section(self, name: str) -> "Section":
        """Return a nested JSON object."""
        return Section(self.required(name), f"{self.label}.{name}")

    def boolean(self, name: str) -> bool:
        """Return a boolean, or False if the key is missing."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, bool):
            raise FormatError(f"{self.label}.{name} is {value!r}, expected true or false.")
        return bool(value)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a non-negative integer."""
        value = self.data.get(name, default) if default is not None else self.required(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise FormatError(
                f"{self.label}.{name} is {value!r}, expected an integer of at least 0."
            )
        return value

    def clip(self, name: str) -> float | None:
        """Return a clip value (non-negative float), or None if the key is missing."""
        value = self.data.get(name)
        if value is None:
            return None
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not 0 <= value <= float_info.max
        ):
            raise FormatError(
                f"{self.label}.{name} is {value!r}, expected a positive number or null."
            )
        return float(value)

    def activation(self) -> Literal["relu", "tanh"]:
        """Return the activation function of the character CNN."""
        value = self.data.get("activation")
        if value not in ("relu", "tanh"):
            raise FormatError(f"{self.label}.activation is {value!r}, expected relu or tanh.")
        return value

    def filters(self) -> tuple[tuple[int, int], ...]:
        """Return the (width, count) pairs of the character CNN filters."""
        value = self.data.get("filters")
        if not _is_filters(value):
            raise FormatError(f"{self.label}.filters is {value!r}, expected [width, count] pairs.")
        assert isinstance(value, list)
        return tuple((width, count) for width, count in value)

    def required(self, name: str) -> object:
        """Return the value of a key that must be present."""
        if name not in self.data:
            names = ", ".join(map(str, self.data)) or "none"
            raise FormatError(f"{self.label} has no key {name!r}. Its keys are: {names}.")
        return self.data[name]


def config_from_options(
    options: object,
    label: str,
    n_words: int = 0,
) -> tuple[ModelConfig, list[str]]:
    """Build a model config from bilm-tf options, ignoring keys that only affect training.

    Models that read word ids have an embedding of `n_words` rows. The result also has one sentence
    for each value that was corrected or assumed.
    """
    top = Section(options, label)
    if "lstm" not in top.data:
        raise FormatError(f"{label} has no lstm section, so it is not the options.json of a biLM.")
    if top.data.get("bidirectional") is False:
        raise FormatError(
            f"{label}: this is a unidirectional language model, which cannot be read as a biLM."
        )
    try:
        lstm, notes = _lstm(top.section("lstm"))
        if "char_cnn" not in top.data:
            dim = lstm.projection_dim
            encoder = EncoderConfig(
                n_characters=0,
                filters=(),
                n_highway=0,
                project=False,
                n_words=n_words + SHIFT,
                word_dim=dim,
            )
            return ModelConfig(TextConfig(characters="none"), encoder, lstm), notes
        cnn = top.section("char_cnn")
        encoder, encoder_notes = _encoder(cnn, lstm.projection_dim)
        text = TextConfig(max_characters=cnn.integer("max_characters_per_token"))
        return ModelConfig(text, encoder, lstm), notes + encoder_notes
    except ConfigError as error:
        raise FormatError(f"{label}: {error}") from None


def _lstm(section: Section) -> tuple[LSTMConfig, list[str]]:
    notes = []
    clips = {name: section.clip(name) for name in ("cell_clip", "proj_clip")}
    for name, value in clips.items():
        if value == 0:
            notes.append(f"{name} is 0: treated as no clipping, as in AllenNLP.")
    config = LSTMConfig(
        cell_dim=section.integer("dim"),
        projection_dim=section.integer("projection_dim"),
        n_layers=section.integer("n_layers", default=1),
        cell_clip=clips["cell_clip"] or None,
        projection_clip=clips["proj_clip"] or None,
        residual=section.boolean("use_skip_connections"),
    )
    return config, notes


def _encoder(section: Section, projection_dim: int) -> tuple[EncoderConfig, list[str]]:
    notes = []
    n_characters = section.integer("n_characters", default=N_BYTE_CHARACTERS + SHIFT)
    if n_characters == N_BYTE_CHARACTERS:
        notes.append("n_characters is 261, the value used during training: read as 262.")
    elif n_characters != N_BYTE_CHARACTERS + SHIFT:
        raise FormatError(
            f"{section.label}.n_characters is {n_characters}, expected 262 (or 261, as used "
            "during training)."
        )
    filters = section.filters()
    config = EncoderConfig(
        n_characters=N_BYTE_CHARACTERS + SHIFT,
        character_dim=section.section("embedding").integer("dim"),
        filters=filters,
        activation=section.activation(),
        n_highway=section.integer("n_highway", default=0) if section.data.get("n_highway") else 0,
        project=sum(count for _, count in filters) != projection_dim,
    )
    return config, notes


def _is_filters(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(item) is int for item in pair)
        for pair in value
    )


def options_from_config(
    config: ModelConfig, original: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return the options.json content that bilm-tf and AllenNLP need for a byte-character model.

    The options that the model was loaded with are returned unchanged, except that `n_characters` is
    set to 262.
    """
    encoder, lstm = config.encoder, config.lstm
    if original is not None:
        characters = Section(dict(original), "options").section("char_cnn").data
        return {**original, "char_cnn": {**characters, "n_characters": encoder.n_characters}}
    return {
        "lstm": {
            "use_skip_connections": lstm.residual,
            "projection_dim": lstm.projection_dim,
            "cell_clip": lstm.cell_clip,
            "proj_clip": lstm.projection_clip,
            "dim": lstm.cell_dim,
            "n_layers": lstm.n_layers,
        },
        "char_cnn": {
            "activation": encoder.activation,
            "filters": [list(pair) for pair in encoder.filters],
            "n_highway": encoder.n_highway,
            "embedding": {"dim": encoder.character_dim},
            "n_characters": encoder.n_characters,
            "max_characters_per_token": config.text.max_characters,
        },
    }
