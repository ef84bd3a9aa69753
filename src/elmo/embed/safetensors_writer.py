"""Shards as safetensors, written sentence by sentence.

vectors         (words, dim), with all layers (words, layers, dim): a sentence lies in one piece
offsets         (sentences + 1): where its words begin and end
spelling        bytes of all words, UTF-8, one after the other
word_offsets    (words + 1): where each begins and ends in `spelling`
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The header stands first but is known last; room for it is kept, as the format allows.
HEADER_BYTES = 1024
LENGTH_BYTES = 8
NAMES = {"float16": "F16", "float32": "F32"}


class SafetensorsWriter:
    """Vectors go to the disk as they come; what is held is the words and the offsets."""

    def __init__(self, path: Path, *, all_layers: bool, storage: str) -> None:
        """Open the file.

        Args:
            path: file to write.
            all_layers: whether vectors are (layers, words, dim).
            storage: type of the numbers.
        """
        self.all_layers = all_layers
        self.storage = storage
        self._file = path.open("wb")
        self._file.write(bytes(LENGTH_BYTES + HEADER_BYTES))
        # What a word has; the first sentence tells, also one without words.
        self._shape: tuple[int, ...] = (0,)
        self._sizes: list[int] = []
        self._spelling = bytearray()
        self._word_sizes: list[int] = []

    def write(self, line: str, words: Sequence[str], vectors: NDArray[np.floating[Any]]) -> None:
        """Add a sentence."""
        if self.all_layers:
            vectors = vectors.transpose(1, 0, 2)
        self._shape = vectors.shape[1:]
        self._file.write(np.ascontiguousarray(vectors).data)
        self._sizes.append(len(words))
        for word in words:
            spelled = word.encode("utf-8")
            self._spelling += spelled
            self._word_sizes.append(len(spelled))

    def close(self) -> None:
        """Finish the file."""
        with self._file as file:
            offsets, word_offsets = _ends(self._sizes), _ends(self._word_sizes)
            header: dict[str, Any] = {}
            place = file.tell() - LENGTH_BYTES - HEADER_BYTES
            vectors = {"dtype": NAMES[self.storage], "shape": [sum(self._sizes), *self._shape]}
            header["vectors"] = {**vectors, "data_offsets": [0, place]}
            for name, kind, data in (
                ("offsets", "I64", offsets.data),
                ("word_offsets", "I64", word_offsets.data),
                ("spelling", "U8", memoryview(self._spelling)),
            ):
                shape, end = [len(data)], place + data.nbytes
                header[name] = {"dtype": kind, "shape": shape, "data_offsets": [place, end]}
                file.write(data)
                place = end
            file.seek(0)
            file.write(HEADER_BYTES.to_bytes(LENGTH_BYTES, "little"))
            file.write(json.dumps(header).encode().ljust(HEADER_BYTES))


def _ends(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
