"""Tests of the memory of answers while they are sent."""

import asyncio

import pytest

from elmo.serve.api_error import ApiError
from elmo.serve.held_memory import HeldMemory
from elmo.serve.limited_send import PART_BYTES, LimitedSend

START = {"type": "http.response.start", "status": 200, "headers": []}


def body(content, more_body=False):
    return {"type": "http.response.body", "body": content, "more_body": more_body}


class Client:
    """A client that reads one message at a time."""

    def __init__(self):
        self.messages, self.can_read = [], asyncio.Semaphore(0)

    async def send(self, message):
        await self.can_read.acquire()
        self.messages.append(message)

    async def read(self, n_messages):
        for _ in range(n_messages):
            self.can_read.release()
        for _ in range(n_messages + 3):
            await asyncio.sleep(0)

    @property
    def content(self):
        return b"".join(message.get("body", b"") for message in self.messages)


async def check_long_answer():
    memory, client = HeldMemory(10**6), Client()
    content = bytes(range(256)) * 1000
    n_parts = -(-len(content) // PART_BYTES)

    async def answer():
        with memory.reserve("host") as held:
            send = LimitedSend(client.send, held)
            await send(START)
            await send(body(content))

    task = asyncio.ensure_future(answer())
    await client.read(n_parts)
    assert len(client.messages) == n_parts  # the start and all parts but one
    assert memory.n_bytes == len(content)
    await client.read(1)
    assert memory.n_bytes == len(content)  # the transport may still have the last part
    await client.read(1)
    await task
    assert memory.n_bytes == 0
    assert client.content == content
    assert [message.get("more_body", True) for message in client.messages] == [
        *[True] * (n_parts + 1),
        False,
    ]


def test_long_answer_is_held_until_it_is_sent():
    asyncio.run(check_long_answer())


async def check_answer_in_parts():
    memory, client = HeldMemory(100_000), Client()
    await client.read(100)
    with memory.reserve("host") as held:
        send = LimitedSend(client.send, held)
        await send(START)
        await send(body(b"short", more_body=True))
        # It has begun, so it is sent to its end.
        task = asyncio.ensure_future(send(body(bytes(200_000), more_body=True)))
        await asyncio.sleep(0)
        await task
        assert memory.n_bytes == 0
        await send(body(b""))
    assert client.content == b"short" + bytes(200_000)


def test_answer_in_parts_holds_one_part_at_a_time():
    asyncio.run(check_answer_in_parts())


async def check_missing_memory():
    memory, client = HeldMemory(100_000), Client()
    await client.read(100)
    with memory.reserve("host") as held:
        send = LimitedSend(client.send, held)
        await send(START)
        with pytest.raises(ApiError) as raised:
            await send(body(bytes(200_000)))
        assert raised.value.status == 422
        assert client.messages == []
        assert memory.n_freed == 200_000
        # Short answers need no memory.
        held.add_beyond_limit(200_000)
        await send(body(bytes(PART_BYTES)))
    assert len(client.messages) == 2


def test_answer_without_memory_is_not_begun():
    asyncio.run(check_missing_memory())


async def check_reserved_memory(more_body):
    memory, client = HeldMemory(200_000), Client()
    await client.read(100)
    with memory.reserve("host") as held:
        held.add(150_000)
        send = LimitedSend(client.send, held)
        await send(START)
        await send(body(bytes(190_000), more_body=more_body))
        assert memory.n_bytes == 150_000
    assert len(client.content) == 190_000
    assert memory.n_bytes == 0


@pytest.mark.parametrize("more_body", [False, True])
def test_answer_is_sent_if_the_memory_of_its_results_is_reserved(more_body):
    asyncio.run(check_reserved_memory(more_body))


def test_memory_of_one_host_leaves_room_for_others():
    memory = HeldMemory(1600)
    with memory.reserve("large") as large, memory.reserve("small") as small:
        large.add(1600)
        with pytest.raises(ApiError):
            large.add(1)
        small.add(100)  # a sixteenth
        with pytest.raises(ApiError):
            small.add(1)
        assert memory.n_bytes == 1700
        small.release(50)
        small.add(50)
    assert memory.n_bytes == 0
    assert memory.n_freed == 1600 + 1 + 100 + 1 + 50
