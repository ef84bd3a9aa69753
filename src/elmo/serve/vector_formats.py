"""Vectors in answers: JSON with numbers or base64, and safetensors files.

The functions yield parts of the text, which are encoded in a few milliseconds each.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from elmo.serve.limited_send import PART_BYTES
from elmo.serve.long_answer import AnswerTurns, LongAnswer, record_parts

VectorFormat = Literal["json", "base64"]
Vectors = NDArray[np.float32]

SAFETENSORS = "application/octet-stream"
# Numbers that are encoded at a time.
PART_VALUES = 16_384
# Bytes that are encoded in base64 at a time, a multiple of 3.
BASE64_BYTES = 3 * 2**16
_LENGTH_BYTES = 8


def as_numbers(vectors: Vectors) -> Iterator[bytes]:
    """Yield vectors as lists of numbers."""
    if vectors.ndim == 1 or vectors.size <= PART_VALUES:
        yield orjson.dumps(np.ascontiguousarray(vectors), option=orjson.OPT_SERIALIZE_NUMPY)
        return
    start = b"["
    for row in vectors:
        yield start
        yield from as_numbers(row)
        start = b","
    yield b"]"


def as_array_record(vectors: Vectors) -> Iterator[bytes]:
    """Yield vectors as an object with dtype, shape and base64."""
    record = {"dtype": "float32", "shape": vectors.shape}
    yield from record_parts(record, "base64", as_base64(vectors))


def as_base64(vectors: Vectors) -> Iterator[bytes]:
    """Yield float32 numbers in base64, as the OpenAI API does."""
    data = little_endian(vectors)
    yield b'"'
    for start in range(0, len(data), BASE64_BYTES):
        yield base64.b64encode(data[start : start + BASE64_BYTES])
    yield b'"'


def little_endian(vectors: Vectors) -> memoryview:
    """Return the bytes of vectors."""
    return np.ascontiguousarray(vectors, dtype="<f4").reshape(-1).view(np.uint8).data


def safetensors_answer(
    vectors: Sequence[Vectors], metadata: Mapping[str, object], turns: AnswerTurns
) -> LongAnswer:
    """Return a safetensors file with the arrays "0", "1", ....

    Args:
        vectors: The arrays.
        metadata: Metadata of the file. Values that are not strings are written as JSON.
        turns: Turns of all answers.
    """
    header: dict[str, object] = {
        "__metadata__": {
            name: value if isinstance(value, str) else orjson.dumps(value).decode()
            for name, value in metadata.items()
        }
    }
    position = 0
    for number, values in enumerate(vectors):
        end = position + values.nbytes
        offsets = [position, end]
        header[str(number)] = {"dtype": "F32", "shape": values.shape, "data_offsets": offsets}
        position = end
    text = orjson.dumps(header)
    text = text.ljust(len(text) + -len(text) % _LENGTH_BYTES)

    def parts() -> Iterator[bytes | memoryview]:
        yield len(text).to_bytes(_LENGTH_BYTES, "little") + text
        for values in vectors:
            data = little_endian(values)
            for start in range(0, len(data), PART_BYTES):
                yield data[start : start + PART_BYTES]

    return LongAnswer(parts(), turns, SAFETENSORS, _LENGTH_BYTES + len(text) + position)
