"""Client for headless Chromium: opens pages, sends keys and mouse events, and collects errors.

It speaks the DevTools protocol through pipes (`--remote-debugging-pipe`): JSON messages, each ended
by a zero byte.
"""

import base64
import json
import os
import queue
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from browser_process import browser_process
from open_page import OpenPage

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
KEYS = {
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Escape": 27,
    "Home": 36,
    "End": 35,
    "Enter": 13,
    "Tab": 9,
}
SHIFT = 8
# Replaces itself by the browser, which reads from descriptor 3 and writes to descriptor 4.
LAUNCHER = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def browser_path() -> str | None:
    """Return the path of Chromium or Chrome; None if neither is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A running headless browser."""

    def __init__(self, read: int, write: int, timeout: float) -> None:
        """Read messages from one file descriptor and write them to another."""
        self._write, self._timeout = write, timeout
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        self.events: list[dict[str, Any]] = []
        Thread(target=self._collect, args=(read,), daemon=True).start()

    def _collect(self, read: int) -> None:
        buffer = b""
        while block := os.read(read, 1 << 16):
            *messages, buffer = (buffer + block).split(b"\0")
            for message in messages:
                self._messages.put(json.loads(message))

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: dict[str, object] = {
            "id": self._number,
            "method": method,
            "params": parameters,
        }
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._messages.get(timeout=self._timeout)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            if "method" in answer:
                self.events.append(answer)

    def save_downloads(self, folder: Path) -> None:
        """Save downloaded files in a folder."""
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def page(self, width: int = 1280, height: int = 800) -> "BrowserPage":
        """Return a new empty page."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = BrowserPage(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        return page


class BrowserPage(OpenPage):
    """A page of a browser."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        """Control the page with a target id and a session id."""
        self._browser, self._target, self._session = browser, target, session

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol for this page."""
        return self._browser.call(method, self._session, **parameters)

    def close(self) -> None:
        """Close the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Set the size of the page in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def open(self, page: Path | str, fragment: str = "") -> None:
        """Open a file or an address, with an optional fragment, and wait until it is loaded."""
        address = page if isinstance(page, str) else page.resolve().as_uri()
        self.call("Page.navigate", url=address + fragment)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key: a character or a name in `KEYS`."""
        text = {"text": key} if key not in KEYS else {}
        code = KEYS.get(key, ord(key[0].upper()))
        common: dict[str, object] = {
            "key": key,
            "windowsVirtualKeyCode": code,
            "modifiers": modifiers,
        }
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type_text(self, text: str) -> None:
        """Insert a text into the focused element, as a keyboard or an input method does."""
        self.call("Input.insertText", text=text)

    def mouse(self, kind: str, x: float, y: float, pressed: bool = False) -> None:
        """Send a mouse event: `mouseMoved`, `mousePressed` or `mouseReleased`."""
        button = "left" if pressed or kind != "mouseMoved" else "none"
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button=button,
            buttons=int(pressed),
            clickCount=int(kind != "mouseMoved"),
        )

    def reduce_motion(self) -> None:
        """Set the preference of the user for reduced motion."""
        feature = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path) -> None:
        """Write a PNG of the visible part."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def _events(self, *methods: str) -> list[dict[str, Any]]:
        self.evaluate("0")  # read the events that are waiting
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] in methods
        ]

    def errors(self) -> list[str]:
        """Return the exceptions, logged errors and violations of the security policy so far."""
        errors = [
            event["exceptionDetails"].get("exception", {}).get("description", "exception")
            for event in self._events("Runtime.exceptionThrown")
        ]
        errors += [
            str([part.get("value") for part in event["args"]])
            for event in self._events("Runtime.consoleAPICalled")
            if event["type"] in ("error", "warning", "assert")
        ]
        entries = (event["entry"] for event in self._events("Log.entryAdded"))
        return errors + [entry["text"] for entry in entries if entry["level"] == "error"]

    def requests(self) -> list[str]:
        """Return the addresses that were requested so far, without those in memory."""
        addresses = [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [url for url in addresses if not url.startswith(("data:", "blob:"))]


@contextmanager
def headless_browser(timeout: float = 30.0) -> Iterator[Browser]:
    """Start a headless browser and stop it at the end of the block.

    Args:
        timeout: Maximum number of seconds of a call.
    """
    path = browser_path()
    if path is None:
        raise RuntimeError("No Chromium is installed. On Debian: apt-get install chromium")
    to_browser, from_browser = os.pipe(), os.pipe()
    ends = (to_browser[0], from_browser[1])
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            flags = [*FLAGS, f"--user-data-dir={profile}"]
            if os.geteuid() == 0:  # the sandbox does not work for root
                flags.append("--no-sandbox")
            launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, ends)]
            with browser_process([*launcher, path, *flags], pass_fds=ends):
                for end in ends:
                    os.close(end)
                browser = Browser(from_browser[0], to_browser[1], timeout)
                yield browser
                browser.call("Browser.close")
    finally:
        os.close(to_browser[1])
        os.close(from_browser[0])
