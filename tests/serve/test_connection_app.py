"""Tests of answers that end before the application has answered, and those to HTTP/1.0."""

import asyncio
import json

import pytest
from fake_connection import BAD, GET, Connection, Gate, iterate

OLD = b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("headers", [[], [(b"Content-Length", b"6")]])
def test_answer_to_http_1_0_ends_with_its_connection(headers):
    async def stream(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in (b"one", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def check():
        connection = Connection(stream)
        connection.send(OLD)
        await connection.finish()
        assert connection.transport.is_closed
        return connection.transport.output.split(b"\r\n\r\n")

    head, body = asyncio.run(check())
    assert body == b"onetwo"
    assert b"transfer-encoding" not in head
    assert head.count(b"content-length: 6") == len(headers)
    assert b"connection: close" in head


@pytest.mark.parametrize("request_", [OLD, GET])
def test_answer_that_fails_ends_with_a_reset(request_):
    async def stream(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        raise ZeroDivisionError

    async def check():
        connection = Connection(stream)
        connection.send(request_)
        await connection.finish()
        return connection.transport

    transport = asyncio.run(check())
    assert transport.statuses == [200]
    assert transport.is_aborted


def stopped_at_once(app, data):
    """Stop the task of a request that has just arrived, and return what was sent."""

    async def stop():
        connection = Connection(app)
        connection.send(data)
        await iterate()
        for task in connection.state.tasks:
            task.cancel()
        await connection.finish()
        return connection.transport

    return asyncio.run(stop())


@pytest.mark.parametrize("data", [GET, BAD[:-5]])
def test_request_that_is_stopped_at_once_is_answered_with_503(data, caplog):
    transport = stopped_at_once(Gate(), data)
    head, body = transport.output.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"\r\nretry-after: 1" in head
    assert b"\r\nconnection: close" in head
    assert json.loads(body)["error"]["type"] == "unavailable_error"
    assert caplog.records == []


def test_answer_that_is_stopped_at_once_ends_with_the_connection(caplog):
    async def stream(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    transport = stopped_at_once(stream, GET)
    assert transport.statuses == [200]
    assert transport.is_closed
    assert caplog.records == []


def test_answer_is_not_computed_after_the_connection_is_lost(caplog):
    n_parts = 0

    async def stream(scope, receive, send):
        nonlocal n_parts
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(10):
            n_parts += 1
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
            await asyncio.sleep(0)

    async def check():
        connection = Connection(stream)
        connection.send(GET)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.protocol.connection_lost(ConnectionResetError())
        await connection.finish()

    asyncio.run(check())
    assert n_parts < 5
    assert caplog.records == []
