"""Layers of a frozen ELMo, computed once for all texts of a run and stored on disk.

The file name is a digest of the model, the layers and the texts, so that runs with different heads,
options or seeds share the file. Vectors are stored as float16, which is precise enough for a frozen
model, and the file is memory-mapped.
"""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.evaluate.probe_vectors import encode_in_parts
from elmo.files import atomic_path, clear_partials_of
from elmo.progress import Progress, progress_message
from elmo.tasks.core.example import Words

Vectors = NDArray[np.float16]


class LayerSource(Protocol):
    """Interface for sources of ELMo layers."""

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Return the ELMo layers of each text, (words, layers, dim)."""


class ComputedLayers:
    """Layer source that runs ELMo on each call."""

    def __init__(self, elmo: ELMo, layers: str) -> None:
        """Select the layers of a model: "all", "top", or layer numbers such as "1,2"."""
        self.elmo = elmo
        self.chosen = chosen_layers(elmo, layers)

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Return the ELMo layers of each text, (words, layers, dim)."""
        # Encode duplicates once: several questions can be about the same passage.
        distinct = list(dict.fromkeys(texts))
        by_text = dict(zip(distinct, map(self.select, self.encode(distinct)), strict=True))
        return [by_text[text] for text in texts]

    def encode(self, texts: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """Run ELMo and return all layers of each text, (layers, words, dim)."""
        vectors: list[NDArray[np.float32]] = self.elmo.encode(
            list(map(list, texts)), layers="all", precision="auto"
        )
        return vectors

    def select(self, layers: NDArray[np.float32]) -> Vectors:
        """Convert (layers, words, dim) to (words, selected layers, dim)."""
        return layers[self.chosen].swapaxes(0, 1).astype(np.float16)


class BlankLayers:
    """Layer source that returns zeros, used in a dry run to measure the cost of a step."""

    def __init__(self, elmo: ELMo, layers: str) -> None:
        """Determine the shape from a model; the arguments are those of `ComputedLayers`."""
        self._shape = (len(chosen_layers(elmo, layers)), elmo.config.dim)

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Return the ELMo layers of each text, (words, layers, dim)."""
        return [np.zeros((len(text), *self._shape), dtype=np.float16) for text in texts]


class StoredLayers:
    """Layer source that reads precomputed layers from a file."""

    def __init__(self, path: Path, texts: Sequence[Words]) -> None:
        """Open a file with the layers of the given texts, stored in the same order."""
        self.path = path
        try:
            self._array: Vectors = np.load(path, mmap_mode="r")
        except (ValueError, EOFError, OSError) as error:
            raise FormatError(
                f"{path} is not a complete layers file: {error}. Remove it; the next run will "
                "write it again."
            ) from None
        ends = np.cumsum([len(text) for text in texts])
        self._ranges = {
            text: slice(int(end) - len(text), int(end))
            for text, end in zip(texts, ends, strict=True)
        }

    def __call__(self, texts: Sequence[Words]) -> list[Vectors]:
        """Return the ELMo layers of each text, (words, layers, dim)."""
        return [self._array[self._ranges[text]] for text in texts]


def chosen_layers(elmo: ELMo, layers: str) -> list[int]:
    """Return the ascending indices of the layers "all", "top", or of numbers such as "1,2"."""
    n_layers = elmo.config.n_layers
    if layers == "all":
        return list(range(n_layers))
    chosen = named_layers(layers) or [n_layers - 1]
    if chosen[-1] >= n_layers:
        raise ConfigError(f"layers is {layers}, but the model only has layers 0 to {n_layers - 1}.")
    return chosen


def named_layers(layers: str) -> list[int] | None:
    """Return the layer numbers listed in an option value; None for "all" and "top"."""
    return None if layers in ("all", "top") else sorted(map(int, layers.split(",")))


def stored_layers(
    elmo: ELMo, fingerprint: str, layers: str, texts: Iterable[Words], folder: Path
) -> StoredLayers:
    """Return the stored layers of distinct texts; compute them if there is no file yet."""
    distinct = sorted(set(texts))
    source = ComputedLayers(elmo, layers)
    digest = hashlib.sha256(f"{fingerprint} {source.chosen}".encode())
    for text in distinct:
        # Do not join the words with a separator, because a word can contain any character.
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
        raise OutputError(f"Cannot create the folder {path.parent}: {error.strerror}.") from None
    free = shutil.disk_usage(path.parent).free
    if size > free:
        raise OutputError(
            f"The ELMo layers of {shape[0]:,} words need {size / 1e9:.1f} GB, but {path.parent} "
            f"has only {free / 1e9:.1f} GB free. Use another --cache folder or fewer --layers."
        )
    clear_partials_of(path)
    title = f"ELMo layers ({size / 1e6:,.1f} MB)"
    progress_message(f"{title} of {shape[0]:,} words: {path}")
    with atomic_path(path) as partial, Progress(title, shape[0], "words") as progress:
        array = np.lib.format.open_memmap(partial, "w+", np.float16, shape)
        done = 0
        for _, vectors in encode_in_parts(source.encode, texts):
            array[done : done + vectors.shape[1]] = source.select(vectors)
            done += vectors.shape[1]
            progress.advance(vectors.shape[1])
        array.flush()
