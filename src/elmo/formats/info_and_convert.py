"""The `info` command, which describes a model, and `convert`, which changes its format."""

from dataclasses import dataclass, field
from pathlib import Path

from elmo.config import ConvertConfig, InfoConfig, Storage
from elmo.config.serialization import to_dict
from elmo.errors import ConfigError
from elmo.formats import bilm_hdf5, model_folder, onnx_folder
from elmo.formats.attribution import DERIVED_FROM, published_attribution
from elmo.formats.load import is_training_folder, locate, read
from elmo.formats.model_card import describe, format_value, label
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import with_labels
from elmo.kernels.kernel_summary import summarize_kernels

_FORMATS = ("native", "allennlp", "onnx")


@dataclass(frozen=True)
class InfoResult:
    """Description of a model, a prepared corpus or vectors.

    The notes are corrections and assumptions made while reading. `config` has the recorded settings
    as JSON-compatible data, `training` the training record of a model.
    """

    rows: dict[str, str | int]
    notes: tuple[str, ...]
    config: dict[str, object]
    training: dict[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return the description as JSON-compatible data."""
        details = {"training": self.training, "notes": list(self.notes), "config": self.config}
        return {**self.rows, **details}

    def __str__(self) -> str:
        rows: dict[str, object] = {label(name): value for name, value in self.rows.items()}
        rows |= with_labels(self.training)
        width = max(map(len, rows))
        lines = [f"{name:<{width}}  {format_value(value)}" for name, value in rows.items()]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def info(config: InfoConfig) -> InfoResult:
    """Describe a model: format, architecture, vocabulary, origin, and corrections made."""
    path = locate(config.model)
    model = read(path, options=config.options)
    rows = describe(model)
    if model.storage is not None:
        rows["weights"] = model.storage
    if model.vocabulary is not None:
        rows["vocabulary"] = f"{len(model.vocabulary):,} words"
    lstm = model.config.lstm
    rows["kernels"] = summarize_kernels(lstm.cell_dim, lstm.projection_dim)
    if DERIVED_FROM in published_attribution(path):  # the published model itself, not a copy
        rows.pop(DERIVED_FROM, None)
    # The model of a training run is in a subfolder.
    cards = [folder / model_folder.CARD for folder in (path, path / "model")]
    card = next((card for card in cards if card.is_file()), None)
    if card is not None:
        rows["model_card"] = str(card)
    return InfoResult(rows, model.notes, to_dict(model.config), dict(model.training or {}))


@dataclass(frozen=True)
class ConvertResult:
    """Result of `convert`, with notes on corrections and on parts that were not written."""

    out: str
    origin: str
    to: str
    storage: Storage
    notes: tuple[str, ...]

    def __str__(self) -> str:
        storage = "" if self.storage == "float32" else f" in {self.storage}"
        summary = f"{self.out}: written as {self.to}{storage}, read from {self.origin}"
        return "\n".join([summary, *(f"note: {note}" for note in self.notes)])


def convert(config: ConvertConfig) -> ConvertResult:
    """Convert a model in any supported format to a model folder, AllenNLP files or ONNX."""
    if config.to not in _FORMATS:
        raise ConfigError(
            f"Unknown output format {config.to!r} (--to). Expected one of: {', '.join(_FORMATS)}."
        )
    if config.to == "allennlp" and config.tokenizer is not None:
        raise ConfigError("AllenNLP's format cannot store a tokenizer. Omit --tokenizer.")
    if config.to == "allennlp" and config.storage != "float32":
        raise ConfigError(
            f"AllenNLP's format stores float32 only, not {config.storage!r}. Omit --storage."
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
    out = Path(config.out)
    if out.is_dir() and any(out.iterdir()):
        notes += (f"{out} existed; files with the same names were replaced.",)
    if config.to == "allennlp":
        bilm_hdf5.write(model, out)
        notes += tuple(bilm_hdf5.omissions(model))
    elif config.to == "onnx":
        notes += tuple(onnx_folder.write(model, out, config.storage))
    else:
        model_folder.write(model, out, config.storage)
    return ConvertResult(config.out, _source(config.model, model), config.to, config.storage, notes)


def _source(path: str, model: Pretrained) -> str:
    """Return what a model was read from; its origin can be an earlier format."""
    if model.storage is None:
        return model.origin
    source = model_folder.ORIGIN
    if is_training_folder(Path(path).expanduser()):
        source = "elmo-torch training folder"
    if model.origin == model_folder.ORIGIN:
        return source
    return f"{source} (first read from {model.origin})"
