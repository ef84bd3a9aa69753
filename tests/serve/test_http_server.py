"""Tests of a real server process: SIGTERM under load, slow clients, hostile requests."""

import contextlib
import http.client
import json
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from hostile_requests import HostileRequest, hostile_requests, problem, send
from server_process import running_server

PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
BODY = json.dumps({"sentences": ["the cat sat on the mat ."] * 20})
HEADERS = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def connect(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    return contextlib.closing(connection)


def raw(server, data):
    """Send bytes and return the answer, which ends when the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(data)
        parts = []
        try:
            while part := connection.recv(65_536):
                parts.append(part)
        except ConnectionError:
            pass
        return b"".join(parts)


def is_answering(server):
    with connect(server) as connection:
        connection.request("POST", "/embed", BODY, HEADERS)
        return connection.getresponse().status == 200


def metric(server, name):
    with connect(server) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return float(re.search(rf"^{name} (.*)$", text, re.MULTILINE)[1])


def test_requests_on_one_connection_are_answered(server):
    with connect(server) as connection:
        for _ in range(3):
            connection.request("POST", "/embed", BODY, HEADERS)
            answer = connection.getresponse()
            assert len(json.loads(answer.read())["sentences"]) == 20


@pytest.mark.parametrize(
    "headers",
    [
        b"X-Long: " + 70_000 * b"a",
        20_000 * b"X: y\r\n",
        128 * b"X: y\r\n",
        b"X-Endless: " + 300_000 * b"a",
    ],
)
def test_long_headers_are_answered_with_431(server, headers):
    answer = raw(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert is_answering(server)


def test_python_examples_of_the_page_run(server, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block.replace(":8000", f":{server.port}"), str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "(6, 16)\n16\n"


def test_client_sees_the_error_of_a_body_that_it_is_still_sending(server):
    with connect(server) as connection:
        connection.request("POST", "/embed", b" " * 2**24, HEADERS)
        assert connection.getresponse().status == 413


def test_what_is_not_http_is_answered_with_400(server):
    answer = raw(server, b"hello\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'{"error":' in answer


def test_malformed_chunk_is_answered_with_400(server):
    head = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = raw(server, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_request_before_malformed_data_is_answered(server):
    head = f"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    answer = raw(server, (head + BODY).encode() + b"\x00malformed")
    assert re.findall(rb"HTTP/1.1 (\d+) ", answer) == [b"200", b"400"]
    assert b"]}" in answer
    assert b"This is not a valid HTTP/1.1 request." in answer


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", b""),
        (b"\r\n", b""),
        (b"GET /health HTTP/1.1\r\nX: ", b"HTTP/1.1 408"),
        (
            b"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{",
            b"HTTP/1.1 408",
        ),
        # The answer does not wait for the body, but the connection does, for a while.
        (
            b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
            b"HTTP/1.1 404",
        ),
    ],
)
def test_slow_clients_are_disconnected(server, data, status):
    started = time.monotonic()
    answer = raw(server, data)
    assert answer.startswith(status)
    assert bool(answer) == bool(status)
    assert time.monotonic() - started < 5


def test_client_that_sends_nothing_more_keeps_its_connection_between_requests(server):
    with connect(server) as connection:
        for _ in range(2):
            connection.request("POST", "/embed", BODY, HEADERS)
            assert connection.getresponse().read()
            time.sleep(0.5)  # longer than the time for headers


def test_hostile_requests_neither_stop_the_server_nor_reveal_its_errors(server):
    problems = []
    for request in hostile_requests(300, seed=1):
        answer = send(server.port, request, patience=0.5)
        if found := problem(request, answer):
            problems.append((request.kind, found, request.data[:200], answer[:300]))
    assert problems == []
    assert is_answering(server)
    assert server.process.poll() is None


def test_abandoned_requests_are_recorded_as_cancelled(server):
    body = json.dumps({"sentences": [["word"] * 1000] * 16}).encode()
    head = f"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    abandoned = HostileRequest("abandoned", head.encode() + body, is_abandoned=True)
    for _ in range(5):
        send(server.port, abandoned)
    deadline = time.monotonic() + 10
    while not any('"status":499' in line for line in server.log):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_no_accepted_request_is_lost_by_sigterm_under_load(tmp_path):
    statuses = []

    def ask(server, stop):
        with connect(server) as connection:
            while not stop.is_set():
                try:
                    connection.request("POST", "/embed", BODY, HEADERS)
                    answer = connection.getresponse()
                    if answer.status != 200:
                        answer.read()
                        statuses.append(answer.status)
                        return
                except ConnectionError:
                    return  # the server did not accept the request
                # The answer of an accepted request is complete.
                assert len(json.loads(answer.read())["sentences"]) == 20
                statuses.append(200)

    with running_server(tmp_path) as server:
        stop = threading.Event()
        clients = [threading.Thread(target=ask, args=[server, stop]) for _ in range(12)]
        for client in clients:
            client.start()
        while len(statuses) < 50:
            time.sleep(0.01)
        assert server.stop() == 0
        stop.set()
        for client in clients:
            client.join(20)
    accepted = [record for record in server.records() if record["status"] == 200]
    assert len(accepted) == statuses.count(200) >= 50
    assert set(statuses) <= {200, 503}
    assert {record["status"] for record in server.records()} <= {200, 503}
    assert not [line for line in server.errors if "Traceback" in line]


def test_second_signal_answers_accepted_requests_with_503(tmp_path):
    body = json.dumps({"sentences": [[f"word{number}" for number in range(1000)]] * 16})
    with running_server(tmp_path, "--queue-words", "1000000") as server:
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(connect(server)) for _ in range(20)]
            for connection in connections:
                connection.request("POST", "/embed", body, HEADERS)
            deadline = time.monotonic() + 10
            while metric(server, "elmo_queued_requests") < 10:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert server.stop() == 0
            answers = []
            for connection in connections:
                # An answer that had begun is incomplete.
                with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
                    answer = connection.getresponse()
                    answers.append((answer.status, answer.read()))
    texts = [json.loads(text)["error"]["message"] for status, text in answers if status == 503]
    assert texts
    assert set(texts) == {"The server is shutting down."}
    assert {record["status"] for record in server.records() if "words" in record} <= {200, 499, 503}
    assert not [line for line in server.errors if "Traceback" in line]


def test_sigterm_while_a_model_is_loaded_ends_the_server_in_order(tmp_path):
    with running_server(tmp_path, "--model", "small-en", "--model", "again=small-en") as server:
        time.sleep(0.2)
        assert server.stop() == 0
    assert server.errors == []


def test_server_ends_with_an_error_if_a_model_cannot_be_loaded(tmp_path):
    with running_server(tmp_path, "--model", "other=./absent") as server:
        assert server.wait() == 1
    assert "absent" in "".join(server.errors)
    assert "Traceback" not in "".join(server.errors)
