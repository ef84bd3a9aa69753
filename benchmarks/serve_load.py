"""A server process and clients on this machine, for the benchmark of `elmo serve`."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"


class MeasuredServer:
    """A server process with its port, memory and log."""

    def __init__(self, *arguments: str) -> None:
        self._output = tempfile.TemporaryFile("w+", encoding="utf-8")
        command = [sys.executable, "-m", "elmo", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        found = re.search(r"http://[\d.]+:(\d+)", self.process.stderr.readline())
        if found is None:
            raise SystemExit(self.process.stderr.read())
        self.port = int(found[1])

    @property
    def memory_mb(self) -> float:
        """Resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1000

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def records(self) -> list[dict[str, object]]:
        """Return the objects in the access log."""
        self._output.seek(0)
        return [json.loads(line) for line in self._output]


@contextmanager
def measured_server(*arguments: str) -> Iterator[MeasuredServer]:
    """Start a server, wait until it is ready, and stop it at the end."""
    server = MeasuredServer(*arguments)
    try:
        asyncio.run(_wait_until_ready(server.port))
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


async def _wait_until_ready(port: int) -> None:
    while True:
        async with asyncio.timeout(60):
            client = await Client.connect(port)
            answer = await client.ask(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.close()
        if answer.status == 200:
            return
        await asyncio.sleep(0.1)


@dataclass(frozen=True)
class Answer:
    """Status of an answer, its size in bytes and the seconds that it took."""

    status: int
    n_bytes: int
    seconds: float


class Client:
    """A connection that sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        """Open a connection."""
        return cls(*await asyncio.open_connection(HOST, port, limit=2**20))

    async def ask(self, request: bytes) -> Answer:
        """Send a request and read its answer completely.

        An answer that is cut off, or none, is a `ConnectionError` or `IncompleteReadError`.
        """
        started = time.perf_counter()
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        found = re.search(rb"content-length: (\d+)", head)
        n_bytes = 0
        if found is not None:
            n_bytes = int(found[1])
            await self._reader.readexactly(n_bytes)
        else:
            while size := int(await self._reader.readline(), 16):
                await self._reader.readexactly(size + 2)
                n_bytes += size
            await self._reader.readexactly(2)
        return Answer(status, n_bytes, time.perf_counter() - started)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


def post(path: str, data: object, accept: str = "application/octet-stream") -> bytes:
    """Return a POST request with JSON."""
    body = json.dumps(data).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Accept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
