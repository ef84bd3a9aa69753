"""Tests of the command `elmo serve` in this process."""

import http.client
import json
import os
import signal
import socket
import threading
import time
from functools import partial

import pytest
from server_app import make_model

from elmo.config.serve import ServeConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, MissingExtra
from elmo.serve import http_server, serve_command
from elmo.serve.http_server import open_listener


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setattr(serve_command, "PACKAGES", ("no_such_package",))
    with pytest.raises(MissingExtra, match=r"elmo serve requires .*\[serve\]"):
        serve_command.serve(ServeConfig())


def test_occupied_port_is_one_clear_error():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port}: .*Set another --host or --port"):
            open_listener(ServeConfig(port=port))


def test_listener_names_its_protocol_so_that_answers_are_not_delayed():
    with open_listener(ServeConfig(port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def ask(port):
    """Send valid, malformed and late requests, and return the statuses."""
    statuses = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    body, headers = json.dumps({"sentences": "a b"}), {"Content-Type": "application/json"}
    for path, content in (("/embed", body), ("/embed", "{"), ("/nothing", " " * 100_000)):
        connection.request("POST", path, content, headers)
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    for data in (b"malformed\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(data)
            statuses.append(int(raw.recv(100)[9:12]))
    return statuses


def test_server_runs_until_sigterm_and_restores_signal_handlers(tmp_path, capsys):
    ELMo(make_model()).save_pretrained(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    statuses = []

    def use():
        try:
            while not statuses:
                try:
                    statuses.extend(ask(port))
                except ConnectionRefusedError:
                    time.sleep(0.01)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    handler = signal.getsignal(signal.SIGTERM)
    client = threading.Thread(target=use)
    client.start()
    config = ServeConfig(model=(f"tiny={tmp_path / 'model'}",), port=port, device="cpu")
    result = serve_command.serve(config)
    client.join()
    assert statuses == [200, 400, 404, 400, 431]
    assert result.n_unfinished == 0
    assert signal.getsignal(signal.SIGTERM) is handler
    printed = capsys.readouterr()
    assert [json.loads(line)["status"] for line in printed.out.splitlines()] == [200, 400, 404]
    assert printed.err == f"elmo serve: http://127.0.0.1:{port}\n"


def test_server_ends_if_a_first_load_fails(tmp_path):
    with pytest.raises(FormatError, match="absent"):
        serve_command.serve(ServeConfig(model=(f"tiny={tmp_path / 'absent'}",), port=0))


def test_process_ends_at_once_while_a_model_is_loaded(monkeypatch):
    begun, gate, has_stopped, ends = threading.Event(), threading.Event(), threading.Event(), []

    def load(name, source, device, precision):
        begun.set()
        assert gate.wait(60)

    def stop():
        assert begun.wait(60)
        while not has_stopped.wait(0.3):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("elmo.serve.loaded_model.LoadedModel.load", load)
    monkeypatch.setattr(serve_command, "_end_process", lambda: ends.append(begun.is_set()))
    monkeypatch.setattr(http_server, "CLOSING_SECONDS", 0.1)
    previous = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        serve_command.serve(ServeConfig(model=("a=x",), port=0))
    finally:
        has_stopped.set()
        stopping.join()
        signal.signal(signal.SIGTERM, previous)
        gate.set()
    assert ends == [True]


def test_nothing_further_is_loaded_after_a_first_load_fails(tmp_path, monkeypatch):
    ended = []

    def load(name, source, device, precision):
        time.sleep(0.2)
        ended.append(name)
        raise FormatError("It is damaged.")

    monkeypatch.setattr("elmo.serve.loaded_model.LoadedModel.load", load)
    with pytest.raises(FormatError, match="damaged"):
        serve_command.serve(ServeConfig(model=("a=x", "b=y"), port=0))
    assert len(ended) == 1


def test_open_server_without_token_is_warned_about(tmp_path, caplog, monkeypatch):
    monkeypatch.delenv("ELMO_SERVE_TOKEN", raising=False)
    local = partial(socket.create_server, ("127.0.0.1", 0))
    monkeypatch.setattr(http_server, "open_listener", lambda config: local())
    config = ServeConfig(model=(f"tiny={tmp_path / 'absent'}",), host="0.0.0.0")
    with pytest.raises(FormatError):
        serve_command.serve(config)
    assert "Set --token-file" in caplog.text


def test_summary_is_not_printed_into_the_access_log():
    assert str(serve_command.ServeResult(5, 0)) == ""
