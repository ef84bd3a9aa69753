"""Sample models in all supported formats, and assertions shared by the format tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import builders
import numpy as np
import pytest
import torch
from builders import GEOMETRIES, SENTENCES, VOCABULARY, bilm_arrays, make_options
from conftest import TINY, random_model

from elmo.config import ModelConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ElmoError
from elmo.formats import bilm_hdf5, model_folder
from elmo.text.vocabulary import Vocabulary

HDF5 = "bilm-tf / AllenNLP HDF5"
CHECKPOINT = "bilm-tf TensorFlow checkpoint"
ARCHIVE = "AllenNLP archive"
MANY_LANGS = "ELMoForManyLangs folder"


class Source(NamedTuple):
    """A model format: the `origin` its reader reports, and a function that writes a sample."""

    origin: str
    make: Callable[[Path], dict[str, Any]]
    """Write a model into a folder and return the arguments of `from_pretrained`."""


def hdf5(*, words: bool = False, softmax: bool = False, zipped: str | None = None, **layout: Any):
    geometry = GEOMETRIES[layout.pop("geometry", "plain")]

    def make(folder: Path) -> dict[str, Any]:
        options = make_options(characters=not words, **geometry)
        n_rows = len(VOCABULARY)
        arrays = bilm_arrays(options, n_words=n_rows * words, n_softmax=n_rows * softmax)
        path = builders.hdf5_folder(folder / "model", options, arrays, **layout)
        if zipped is not None:
            path = builders.zip_folder(path, folder / "144.zip", zipped)
        return {"source": path}

    return Source(HDF5, make)


def hdf5_pair(folder: Path) -> dict[str, Any]:
    path = builders.hdf5_folder(folder / "model")
    options = (path / "options.json").rename(folder / "elsewhere.json")
    return {"options": options, "weights": path / "weights.hdf5"}


def hdf5_writer_output(folder: Path) -> dict[str, Any]:
    bilm_hdf5.write(random_model(), folder / "model")
    return {"source": folder / "model"}


def hdf5_softmax_file(folder: Path) -> dict[str, Any]:
    path = builders.hdf5_folder(folder / "model", vocab="vocab.txt")
    rng = np.random.default_rng(3)
    softmax = {
        "softmax/W": builders.random_array(rng, len(VOCABULARY), 8),
        "softmax/b": builders.random_array(rng, len(VOCABULARY)),
    }
    return {"source": path, "softmax": builders.write_hdf5(folder / "softmax.hdf5", softmax)}


def hdf5_token_embeddings(folder: Path) -> dict[str, Any]:
    path = builders.hdf5_folder(folder / "model")
    table = builders.random_array(np.random.default_rng(4), len(VOCABULARY), 8)
    (folder / "words.txt").write_bytes(builders.vocabulary_bytes())
    return {
        "source": path,
        "vocab": folder / "words.txt",
        "token_embeddings": builders.write_hdf5(folder / "table.hdf5", {"embedding": table}),
    }


def checkpoint(*, words: bool = False, **changes: Any) -> Source:
    def make(folder: Path) -> dict[str, Any]:
        options = make_options(characters=not words, **changes)
        n_words = len(VOCABULARY) * words
        path = builders.checkpoint_folder(folder / "run", options, n_words=n_words)
        return {"source": path}

    return Source(CHECKPOINT, make)


def archive(name: str = "model.tar.gz", mode: str = "w:gz", **changes: Any) -> Source:
    def make(folder: Path) -> dict[str, Any]:
        folder.mkdir(exist_ok=True)
        members = builders.archive_members(**changes)
        return {"source": builders.write_tar(folder / name, members, mode)}

    return Source(ARCHIVE, make)


def state_file(name: str = "best.th", *, legacy: bool = False, **changes: Any) -> Source:
    def make(folder: Path) -> dict[str, Any]:
        folder.mkdir(exist_ok=True)
        state = builders.tagger_state(**changes)
        (folder / name).write_bytes(builders.torch_bytes(state, legacy=legacy))
        return {"source": folder / name}

    return Source(ARCHIVE, make)


def serialization(*, packed: bool) -> Source:
    return Source(
        ARCHIVE,
        lambda folder: {"source": builders.serialization_folder(folder / "run", packed=packed)},
    )


def many_langs(*, zipped: str | None = None, **changes: Any) -> Source:
    def make(folder: Path) -> dict[str, Any]:
        path = builders.many_langs_folder(folder / "zh.model", **changes)
        if zipped is not None:
            path = builders.zip_folder(path, folder / "179.zip", zipped)
        return {"source": path}

    return Source(MANY_LANGS, make)


def model_folder_source(folder: Path) -> dict[str, Any]:
    config = ModelConfig(TINY.text, TINY.encoder, TINY.lstm, n_softmax_words=len(VOCABULARY))
    model = random_model(config, vocabulary=Vocabulary(VOCABULARY), notes=("a correction",))
    model_folder.write(model, folder / "model")
    return {"source": folder / "model"}


SOURCES: dict[str, Source] = {
    **{f"hdf5, {name}": hdf5(geometry=name) for name in GEOMETRIES},
    "hdf5, written by bilm_hdf5": Source(HDF5, hdf5_writer_output),
    "hdf5, options elsewhere": Source(HDF5, hdf5_pair),
    "hdf5, softmax included": hdf5(softmax=True, vocab="vocab.txt"),
    "hdf5, softmax file": Source(HDF5, hdf5_softmax_file),
    "hdf5, token embeddings": Source(HDF5, hdf5_token_embeddings),
    "hdf5, word ids": hdf5(words=True, vocab="vocab.txt"),
    "hdf5, word ids, one layer": hdf5(words=True, vocab="vocab.txt", geometry="one layer"),
    "NLPL folder": hdf5(weights="model.hdf5", vocab="vocab.txt"),
    "NLPL folder, gzipped vocabulary": hdf5(weights="model.hdf5", vocab="vocab.txt.gz"),
    "NLPL zip": hdf5(weights="model.hdf5", vocab="vocab.txt", zipped=""),
    "NLPL zip, top folder": hdf5(weights="model.hdf5", vocab="vocab.txt", zipped="144/"),
    "checkpoint": checkpoint(),
    "checkpoint, one layer": checkpoint(layers=1),
    "checkpoint, word ids": checkpoint(words=True),
    "archive": archive(),
    "archive, old pickle": archive(legacy=True),
    "archive, uncompressed": archive("model.tar", "w"),
    "archive, options included": archive(options=make_options()),
    "best.th": state_file(),
    "best.th, old pickle": state_file(legacy=True),
    "bare module, two mixes": state_file("elmo.pt", prefix="", n_mixes=2),
    "serialization folder": serialization(packed=False),
    "serialization folder, packed": serialization(packed=True),
    "many langs": many_langs(),
    "many langs, new pickle": many_langs(legacy=False),
    "many langs, zip": many_langs(zipped=""),
    "many langs, zip, top folder": many_langs(zipped="zh/"),
    "many langs, no words": many_langs(word_dim=0),
    "many langs, no characters": many_langs(char_dim=0),
    "elmo-torch folder": Source("random model", model_folder_source),
}


# ------------------------------------------------------------------ assertions


def assert_error(
    call: Callable[[], object], *phrases: str, error_type: type[ElmoError] = ElmoError
) -> str:
    """Check that a call raises a one-line error with the given phrases; return its message."""
    with pytest.raises(error_type) as caught:
        call()
    message = str(caught.value)
    assert message
    assert "\n" not in message
    for phrase in phrases:
        assert phrase in message
    return message


def assert_same_model(actual: ELMo, expected: ELMo) -> None:
    """Check that two models have identical configs, weights, dictionaries and vectors."""
    assert actual.config == expected.config
    assert actual.tokenizer.name == expected.tokenizer.name
    assert actual.origin == expected.origin
    assert actual.notes == expected.notes
    first, second = actual.to_pretrained(), expected.to_pretrained()
    assert first.characters == second.characters
    assert first.words == second.words
    assert _words(first.vocabulary) == _words(second.vocabulary)
    assert first.weights.keys() == second.weights.keys()
    for name, tensor in second.weights.items():
        assert torch.equal(first.weights[name], tensor), name
    for a, b in zip(
        actual.encode(SENTENCES, layers="all"),
        expected.encode(SENTENCES, layers="all"),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def _words(vocabulary: Vocabulary | None) -> tuple[str, ...] | None:
    return None if vocabulary is None else tuple(vocabulary.words)


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return the content of all files under a folder by path, with None for subfolders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
