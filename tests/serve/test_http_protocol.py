"""Tests of connections, most without a network; limits are also tested in `test_http_server.py`."""

import asyncio
import contextlib
import gc
import json
import random
import re
import weakref

import pytest
import uvicorn
from fake_connection import BAD, GET, Connection, Gate, iterate, send_answer
from starlette.requests import ClientDisconnect, Request
from uvicorn.server import ServerState

from elmo.serve import http_protocol, read_timer
from elmo.serve.fair_limit import FairLimit
from elmo.serve.http_protocol import MAX_HEADER_BYTES, LimitedHttpProtocol
from elmo.serve.parsing_turns import ParsingTurns


async def is_freed(error):
    connection = Connection()
    connection.send(GET)
    await connection.finish()
    assert connection.state.total_requests == 1
    assert connection.protocol.cycle.response_complete
    connection.protocol.connection_lost(error)
    reference = weakref.ref(connection.protocol)
    del connection
    await iterate()
    return reference() is None


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_closed_connection_is_freed_without_the_garbage_collector(error):
    gc.disable()
    try:
        assert asyncio.run(is_freed(error))
    finally:
        gc.enable()


def random_request(random, number):
    """Return the bytes of a request, and its body."""
    body = random.choice([b"", b"\r\n\r\n", b"0\r\n\r\n", b"a\r\nb", bytes(random.randrange(99))])
    head = b"POST /%d HTTP/1.1\r\nHost: localhost\r\n" % number
    if random.random() < 0.3:
        return b"\r\n" * random.randrange(2) + GET.replace(b" / ", b" /%d " % number), b""
    if random.random() < 0.5:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body, body
    cut = random.randrange(len(body) + 1)
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part]
    trailer = random.choice([b"", b"X-Trailer: 1\r\n"])
    head += b"Transfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(chunks) + b"0\r\n" + trailer + b"\r\n", body


async def check_pipelined_requests(seed):
    generator = random.Random(seed)
    requests = [random_request(generator, number) for number in range(20)]
    n_running = 0

    async def echo(scope, receive, send):
        nonlocal n_running
        n_running += 1
        assert n_running == 1
        body = await Request(scope, receive).body()
        for _ in range(generator.randrange(4)):
            await asyncio.sleep(0)
        n_running -= 1
        record = {"path": scope["path"], "body": body.decode("latin-1")}
        await send_answer(send, b"<" + json.dumps(record).encode() + b">")

    connection = Connection(echo)
    data = b"".join(data for data, _ in requests)
    while data:
        n_bytes = generator.choice([1, 2, 3, 10, 100, 1000])
        connection.send(data[:n_bytes])
        data = data[n_bytes:]
        if generator.random() < 0.3:
            await asyncio.sleep(0)
    await connection.finish()
    answers = [json.loads(text) for text in re.findall(rb"<(.*?)>", connection.transport.output)]
    assert answers == [
        {"path": f"/{number}", "body": body.decode("latin-1")}
        for number, (_, body) in enumerate(requests)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_pipelined_requests_in_pieces_are_answered_in_order_one_at_a_time(seed):
    asyncio.run(check_pipelined_requests(seed))


@pytest.mark.parametrize("pieces", [[GET + BAD], [GET, BAD], [GET, BAD[:-5], BAD[-5:]]])
def test_error_in_a_pipelined_request_is_answered_after_the_request_before(pieces):
    async def check():
        gate = Gate()
        connection = Connection(gate)
        for piece in pieces:
            connection.send(piece)
            await iterate()
        assert connection.transport.output == b""
        gate.event.set()
        await connection.finish()
        return connection.transport

    transport = asyncio.run(check())
    assert transport.statuses == [200, 400]
    assert b"waited" in transport.output
    assert transport.has_eof


@pytest.mark.parametrize(
    ("codings", "statuses"),
    [
        ([b"Chunked"], [200]),
        ([b"chunked "], [200]),
        ([b"gzip, chunked"], [501]),
        ([b"gzip", b"chunked"], [501]),
    ],
)
def test_other_transfer_codings_than_chunked_are_rejected(codings, statuses):
    async def check():
        gate = Gate()
        gate.event.set()
        connection = Connection(gate)
        head = b"".join(b"Transfer-Encoding: %s\r\n" % coding for coding in codings)
        data = b"POST / HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n2\r\n{}\r\n0\r\n\r\n"
        connection.send(data)
        await connection.finish()
        return connection.transport

    assert asyncio.run(check()).statuses == statuses


CHUNKED = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
)


