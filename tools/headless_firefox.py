"""Client for headless Firefox, with the interface of that for Chromium.

It speaks WebDriver BiDi: JSON messages through a WebSocket on 127.0.0.1.
"""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from browser_process import browser_process
from open_page import OpenPage

NAMES = ("firefox-esr", "firefox")
# The remote agent sets further preferences that keep the browser from using the network.
PREFERENCES = """
user_pref("browser.startup.page", 0);
user_pref("browser.download.folderList", 2);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,#remote-settings-dummy/v1");
"""
# Code points of keys in the WebDriver standard.
KEYS = {
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
    "Escape": "\ue00c",
    "Home": "\ue011",
    "End": "\ue010",
    "Enter": "\ue007",
    "Tab": "\ue004",
}
SHIFT, SHIFT_KEY = 8, "\ue008"
EVENTS = ("log.entryAdded", "network.beforeRequestSent")
TEXT, CLOSE = 1, 8
FINAL, MASKED = 0x80, 0x80


def firefox_path() -> str | None:
    """Return the path of Firefox; None if it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class WebSocket:
    """The client's end of a WebSocket for text messages."""

    def __init__(self, host: str, port: int, path: str, timeout: float) -> None:
        """Open a connection."""
        self._socket = socket.create_connection((host, port), timeout)
        self._file = self._socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        status = self._file.readline()
        if b" 101 " not in status:
            raise RuntimeError(f"No WebSocket: {status!r}")
        while self._file.readline().strip():
            pass

    def send(self, message: str) -> None:
        """Send a message."""
        data = message.encode()
        n = len(data)
        length = bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n)
        if n > 0xFFFF:
            length = b"\x7f" + struct.pack(">Q", n)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[number % 4] for number, byte in enumerate(data))
        header = bytes([FINAL | TEXT, MASKED | length[0]]) + length[1:]
        self._socket.sendall(header + mask + masked)

    def receive(self) -> str:
        """Return the next message."""
        data = b""
        while True:
            first, length = self._file.read(2)
            if length == 126:
                (length,) = struct.unpack(">H", self._file.read(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", self._file.read(8))
            part = self._file.read(length)
            if first & 0x0F == CLOSE:
                raise RuntimeError("The browser closed the connection.")
            if first & 0x0F > CLOSE:  # ping and pong
                continue
            data += part
            if first & FINAL:
                return data.decode()

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()


class Firefox:
    """A running headless Firefox."""

    def __init__(self, port: int, downloads: Path, timeout: float) -> None:
        """Open a session with a browser whose folder for downloads is a link."""
        self._web_socket = WebSocket("127.0.0.1", port, "/session", timeout)
        self._downloads = downloads
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=list(EVENTS))

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._web_socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._web_socket.receive())
            if answer.get("id") == self._number:
                if answer["type"] == "error":
                    raise RuntimeError(f"{method}: {answer['message']}")
                return dict(answer["result"])
            if answer["type"] == "event":
                self.events.append(answer)

    def close(self) -> None:
        """Close the browser."""
        self.call("browser.close")
        self._web_socket.close()

    def save_downloads(self, folder: Path) -> None:
        """Save downloaded files in a folder.

        The command that does this is missing in Firefox 140, so the profile names a link.
        """
        self._downloads.unlink()
        self._downloads.symlink_to(folder.resolve())

    def page(self, width: int = 1280, height: int = 800) -> "FirefoxPage":
        """Return a new empty page."""
        context = self.call("browsingContext.create", type="tab")["context"]
        page = FirefoxPage(self, context)
        page.resize(width, height)
        return page


