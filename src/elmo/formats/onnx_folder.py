"""Writer for ONNX export folders, for use without PyTorch.

A folder contains the graph and the files needed to convert words to ids.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

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
# Sections of the model config that apply to the graph, which has no mixes and no softmax.
SECTIONS = ("text", "encoder", "lstm")


def write(model: Pretrained, folder: Path, storage: Storage = "float32") -> list[str]:
    """Write an export folder atomically, replacing the files of a previous export.

    Returns one sentence for each part that is not exported, and one on how closely the graph
    matches the model. A folder that contains another model is an error.
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
    file = OnnxFile(model.config, weights, storage)
    config = to_dict(model.config)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "dtype": storage,
        "origin": model.origin,
        "notes": list(model.notes),
        "training": model.training,
        "model": {name: config[name] for name in SECTIONS},
    }
    files: dict[str, Callable[[Path], object] | None] = file.writers(GRAPH)
    contents = {
        model_folder.CHARACTERS: model_folder.dictionary_json(model.characters),
        model_folder.WORDS: model_folder.dictionary_json(model.words),
        model_folder.CARD: onnx_card(model, storage).encode("utf-8", "replace"),
        model_folder.CONFIG: model_folder.as_json(header),
    }
    for name, content in contents.items():
        files[name] = None if content is None else partial(Path.write_bytes, data=content)
    write_folder(folder, files)
    return [*omissions(model), file.fidelity]


def omissions(model: Pretrained) -> list[str]:
    """Return one sentence for each part of the model that is not exported."""
    notes = []
    if has_trained_mixes(model):
        notes.append("The trained layer mixes are not written: the graph returns every layer.")
    if model.config.n_softmax_words:
        notes.append("The softmax of the language model is not written.")
    return notes