@pytest.mark.parametrize("piece", [b"a:b\r\n", b"a: " + b"b" * 8000 + b"\r\n", b"c" * 5000])
def test_trailers_are_dropped_and_limited(piece):
    async def check():
        gate = Gate()
        connection = Connection(gate)
        connection.send(CHUNKED)
        # Twice the limit: on a slow machine, some trailers can be read together with the body,
        # which is not counted.
        for _ in range(2 * MAX_HEADER_BYTES // len(piece)):
            connection.send(piece)
            assert len(connection.protocol.headers) == 2
        await connection.finish()
        return connection.transport

    transport = asyncio.run(check())
    assert transport.statuses == [431]
    assert transport.has_eof


def test_trailers_end_a_request():
    async def check():
        connection = Connection()
        connection.send(CHUNKED + b"a: b\r\n\r\n" + GET)
        await connection.finish()
        return connection.transport

    assert asyncio.run(check()).statuses == [200, 200]


def test_connection_whose_body_ends_after_the_answer_has_a_time_limit():
    async def check():
        connection = Connection()
        connection.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")
        await connection.finish()
        connection.send(b"hello")
        timer = connection.protocol.timeout_keep_alive_task
        assert timer is not None
        assert not timer.cancelled()
        connection.protocol.timeout_keep_alive_handler()
        return connection.transport

    transport = asyncio.run(check())
    assert transport.statuses == [200]
    assert transport.is_closed


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("length", "body"),
    [
        (b"Content-Length: %d" % len(GET), GET),
        (b"Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\na: b\r\n\r\n" % (len(GET), GET)),
        (b"Content-Length: 0", b""),
        (b"X: y", b""),
    ],
)
def test_upgrade_is_ignored_and_its_body_is_not_a_request(length, body, size):
    bodies = []

    async def record(scope, receive, send):
        bodies.append(await Request(scope, receive).body())
        await send_answer(send)

    async def check():
        connection = Connection(record)
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: h2c\r\n"
        data = 2 * (head + length + b"\r\n\r\n" + body + GET)
        for start in range(0, len(data), size):
            connection.send(data[start : start + size])
            await iterate()
        await connection.finish()
        return connection.transport

    assert asyncio.run(check()).statuses == [200] * 4
    assert bodies == 2 * [GET if body else b"", b""]


def test_connection_that_is_reset_before_an_error_is_closed():
    async def check():
        connection = Connection()

        def write_eof():
            raise OSError("Transport endpoint is not connected")

        connection.transport.write_eof = write_eof
        connection.send(BAD)
        return connection.transport

    transport = asyncio.run(check())
    assert transport.statuses == [400]
    assert transport.is_closed


def test_empty_lines_between_requests_are_ignored():
    async def check():
        connection = Connection()
        for data in (b"\r\n", b"\r", b"\n" + GET + b"\r\n\r\n" + GET, b"\r\n"):
            connection.send(data)
        await connection.finish()
        assert not connection.protocol._is_request_unfinished
        return connection.transport

    assert asyncio.run(check()).statuses == [200, 200]


def test_hosts_take_turns_however_many_connections_they_have():
    async def check():
        turns = ParsingTurns()
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        lines = b"\r\n" * 8000
        slow = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(lines), lines)
        many = [Connection(host="10.0.0.1", turns=turns) for _ in range(30)]
        other = Connection(host="10.0.0.2", turns=turns)
        for connection in many:
            connection.send(slow)
        n_begun = [connection.protocol.cycle is not None for connection in many].count(True)
        other.send(GET)
        await other.finish()
        n_parsed = sum(not connection.protocol._waiting_data for connection in many)
        for connection in many:
            await connection.finish()
        return n_begun, n_parsed, [connection.transport.statuses for connection in (*many, other)]

    n_begun, n_parsed, statuses = asyncio.run(check())
    assert n_begun == 1
    assert n_parsed <= 2
    assert statuses == [[200]] * 31


def test_lost_connection_cancels_the_request_before_a_pipelined_one():
    async def check():
        gate = Gate()
        connection = Connection(gate)
        connection.send(GET + GET.replace(b" / ", b" /second "))
        await iterate()
        assert not connection.transport.is_reading_paused  # it notices that the client leaves
        connection.protocol.connection_lost(None)
        await connection.finish()
        return gate

    gate = asyncio.run(check())
    assert gate.started == gate.cancelled == ["/"]


