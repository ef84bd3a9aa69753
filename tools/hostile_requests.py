"""Malformed and hostile HTTP requests for `elmo serve`, for tests and the benchmark.

The requests are random but determined by a seed. Only servers on this machine are contacted.
"""

import contextlib
import json
import random
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HOST = "127.0.0.1"
VALID = {"sentences": ["He sat on the river bank.", ["Banks", "lend", "money", "."]]}
PATHS = (
    "/embed",
    "/v1/embeddings",
    "/tokenize",
    "/score",
    "/substitutes",
    "/similarity",
    "/tasks/sentiment",
)
FIELDS = ("sentences", "input", "sentence", "inputs", "layers", "pooling", "model", "word", "n")
# Seconds to wait for a part of an answer. Unfinished requests have none for longer.
PATIENCE = 1.0


@dataclass(frozen=True)
class HostileRequest:
    """What is sent on a connection.

    Attributes:
        kind: What is wrong with it.
        data: The bytes.
        is_abandoned: Whether the client closes the connection without waiting for an answer.
    """

    kind: str
    data: bytes
    is_abandoned: bool = False


def hostile_requests(n: int, seed: int) -> Iterator[HostileRequest]:
    """Yield requests of all kinds."""
    source = random.Random(seed)
    for number in range(n):
        make = KINDS[number % len(KINDS)]
        data = make(source)
        kind = make.__name__.removeprefix("_")
        is_abandoned = kind == "abandoned" or (kind == "unfinished" and source.random() < 0.98)
        yield HostileRequest(kind, data, is_abandoned)


def send(port: int, request: HostileRequest, patience: float = PATIENCE) -> bytes:
    """Send a request on a connection of its own, and return what is answered."""
    answer = bytearray()
    with socket.create_connection((HOST, port), timeout=10) as connection:
        with contextlib.suppress(ConnectionError):  # it can be answered before it is sent
            connection.sendall(request.data)
        if request.is_abandoned:
            return b""
        connection.settimeout(patience)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while not _is_complete(answer) and (part := connection.recv(65_536)):
                answer += part
    return bytes(answer)


def problem(request: HostileRequest, answer: bytes) -> str | None:
    """Return what is wrong with an answer; None if nothing is. No answer is fine."""
    if not answer or request.data.startswith(b"HEAD"):
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 "):
        return "not HTTP"
    status = int(head[9:12])
    if b"Traceback" in answer or b'.py"' in answer:
        return "stack trace"
    if status == 500:
        return "unexpected error"
    if status >= 400 and b"transfer-encoding" not in head:
        try:
            message = json.loads(body)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            return "not the form of errors"
        return None if message else "no message"
    return None


def _is_complete(answer: bytearray) -> bool:
    """Whether an answer with a length has arrived."""
    head, found, _ = bytes(answer[:4096]).partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(answer) - len(head) - 4 >= int(line[15:])
    return answer.endswith(b"\r\n0\r\n\r\n")


