"""Tests of the token, names of the server, proxies, CORS, and the bind address."""

import pytest
from server_app import ServerApp

from elmo.errors import ConfigError
from elmo.serve.access_control import client_host, read_token


@pytest.fixture(scope="module")
def server():
    with ServerApp(token="secret", cors_origin=("https://example.org",)) as server:
        yield server


def embed(server, **headers):
    return server.client.post("/embed", json={"sentences": "a"}, headers=headers)


@pytest.mark.parametrize("value", ["Bearer secret", "bearer  secret"])
def test_request_with_token_is_answered(server, value):
    assert embed(server, authorization=value).status_code == 200


@pytest.mark.parametrize("value", ["", "secret", "Bearer secre", "Bearer secret2", "Basic secret"])
def test_request_without_token_is_answered_with_401(server, value):
    answer = embed(server, authorization=value)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["type"] == "authentication_error"


def test_only_health_readiness_and_document_need_no_token(server):
    for path in ("/health", "/ready", "/openapi.json"):
        assert server.client.get(path).status_code == 200
    for path in ("/info", "/metrics", "/v1/models", "/nothing"):
        assert server.client.get(path).status_code == 401


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
def test_local_names_are_accepted(server, host):
    assert server.client.get("/openapi.json", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.2"])
def test_other_names_of_a_local_server_are_answered_with_403(server, host):
    answer = server.client.get("/openapi.json", headers={"host": host})
    assert answer.status_code == 403
    assert "--allowed-host" in answer.json()["error"]["message"]


def test_probes_can_use_any_name():
    with ServerApp(allowed_host=("elmo.example",)) as server:
        for path in ("/health", "/ready"):
            answer = server.client.get(path, headers={"host": "127.0.0.1:8000"})
            assert answer.status_code != 403


def test_allowed_hosts_replace_the_local_names():
    with ServerApp(allowed_host=("elmo.example",)) as server:
        assert (
            server.client.get("/openapi.json", headers={"host": "elmo.example"}).status_code == 200
        )
        assert server.client.get("/openapi.json", headers={"host": "localhost"}).status_code == 403


def test_any_name_is_accepted_if_others_can_connect():
    with ServerApp(host="0.0.0.0") as server:
        assert server.client.get("/health", headers={"host": "any.example"}).status_code == 200


def preflight(server, origin, **requested):
    names = {"method": "POST", "headers": "content-type,authorization", **requested}
    headers = {f"access-control-request-{name}": value for name, value in names.items()}
    return server.client.options("/embed", headers={"origin": origin, **headers})


def test_only_configured_origins_may_send_requests(server):
    answer = preflight(server, "https://example.org")
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://example.org"
    other = preflight(server, "https://evil.example")
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize(
    ("origin", "requested", "message"),
    [
        ("https://evil.example", {}, "To allow them, start the server with --cors-origin"),
        ("https://example.org", {"method": "PUT"}, "may only use the methods GET and POST and"),
        ("https://example.org", {"headers": "x-other"}, "the headers Authorization and Content-"),
        ("https://example.org", {"private-network": "true"}, "access to a private network"),
    ],
)
def test_rejected_preflight_request_has_the_form_of_all_errors(server, origin, requested, message):
    answer = preflight(server, origin, **requested)
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/json"
    assert "Origin" in answer.headers["vary"]
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"]["type"] == "permission_error"
    assert message in answer.json()["error"]["message"]


def test_cors_is_off_by_default():
    with ServerApp() as server:
        answer = preflight(server, "https://example.org")
        assert answer.status_code == 405
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("1.1.1.1", "9.9.9.9", "1.1.1.1"),  # not from a proxy
        ("10.0.0.1", "9.9.9.9", "9.9.9.9"),
        ("10.0.0.1", "6.6.6.6, 9.9.9.9", "9.9.9.9"),  # the client can invent the first one
        ("10.0.0.1", "9.9.9.9, 10.0.0.2", "9.9.9.9"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "x" * 1000, "x" * 64),
    ],
)
def test_client_is_the_last_address_before_trusted_proxies(peer, forwarded, expected):
    headers = [(b"x-forwarded-for", forwarded.encode())]
    scope = {"type": "http", "client": (peer, 5), "headers": headers}
    assert client_host(scope, ("10.0.0.1", "10.0.0.2")) == expected


def test_trusted_proxy_is_recognized_on_a_socket_for_ipv4_and_ipv6():
    scope = {"type": "http", "client": ("::ffff:10.0.0.1", 1)}
    scope["headers"] = [(b"x-forwarded-for", b"10.0.0.9")]
    assert client_host(scope, ("10.0.0.1",)) == "10.0.0.9"
    assert client_host(scope, ()) == "10.0.0.1"


def test_forwarded_ipv4_addresses_can_be_written_as_ipv6_addresses():
    scope = {"type": "http", "client": ("10.0.0.1", 1)}
    scope["headers"] = [(b"x-forwarded-for", b"::ffff:10.0.0.9, ::ffff:10.0.0.2")]
    assert client_host(scope, ("10.0.0.1", "10.0.0.2")) == "10.0.0.9"


def test_token_is_read_from_file_or_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("ELMO_SERVE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("ELMO_SERVE_TOKEN", "of-environment\n")
    assert read_token(None) == "of-environment"
    (tmp_path / "token").write_text("of-file\n", encoding="utf-8")
    assert read_token(str(tmp_path / "token")) == "of-file"


@pytest.mark.parametrize("content", [b"", b"two words", "gehe\u00efm".encode(), b"\xff"])
def test_unusable_token_is_rejected(tmp_path, content):
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match="token"):
        read_token(str(tmp_path / "token"))
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(str(tmp_path / "absent"))