def test_reading_pauses_when_much_is_pipelined():
    async def check():
        gate = Gate()
        connection = Connection(gate)
        body = bytes(100_000)
        second = b"POST /second HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        connection.send(GET + second + body[:50_000])
        assert not connection.transport.is_reading_paused
        connection.send(body[50_000:])
        assert connection.transport.is_reading_paused
        gate.event.set()
        await connection.finish()
        return connection.transport

    transport = asyncio.run(check())
    assert transport.statuses == [200, 200]
    assert not transport.is_reading_paused


def test_reading_stays_paused_while_the_body_before_the_waiting_data_is_read():
    async def check():
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

        async def read_slowly(scope, receive, send):
            while (await receive()).get("more_body"):
                pass

        connection = Connection(read_slowly)
        # The body exceeds the limit of uvicorn, and the empty lines are parsed slowly.
        connection.send(head + b"%x\r\n" % 10**9 + bytes(100_000) + b"\r\n" * 100_000)
        sizes = []
        for _ in range(20):
            if not connection.transport.is_reading_paused:
                connection.send(b"\r\n" * 100_000)
            sizes.append(len(connection.protocol._waiting_data))
            await asyncio.sleep(0)
        connection.protocol.connection_lost(None)
        await connection.finish()
        return max(sizes)

    assert asyncio.run(check()) < 300_000


def test_data_that_takes_long_to_parse_gives_way_to_others():
    async def count(scope, receive, send):
        body = await Request(scope, receive).body()
        await send_answer(send, b"%d bytes" % len(body))

    async def check():
        connection = Connection(count)
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        lines = b"\r\n" * 60_000
        data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(lines), lines)
        connection.send(head + data)
        assert connection.transport.is_reading_paused
        await connection.finish()
        return connection.transport

    transport = asyncio.run(check())
    assert b"120000 bytes" in transport.output
    assert not transport.is_reading_paused


def test_connections_of_one_host_leave_room_for_others():
    async def check():
        limit = FairLimit(32)
        first = [Connection(host="10.0.0.1", limit=limit) for _ in range(40)]
        accepted = [connection for connection in first if not connection.transport.is_closed]
        others = [Connection(host="10.0.0.2", limit=limit) for _ in range(3)]
        for connection in [*accepted, others[0]]:
            connection.protocol.connection_lost(None)
        assert limit.n_held == 1
        return len(accepted), first, others

    n_accepted, first, others = asyncio.run(check())
    assert n_accepted == 32
    assert first[-1].transport.statuses == [503]
    assert b'"type":"unavailable_error"' in first[-1].transport.output
    # A host with at most a sixteenth of the limit may exceed it.
    assert [connection.transport.statuses for connection in others] == [[], [], [503]]


@contextlib.asynccontextmanager
async def network_server(app):
    """Yield a function that opens a socket to an application, with small buffers."""
    config = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False)
    config.load()
    loop, state = asyncio.get_running_loop(), ServerState()
    server = await loop.create_server(
        lambda: LimitedHttpProtocol(config, state, {}), "127.0.0.1", 0
    )

    async def connect():
        return await asyncio.open_connection(*server.sockets[0].getsockname(), limit=2**16)

    try:
        yield connect
    finally:
        server.close()


@pytest.mark.parametrize(("bytes_per_second", "is_complete"), [(2**21, True), (0, False)])
def test_only_clients_that_stop_reading_are_disconnected(
    monkeypatch, bytes_per_second, is_complete
):
    monkeypatch.setattr(read_timer, "READ_SECONDS", 1.0)
    body = bytes(2**23)

    async def check():
        async def long_answer(scope, receive, send):
            with contextlib.suppress(ClientDisconnect):
                await send_answer(send, body)

        async with network_server(long_answer) as connect:
            reader, writer = await connect()
            writer.write(GET)
            n_read, pause = 0, 0.05
            if not bytes_per_second:
                await asyncio.sleep(3)
            while data := await reader.read(int(bytes_per_second * pause) or 2**20):
                n_read += len(data)
                if n_read > len(body):
                    break
                if bytes_per_second:
                    await asyncio.sleep(pause)
            writer.close()
            return n_read

    assert (asyncio.run(check()) > len(body)) == is_complete


def test_client_that_leaves_while_reading_is_paused_is_noticed(monkeypatch):
    monkeypatch.setattr(http_protocol, "CHECK_SECONDS", 0.05)

    async def check():
        gate = Gate()
        async with network_server(gate) as connect:
            _, writer = await connect()
            writer.write(GET + b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
            writer.write(bytes(100_000))
            await writer.drain()
            while not gate.started:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            writer.close()
            async with asyncio.timeout(10):
                while not gate.cancelled:
                    await asyncio.sleep(0.01)
            return gate

    assert asyncio.run(check()).cancelled == ["/"]
