"""A folder for programs without PyTorch: an ONNX graph, and all it takes to make ids of words."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from elmo.config import Storage
from elmo.config.serialization import to_dict
from elmo.export.onnx_file import OnnxFile
from elmo.files import write_folder
from elmo.formats import model_folder
from elmo.formats.mixes import has_trained_mixes
from elmo.formats.model_card import onnx_card
from elmo.formats.pretrained import Pretrained

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
    names = (
        model_folder.CONFIG,
        GRAPH,
        GRAPH_WEIGHTS,
        model_folder.CHARACTERS,
        model_folder.WORDS,
        model_folder.CARD,
    )
    model_folder.check_target(folder, names, FORMAT)
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
        model_folder.CHARACTERS: model_folder.dictionary_json(model.characters),
        model_folder.WORDS: model_folder.dictionary_json(model.words),
        model_folder.CARD: onnx_card(model, dtype).encode("utf-8", "replace"),
        model_folder.CONFIG: model_folder.as_json(head),
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