def post(path: str, body: bytes, *headers: str) -> bytes:
    """Return a POST request with JSON."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body


def _path(source: random.Random) -> str:
    return source.choice(PATHS)


def _fuzzed_json(source: random.Random) -> bytes:
    """Change some bytes of valid JSON."""
    body = bytearray(json.dumps(VALID).encode())
    for _ in range(source.randint(1, 6)):
        position = source.randrange(len(body))
        change = source.randrange(3)
        if change == 0:
            body[position] = source.randrange(256)
        elif change == 1:
            del body[position : position + source.randint(1, 5)]
        else:
            body[position:position] = source.randbytes(source.randint(1, 5))
    return post(_path(source), bytes(body))


def _bad_utf8(source: random.Random) -> bytes:
    text = source.choice([b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80"])
    return post(_path(source), b'{"sentences": ["a ' + text + b'"]}')


def _value(source: random.Random, depth: int = 0) -> object:
    """Return a random JSON value."""
    values: list[Callable[[], object]] = [
        lambda: None,
        lambda: source.random() < 0.5,
        lambda: source.choice([0, -1, 2**31, 2**63, -(2**70), 1e308, -0.0, 10**30]),
        lambda: source.choice(
            ["", "a", "../../etc/passwd", "\0", "<script>", "\ufeff", "\u202e", "é" * 50, "\ud800"]
        ),
        lambda: "".join(chr(source.randrange(1, 0xD000)) for _ in range(source.randrange(30))),
    ]
    if depth < 3:
        values += [
            lambda: [_value(source, depth + 1) for _ in range(source.randrange(5))],
            lambda: {f"k{n}": _value(source, depth + 1) for n in range(source.randrange(4))},
        ]
    return source.choice(values)()


def _wrong_types(source: random.Random) -> bytes:
    fields = source.sample(FIELDS, source.randint(0, 4))
    if source.random() < 0.7:
        fields.append("sentences")
    body = {name: _value(source) for name in fields}
    return post(_path(source), json.dumps(body).encode())


def _strange_text(source: random.Random) -> bytes:
    """Build valid requests at the limits."""
    name = source.choice(["sentences", "input"])
    text = source.choice(
        [
            " ".join("w" * source.randrange(1, 60) for _ in range(source.randrange(200))),
            "".join(chr(source.randrange(1, 0xD000)) for _ in range(500)),
            "\n" * 1000,
            "a" * 30_000,
            "." * 3000,
            "\u0301" * 2000,
            "👩‍👩‍👧" * 300,
        ]
    )
    return post(_path(source), json.dumps({name: [text] * source.randint(1, 3)}).encode())


def _deep_nesting(source: random.Random) -> bytes:
    depth = source.choice([10, 900, 1100, 50_000])
    opening, closing = source.choice([(b"[", b"]"), (b'{"sentences":', b"}")])
    body = opening * depth + b"1" + closing * depth
    return post(_path(source), source.choice([body, b'{"sentences":' + body + b"}"]))


def _too_many(source: random.Random) -> bytes:
    """Exceed limits on counts."""
    body = source.choice(
        [
            {"sentences": ["a"] * 2000},
            {"sentences": [["a"] * 2000]},
            {"sentences": ["x" * 200_000]},
            {"sentences": [["a"] * 1000] * 20},
            {f"field{number}": 0 for number in range(1000)},
            {"f" * 100_000: 0},
        ]
    )
    return post(_path(source), json.dumps(body).encode())


def _huge_body(source: random.Random) -> bytes:
    """Announce or send more than is accepted."""
    if source.random() < 0.9:
        length = source.choice([2**24, 2**40, 2**63, 10**30])
        head = post(_path(source), b"").replace(b"Length: 0", f"Length: {length}".encode())
        return head + b" " * source.randrange(200_000)
    head = post(_path(source), b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    return head + chunk * 140 + b"0\r\n\r\n"


def _header_abuse(source: random.Random) -> bytes:
    headers = source.choice(
        [
            ["X-Long: " + "a" * source.choice([60_000, 70_000, 300_000])],
            [f"X-{number}: {number}" for number in range(source.choice([100, 5000, 20_000]))],
            ["Content-Length: 5"],
            ["Transfer-Encoding: chunked"],
            ["Transfer-Encoding: gzip, chunked"],
            ["Content-Length: -1"],
            ["Host: evil.example"],
            ["X-Bad\x01: a"],
            ["X: \x00"],
            [" folded: a"],
            ["no colon"],
            ["Expect: 100-continue"],
            ["Upgrade: websocket", "Connection: upgrade"],
            ["Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings"],
            ["Content-Encoding: gzip"],
            ["Content-Type: text/plain"],
            ["X-Forwarded-For: " + ",".join(["1.2.3.4"] * 1000)],
            ["Authorization: Bearer \u00e9"],
            ["Accept: " + "application/octet-stream," * 100],
            ["Origin: null", "Access-Control-Request-Method: POST"],
        ]
    )
    return post(_path(source), json.dumps(VALID).encode(), *headers)


def _request_line(source: random.Random) -> bytes:
    target = source.choice(
        [
            "/../../etc/passwd",
            "/tasks/..%2f..%2fetc%2fpasswd",
            "/%00",
            "/%ff%fe",
            "/" + "a" * 70_000,
            "*",
            "http://evil.example/embed",
            "//",
            "/embed?" + "a=b&" * 1000,
            "/embed#x",
            "embed",
            "",
            "/\u00e9",
            "/a b",
        ]
    )
    method = source.choice(["GET", "POST", "CONNECT", "PUT", "TRACE", "OPTIONS", "HEAD", "FOO", ""])
    version = source.choice(["HTTP/1.1"] * 4 + ["HTTP/1.0", "HTTP/9.9", "HTTP/2.0", "", "XTTP/1.1"])
    return f"{method} {target} {version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def _random_bytes(source: random.Random) -> bytes:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    return source.choice([hello, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b""]) + source.randbytes(300)


def _unfinished(source: random.Random) -> bytes:
    """End within the headers or the body."""
    data = post(_path(source), json.dumps(VALID).encode())
    return data[: source.randrange(1, len(data))]


def _abandoned(source: random.Random) -> bytes:
    """Send a valid request whose answer nobody reads."""
    return post("/embed", json.dumps({"sentences": ["a " * 200] * 5}).encode())


def _pipelined(source: random.Random) -> bytes:
    """Send several requests at once."""
    one = post("/embed", json.dumps(VALID).encode()).replace(b"Connection: close\r\n", b"")
    return one * source.randint(2, 5) + source.choice([b"", source.randbytes(50)])


def _bad_chunks(source: random.Random) -> bytes:
    head = post(_path(source), b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + source.choice(
        [b"zz\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n", b"5\r\nabc\r\n", b"5;" + b"x" * 90_000]
    )


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    _fuzzed_json,
    _wrong_types,
    _header_abuse,
    _bad_utf8,
    _request_line,
    _strange_text,
    _wrong_types,
    _deep_nesting,
    _random_bytes,
    _too_many,
    _unfinished,
    _huge_body,
    _fuzzed_json,
    _abandoned,
    _pipelined,
    _bad_chunks,
)
