"""A server in a process of its own, with a tiny model and short time limits."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading

from server_app import make_model

from elmo.embed.embedder import ELMo

START = """\
import signal, sys
from elmo.serve import http_protocol, request_body
http_protocol.REQUEST_SECONDS, request_body.BODY_SECONDS = 0.3, 0.3
from elmo.cli import main
sys.argv = {arguments!r}
main()
"""


class ServerProcess:
    """A running server: its port, and after its end the lines of its log and its errors."""

    def __init__(self, folder, *arguments):
        ELMo(make_model()).save_pretrained(folder / "model")
        words = ["elmo", "serve", "--port", "0", "--model", f"tiny={folder / 'model'}", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START.format(arguments=words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stderr.readline()
        match = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert match, line + self.process.stderr.read()
        self.port = int(match[1])
        self.log, self.errors = [], []
        self._readers = [
            threading.Thread(target=target.extend, args=[stream])
            for target, stream in (
                (self.log, self.process.stdout),
                (self.errors, self.process.stderr),
            )
        ]
        for reader in self._readers:
            reader.start()

    def stop(self, timeout=20):
        """Send SIGTERM and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout=20):
        """Wait for the end and return the exit status."""
        try:
            return self.process.wait(timeout)
        finally:
            self.process.kill()
            for reader in self._readers:
                reader.join(10)
            self.process.stdout.close()
            self.process.stderr.close()

    def records(self):
        """Return the objects in the log."""
        return list(map(json.loads, self.log))


@contextlib.contextmanager
def running_server(folder, *arguments):
    """Yield a server and stop it."""
    server = ServerProcess(folder, *arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()
