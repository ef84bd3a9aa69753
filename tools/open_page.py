"""Interface of a page in a headless browser."""

import json
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any


class OpenPage(ABC):
    """A page of a headless browser."""

    @abstractmethod
    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, with an optional fragment of its address, and wait until it is loaded."""

    @abstractmethod
    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""

    @abstractmethod
    def mouse(self, kind: str, x: float, y: float, pressed: bool = False) -> None:
        """Send a mouse event: `mouseMoved`, `mousePressed` or `mouseReleased`."""

    def wait(self, condition: str, timeout: float = 10.0) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + timeout
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"Not true within {timeout} s: {condition}")
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """Click the center of an element."""
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.mouse("mousePressed", x, y, pressed=True)
        self.mouse("mouseReleased", x, y)
