"""Answers with vectors: JSON with numbers or base64, and safetensors files."""

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.types import Receive, Scope, Send

from elmo.lab.pages.page_data import encode_array

VectorFormat = Literal["json", "base64"]
Vectors = NDArray[np.float32]

SAFETENSORS = "application/octet-stream"
# Longer answers are sent part by part.
MAX_WHOLE_VALUES = 65_536
# Sending a part takes as long as copying about this many bytes, so small arrays are joined.
PART_BYTES = 2**18
_LENGTH_BYTES = 8


class AnswerTurns:
    """Turns of answers: between two parts, of any answers, the event loop looks for requests.

    The answers to a batch are ready at once. Without turns, a new request, even if it is to be
    rejected, would wait until all of them are encoded.
    """

    def __init__(self) -> None:
        """Create turns for the answers of a server."""
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for the next turn."""
        async with self._lock:
            await asyncio.sleep(0)


class VectorAnswer:
    """An ASGI answer that consists of parts, which are computed while it is sent."""

    def __init__(
        self,
        parts: Iterator[bytes],
        media_type: str,
        turns: AnswerTurns,
        *,
        is_short: bool,
        n_bytes: int | None = None,
    ) -> None:
        """Create the answer.

        Args:
            parts: Parts of the body.
            media_type: Type of the body.
            turns: Turns of all answers.
            is_short: Whether to join the parts first.
            n_bytes: Length of the body, if it is known.
        """
        self._parts, self._media_type, self._turns = parts, media_type, turns
        self._is_short, self._n_bytes = is_short, n_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        await self._turns.next()
        if self._is_short:
            body = b"".join(self._parts)
            await self._start(send, len(body))
            await send({"type": "http.response.body", "body": body})
            return
        await self._start(send, self._n_bytes)
        for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await self._turns.next()
        await send({"type": "http.response.body", "body": b""})

    async def _start(self, send: Send, n_bytes: int | None) -> None:
        headers = [(b"content-type", self._media_type.encode())]
        if n_bytes is not None:
            headers.append((b"content-length", str(n_bytes).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})


def json_answer(
    head: Mapping[str, object],
    items: Sequence[dict[str, object]],
    vectors: Sequence[Vectors],
    turns: AnswerTurns,
    *,
    name: str,
    encode: Callable[[Vectors], object],
    list_name: str = "sentences",
) -> VectorAnswer:
    """Return JSON with a list of items, each with vectors.

    Args:
        head: Fields before the list, at least one.
        items: Fields of each item.
        vectors: Vectors of each item.
        turns: Turns of all answers.
        name: Name of the field with the vectors.
        encode: `as_numbers`, `as_array_record` or `as_base64`.
        list_name: Name of the field with the list.
    """

    def parts() -> Iterator[bytes]:
        yield orjson.dumps(head)[:-1] + b',"' + list_name.encode() + b'":['
        comma = b""
        for item, values in zip(items, vectors, strict=True):
            record = {**item, name: encode(values)}
            yield comma + orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY)
            comma = b","
        yield b"]}"

    is_short = sum(values.size for values in vectors) <= MAX_WHOLE_VALUES
    return VectorAnswer(parts(), "application/json", turns, is_short=is_short)


def as_numbers(vectors: Vectors) -> object:
    """Return vectors as they are, which orjson writes as lists of numbers."""
    return np.ascontiguousarray(vectors)


def as_array_record(vectors: Vectors) -> object:
    """Return vectors as an object with dtype, shape and base64."""
    return encode_array(vectors)


def as_base64(vectors: Vectors) -> object:
    """Return float32 numbers in base64, as the OpenAI API does."""
    return base64.b64encode(vectors.astype("<f4", copy=False).tobytes()).decode("ascii")


def safetensors_answer(
    vectors: Sequence[Vectors], metadata: Mapping[str, object], turns: AnswerTurns
) -> VectorAnswer:
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

    def parts() -> Iterator[bytes]:
        joined: list[bytes | memoryview] = [len(text).to_bytes(_LENGTH_BYTES, "little"), text]
        size = 0
        for values in vectors:
            joined.append(np.ascontiguousarray(values, dtype="<f4").reshape(-1).view(np.uint8).data)
            size += values.nbytes
            if size >= PART_BYTES:
                yield b"".join(joined)
                joined, size = [], 0
        yield b"".join(joined)

    return VectorAnswer(
        parts(),
        SAFETENSORS,
        turns,
        is_short=position <= 4 * MAX_WHOLE_VALUES,
        n_bytes=_LENGTH_BYTES + len(text) + position,
    )
