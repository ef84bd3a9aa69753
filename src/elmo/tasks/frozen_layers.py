"""The layers of a frozen ELMo: computed once for all texts of a run, kept on the disk.

A file is known by what is in it: its name is a digest of the model, the layers and the texts, so
that runs with other heads, dials or seeds share it. It is read in place. Numbers are float16, as
wide as a model that is frozen needs them.
"""

import hashlib
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.evaluate.probe_vectors import encode_in_parts
from elmo.files import atomic_path, clear_partials_of
from elmo.progress import Progress

Words = tuple[str, ...]
Vectors = NDArray[np.float16]


class LayerSource(Protocol):
    """Where the layers of texts come from."""

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Give (words, layers, dim) for each text."""


class ComputedLayers:
    """Layers computed when they are asked for."""

    def __init__(self, elmo: ELMo, layers: str) -> None:
        """Take a model.

        Args:
            elmo: gives the vectors.
            layers: all, top, or numbers such as 1,2.
        """
        self.elmo = elmo
        self.chosen = chosen_layers(elmo, layers)

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Give (words, layers, dim) for each text."""
        # Several questions may be asked of one passage.
        distinct = list(dict.fromkeys(texts))
        found = dict(zip(distinct, map(self.cut, self.encode(distinct)), strict=True))
        return [found[text] for text in texts]

    def encode(self, texts: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """Give (layers, words, dim) for each text, all layers."""
        found: list[NDArray[np.float32]] = self.elmo.encode(
            list(map(list, texts)), layers="all", precision="auto"
        )
        return found

    def cut(self, layers: NDArray[np.float32]) -> Vectors:
        """Keep the layers wanted of (layers, words, dim), words first."""
        return layers[self.chosen].swapaxes(0, 1).astype(np.float16)


class BlankLayers:
    """Zeros in the place of layers: what a step takes can be measured with them."""

    def __init__(self, elmo: ELMo, layers: str) -> None:
        """Take the shape of a model's layers; arguments as `ComputedLayers` has them."""
        self._shape = (len(chosen_layers(elmo, layers)), elmo.config.dim)

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Give (words, layers, dim) for each text."""
        return [np.zeros((len(text), *self._shape), dtype=np.float16) for text in texts]


class StoredLayers:
    """Layers on the disk, of texts that were known beforehand."""

    def __init__(self, path: Path, texts: Sequence[Words]) -> None:
        """Open the file of these texts, which are in its order."""
        self.path = path
        try:
            self._array: Vectors = np.load(path, mmap_mode="r")
        except (ValueError, EOFError, OSError) as error:
            raise FormatError(
                f"{path} is no whole file of layers: {error}; remove it, and it is written anew"
            ) from None
        ends = np.cumsum([len(text) for text in texts])
        self._places = {
            text: slice(int(end) - len(text), int(end))
            for text, end in zip(texts, ends, strict=True)
        }

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Give (words, layers, dim) for each text."""
        return [self._array[self._places[text]] for text in texts]


def chosen_layers(elmo: ELMo, layers: str) -> list[int]:
    """Give the numbers of the layers that all, top or numbers mean, from the lowest."""
    n_layers = elmo.config.n_layers
    if layers == "all":
        return list(range(n_layers))
    chosen = named_layers(layers) or [n_layers - 1]
    if chosen[-1] >= n_layers:
        raise ConfigError(f"layers is {layers}, but the model has 0 to {n_layers - 1}")
    return chosen


def named_layers(layers: str) -> list[int] | None:
    """Give the numbers that are named, from the lowest; None for all and top."""
    return None if layers in ("all", "top") else sorted(map(int, layers.split(",")))


def stored_layers(
    elmo: ELMo, fingerprint: str, layers: str, texts: Iterable[Words], folder: Path
) -> StoredLayers:
    """Compute the layers of texts and keep them, or find them where that was done before.

    Args:
        elmo: gives the vectors.
        fingerprint: of the model.
        layers: all, top, or numbers such as 1,2.
        texts: each may stand there more than once.
        folder: of such files; made where it is missing.
    """
    distinct = sorted(set(texts))
    source = ComputedLayers(elmo, layers)
    digest = hashlib.sha256(f"{fingerprint} {source.chosen}".encode())
    for text in distinct:
        # Not joined by some character, which a word may hold.
        digest.update(repr(text).encode())
    path = folder / f"{digest.hexdigest()[:24]}.npy"
    if not path.is_file():
        _write(path, source, distinct)
    return StoredLayers(path, distinct)


def _write(path: Path, source: ComputedLayers, texts: Sequence[Words]) -> None:
    shape = (sum(map(len, texts)), len(source.chosen), source.elmo.config.dim)
    size = 2 * int(np.prod(shape, dtype=np.int64))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {path.parent}: {error.strerror}") from None
    free = shutil.disk_usage(path.parent).free
    if size > free:
        raise OutputError(
            f"the layers of {shape[0]:,} words take {size / 1e9:.1f} GB, and {path.parent} has "
            f"{free / 1e9:.1f} GB left: name another --cache, or fewer --layers"
        )
    clear_partials_of(path)
    told = f"ELMo's layers ({size / 1e6:,.1f} MB)"
    sys.stderr.write(f"{told} of {shape[0]:,} words: {path}\n")
    with atomic_path(path) as partial, Progress(told, shape[0], "words") as progress:
        array = np.lib.format.open_memmap(partial, "w+", np.float16, shape)
        done = 0
        for _, vectors in encode_in_parts(source.encode, texts):
            array[done : done + vectors.shape[1]] = source.cut(vectors)
            done += vectors.shape[1]
            progress.advance(vectors.shape[1])
        array.flush()
