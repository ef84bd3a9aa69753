"""Tests of answers in parts: their size, and turns of the event loop between them."""

import asyncio
import base64

import numpy as np
import orjson
import pytest

from elmo.serve.long_answer import PART_BYTES, AnswerTurns, LongAnswer, json_parts
from elmo.serve.vector_formats import BASE64_BYTES, as_array_record, as_numbers, safetensors_answer

VECTORS = np.random.default_rng(0).standard_normal((3, 200, 512)).astype(np.float32)


@pytest.mark.parametrize("encode", [as_numbers, as_array_record])
def test_vectors_of_one_sentence_are_encoded_in_small_parts(encode):
    parts = list(encode(VECTORS))
    assert max(map(len, parts)) <= 4 * BASE64_BYTES // 3
    data = orjson.loads(b"".join(parts))
    if encode is as_array_record:
        data = np.frombuffer(base64.b64decode(data["base64"]), np.float32).reshape(data["shape"])
    np.testing.assert_allclose(np.array(data, dtype=np.float32), VECTORS, rtol=1e-6)


async def messages_of(answer):
    messages = []

    async def send(message):
        messages.append(message)

    await answer({}, None, send)
    return messages


@pytest.mark.parametrize("n_rows", [2, 200])
def test_only_a_short_answer_has_a_length(n_rows):
    async def send_rows():
        rows = ([orjson.dumps("a" * 5000)] for _ in range(n_rows))
        return await messages_of(LongAnswer(json_parts({"a": 1}, "rows", rows), AnswerTurns()))

    start, *bodies = asyncio.run(send_rows())
    text = b"".join(message["body"] for message in bodies)
    assert orjson.loads(text) == {"a": 1, "rows": ["a" * 5000] * n_rows}
    length = dict(start["headers"]).get(b"content-length")
    assert length == (str(len(text)).encode() if n_rows == 2 else None)
    flags = [message.get("more_body", False) for message in bodies]
    assert flags == [True] * (len(bodies) - 1) + [False]
    assert (len(bodies) == 1) == (n_rows == 2)


def test_array_of_a_safetensors_answer_is_sent_in_parts():
    async def send_array():
        return await messages_of(safetensors_answer([VECTORS], {}, AnswerTurns()))

    bodies = [message["body"] for message in asyncio.run(send_array())[1:]]
    assert max(map(len, bodies)) < 2 * PART_BYTES
    assert b"".join(bodies).endswith(VECTORS.tobytes())


def test_event_loop_runs_others_between_slow_parts(monkeypatch):
    monkeypatch.setattr("elmo.serve.long_answer.TURN_SECONDS", 0.0)
    events = []

    async def other():
        while len(events) < 8:
            events.append("other")
            await asyncio.sleep(0)

    async def run():
        task = asyncio.ensure_future(other())
        async for item in AnswerTurns().each(range(4)):
            events.append(item)
        await task

    asyncio.run(run())
    assert events[:8] == ["other", 0, "other", 1, "other", 2, "other", 3]
