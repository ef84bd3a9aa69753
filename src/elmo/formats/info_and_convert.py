"""The verbs `info` and `convert`: say what a model file is; turn it into another format."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.config import ConvertConfig, InfoConfig, Storage
from elmo.config.serialization import to_dict
from elmo.errors import ConfigError
from elmo.formats import bilm_hdf5, model_folder, onnx_folder
from elmo.formats.load import read
from elmo.formats.model_card import describe
from elmo.formats.training_record import with_labels

_FORMATS = ("native", "allennlp", "onnx")


@dataclass(frozen=True)
class InfoResult:
    """What a model is.

    Attributes:
        rows: format, geometry and vocabulary, for people.
        notes: what was mended or assumed while reading.
        config: every dial, as plain data.
        as_json: whether to print JSON.
    """

    rows: dict[str, str | int]
    notes: tuple[str, ...]
    config: dict[str, Any]
    as_json: bool = False

    def __str__(self) -> str:
        """Lay the rows out as a table, or give everything as JSON."""
        if self.as_json:
            content = {**self.rows, "notes": list(self.notes), "config": self.config}
            return json.dumps(content, indent=2)
        width = max(map(len, self.rows))
        lines = [
            f"{name:<{width}}  {f'{value:,}' if isinstance(value, int) else value}"
            for name, value in self.rows.items()
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def info(config: InfoConfig) -> InfoResult:
    """Say what a model file or folder is: format, geometry, vocabulary, what was mended."""
    model = read(config.model, options=config.options)
    rows = describe(model)
    if model.storage is not None:
        rows["weights"] = model.storage
    if model.vocabulary is not None:
        rows["vocabulary"] = f"{len(model.vocabulary):,} words"
    for name, value in with_labels(model.training).items():
        rows[f"trained: {name}"] = str(value)
    return InfoResult(rows, model.notes, to_dict(model.config), config.json)


@dataclass(frozen=True)
class ConvertResult:
    """What `convert` did.

    Attributes:
        output: the folder written.
        origin: the kind of file that was read.
        to: the format written.
        dtype: how the weights are stored.
        notes: what was mended or assumed on the way.
    """

    output: str
    origin: str
    to: str
    dtype: Storage
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a line, and a line for each note."""
        storage = "" if self.dtype == "float32" else f" in {self.dtype}"
        first = f"{self.output}: written as {self.to}{storage}, read from {self.origin}"
        return "\n".join([first, *(f"note: {note}" for note in self.notes)])


def convert(config: ConvertConfig) -> ConvertResult:
    """Turn any readable model into our folder, AllenNLP's files or an ONNX graph."""
    if config.to not in _FORMATS:
        raise ConfigError(f"to is {config.to!r}; expected {', '.join(_FORMATS)}")
    if config.to == "allennlp" and config.tokenizer is not None:
        raise ConfigError("AllenNLP's format has no place for a tokeniser: leave --tokenizer out")
    if config.to == "allennlp" and config.dtype != "float32":
        raise ConfigError(
            f"AllenNLP's format holds float32 alone, dtype is {config.dtype!r}: leave --dtype out"
        )
    model = read(
        config.model,
        options=config.options,
        vocab=config.vocab,
        softmax=config.softmax,
        token_embeddings=config.token_embeddings,
    )
    if config.tokenizer is not None:
        model = model.with_tokenizer(config.tokenizer)
    notes = model.notes
    if config.to == "allennlp":
        bilm_hdf5.write(model, Path(config.output))
        notes += tuple(bilm_hdf5.left_out(model))
    elif config.to == "onnx":
        notes += tuple(onnx_folder.write(model, Path(config.output), config.dtype))
    else:
        model_folder.write(model, Path(config.output), config.dtype)
    return ConvertResult(config.output, model.origin, config.to, config.dtype, notes)
