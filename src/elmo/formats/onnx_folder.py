"""A folder for programs without PyTorch: an ONNX graph, and all it takes to make ids of words."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from elmo.config import Storage
from elmo.export.onnx_file import OnnxFile
from elmo.files import write_folder
from elmo.formats import native
from elmo.formats.card import onnx_card
from elmo.formats.mixes import has_trained_mixes
from elmo.formats.pretrained import Pretrained
from elmo.plain import to_dict

FORMAT = "elmo-torch onnx"
VERSION = 1
GRAPH = "model.onnx"
GRAPH_WEIGHTS = f"{GRAPH}.data"
# Of a model's dials, those that others than its mixes and its softmax have.
SECTIONS = ("text", "encoder", "lstm")


def write(model: Pretrained, folder: Path, dtype: Storage = "float32") -> list[str]:
    """Write a folder, all of it or nothing; files of an older export in it are replaced.

    Args:
        model: what is written.
        folder: made where it does not exist; one with another model in it is refused.
        dtype: how the graph stores weights.

    Returns:
        What is not in it, and how near it is to the model, in sentences.
    """
    names = (native.CONFIG, GRAPH, GRAPH_WEIGHTS, native.CHARACTERS, native.WORDS, native.CARD)
    native.check_target(folder, names, FORMAT)
    prefix = "bilm."
    weights = {
        name.removeprefix(prefix): value
        for name, value in model.weights.items()
        if name.startswith(prefix)
    }
    file = OnnxFile(model.config, weights, dtype)
    dials = to_dict(model.config)
    head = {
        "format": FORMAT,
        "version": VERSION,
        "dtype": dtype,
        "origin": model.origin,
        "notes": list(model.notes),
        "training": model.training,
        "model": {name: dials[name] for name in SECTIONS},
    }
    files: dict[str, Callable[[Path], Any] | None] = file.writers(GRAPH)
    contents = {
        native.CHARACTERS: native.dictionary_json(model.characters),
        native.WORDS: native.dictionary_json(model.words),
        native.CARD: onnx_card(model, dtype).encode("utf-8", "replace"),
        native.CONFIG: native.as_json(head),
    }
    for name, content in contents.items():
        files[name] = None if content is None else partial(Path.write_bytes, data=content)
    write_folder(folder, files)
    return [*left_out(model), file.fidelity]


def left_out(model: Pretrained) -> list[str]:
    """Say what of a model the graph does not have, in sentences."""
    notes = []
    if has_trained_mixes(model):
        notes.append("the trained mixes are not written: the graph gives every layer")
    if model.config.n_softmax_words:
        notes.append("the softmax of the language model is not written")
    return notes