class FirefoxPage(OpenPage):
    """A page of Firefox."""

    def __init__(self, browser: Firefox, context: str) -> None:
        """Control the page with a browsing context."""
        self._browser, self._context = browser, context

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol for this page."""
        return self._browser.call(method, context=self._context, **parameters)

    def close(self) -> None:
        """Close the page."""
        self.call("browsingContext.close")

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Set the size of the page in CSS pixels."""
        viewport = {"width": width, "height": height}
        self.call("browsingContext.setViewport", viewport=viewport, devicePixelRatio=scale)

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, with an optional fragment of its address, and wait until it is loaded."""
        url = path.resolve().as_uri() + fragment
        self.call("browsingContext.navigate", url=url, wait="complete")

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        result = self._browser.call(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({script})))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        if result["type"] == "exception":
            raise RuntimeError(result["exceptionDetails"]["text"])
        value = result["result"]
        return json.loads(value["value"]) if value["type"] == "string" else None

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key: a character or a name in `KEYS`."""
        keys = [SHIFT_KEY] * (modifiers == SHIFT) + [KEYS.get(key, key)]
        actions = [{"type": "keyDown", "value": each} for each in keys]
        actions += [{"type": "keyUp", "value": each} for each in reversed(keys)]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self.call("input.performActions", actions=[source])

    def mouse(self, kind: str, x: float, y: float, pressed: bool = False) -> None:
        """Send a mouse event: `mouseMoved`, `mousePressed` or `mouseReleased`."""
        actions: list[dict[str, object]] = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        if kind != "mouseMoved":
            button = "pointerDown" if kind == "mousePressed" else "pointerUp"
            actions.append({"type": button, "button": 0})
        source = {"type": "pointer", "id": "mouse", "actions": actions}
        self.call("input.performActions", actions=[source])

    def screenshot(self, path: Path) -> None:
        """Write a PNG of the visible part."""
        data = self.call("browsingContext.captureScreenshot")["data"]
        path.write_bytes(base64.b64decode(data))

    def _events(self, method: str) -> list[dict[str, Any]]:
        self.evaluate("0")  # read the events that are waiting
        return [each["params"] for each in self._browser.events if each["method"] == method]

    def errors(self) -> list[str]:
        """Return the exceptions, logged errors and violations of the security policy so far."""
        return [
            entry["text"]
            for entry in self._events("log.entryAdded")
            if entry["source"].get("context") == self._context
            and entry["level"] in ("error", "warn")
        ]

    def requests(self) -> list[str]:
        """Return the addresses that were requested so far, without those in memory."""
        addresses = [
            event["request"]["url"]
            for event in self._events("network.beforeRequestSent")
            if event["context"] == self._context
        ]
        return [url for url in addresses if not url.startswith(("data:", "blob:"))]


@contextmanager
def headless_firefox(timeout: float = 30.0) -> Iterator[Firefox]:
    """Start headless Firefox and stop it at the end of the block.

    Args:
        timeout: Maximum number of seconds of a call.
    """
    path = firefox_path()
    if path is None:
        raise RuntimeError("No Firefox is installed. On Debian: apt-get install firefox-esr")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile, downloads = Path(folder) / "profile", Path(folder) / "downloads"
        profile.mkdir()
        downloads.symlink_to(profile)
        preferences = (
            f'{PREFERENCES}user_pref("browser.download.dir", {json.dumps(str(downloads))});'
        )
        (profile / "user.js").write_text(preferences, encoding="utf-8")
        options = ["--headless", "--no-remote", "--profile", str(profile)]
        command = [path, *options, "--remote-debugging-port=0"]
        with browser_process(command, env={**os.environ, "HOME": folder}) as process:
            port = _port(profile / "WebDriverBiDiServer.json", process, timeout)
            browser = Firefox(port, downloads, timeout)
            yield browser
            browser.close()


def _port(path: Path, process: "subprocess.Popen[bytes]", timeout: float) -> int:
    """Return the port that the browser listens to, when it has written it to a file."""
    end = time.monotonic() + timeout
    while time.monotonic() < end and process.poll() is None:
        try:
            return int(json.loads(path.read_text(encoding="utf-8"))["ws_port"])
        except (OSError, ValueError):
            time.sleep(0.05)
    raise RuntimeError("Firefox did not start.")
