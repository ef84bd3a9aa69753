"""Tests of the command `elmo serve`: missing packages and an occupied port."""

import socket

import pytest

from elmo.config.serve import ServeConfig
from elmo.errors import ConfigError, MissingExtra
from elmo.serve import serve_command
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


def test_summary_is_not_printed_into_the_access_log():
    assert str(serve_command.ServeResult(5, 0)) == ""
