"""Writer for shards in the safetensors format, with the following tensors.

vectors         (words, dim), or (words, layers, dim) for all layers: a sentence is contiguous
offsets         (sentences + 1): index of the first word of each sentence, and the total
spelling        concatenated UTF-8 bytes of all words
word_offsets    (words + 1): offset of each word in `spelling`, and the total
values          UTF-8 bytes of one JSON object per sentence, with the values carried from the input
value_offsets   (sentences + 1): offset of each object in `values`, and the total

If the vectors are pooled, `vectors` has one row per sentence, and the metadata says so.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.embed.host_arrays import HostArray

# The header comes first in the file but is known last. The format allows padding it, so a fixed
# size is reserved.
HEADER_BYTES = 1024
LENGTH_BYTES = 8
# Key in the metadata of a file with one vector per sentence.
POOLED = "pooled"
DTYPE_NAMES = {"float16": "F16", "float32": "F32"}


class SafetensorsWriter:
    """Writes vectors to disk immediately, and words and offsets when the file is closed."""

    def __init__(
        self,
        path: Path,
        *,
        all_layers: bool,
        storage: str,
        pooled: bool = False,
        shape: tuple[int, ...] = (0,),
    ) -> None:
        """Open the file; `vector_writers.open_shard` documents the arguments."""
        self.all_layers = all_layers
        self.pooled = pooled
        self.storage = storage
        self._file = path.open("wb")
        self._file.write(bytes(LENGTH_BYTES + HEADER_BYTES))
        self._shape = shape
        self._sizes: list[int] = []
        self._spelling = bytearray()
        self._word_sizes: list[int] = []
        self._values = bytearray()
        self._value_sizes: list[int] = []

    def write(
        self,
        line: str,
        words: Sequence[str],
        vectors: HostArray,
        values: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        """Add a sentence."""
        if values:
            encoded = json.dumps(dict(values), ensure_ascii=False).encode("utf-8")
            self._values += encoded
            self._value_sizes.append(len(encoded))
        if self.pooled:
            vectors = vectors[None]
        elif self.all_layers:
            vectors = vectors.transpose(1, 0, 2)
        self._shape = vectors.shape[1:]
        self._file.write(np.ascontiguousarray(vectors).data)
        self._sizes.append(len(words))
        for word in words:
            encoded = word.encode("utf-8")
            self._spelling += encoded
            self._word_sizes.append(len(encoded))

    def close(self) -> None:
        """Write the words, the offsets and the header, and close the file."""
        with self._file as file:
            offsets, word_offsets = _offsets(self._sizes), _offsets(self._word_sizes)
            header: dict[str, Any] = {}
            position = file.tell() - LENGTH_BYTES - HEADER_BYTES
            vectors = {
                "dtype": DTYPE_NAMES[self.storage],
                "shape": [len(self._sizes) if self.pooled else sum(self._sizes), *self._shape],
            }
            header["vectors"] = {**vectors, "data_offsets": [0, position]}
            if self.pooled:
                header["__metadata__"] = {POOLED: "true"}
            tensors = [
                ("offsets", "I64", offsets.data),
                ("word_offsets", "I64", word_offsets.data),
                ("spelling", "U8", memoryview(self._spelling)),
            ]
            if self._value_sizes:
                tensors += [
                    ("value_offsets", "I64", _offsets(self._value_sizes).data),
                    ("values", "U8", memoryview(self._values)),
                ]
            for name, dtype, data in tensors:
                shape, end = [len(data)], position + data.nbytes
                header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, end]}
                file.write(data)
                position = end
            file.seek(0)
            file.write(HEADER_BYTES.to_bytes(LENGTH_BYTES, "little"))
            file.write(json.dumps(header).encode().ljust(HEADER_BYTES))


def _offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
