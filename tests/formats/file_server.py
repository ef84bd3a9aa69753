"""A stand-in for the servers of published models, with the faults that downloads meet."""

import re
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from local_server import LocalServer

_RANGE = re.compile(r"bytes=(\d+)-")


@dataclass
class Request:
    """A request that the server received."""

    path: str
    range: str | None
    if_range: str | None


@dataclass
class FileServer(LocalServer):
    """A server of files in memory.

    Attributes:
        files: Content by path.
        etag: Entity tag of every file; None sends no version at all.
        has_ranges: Whether the server answers requests for a part of a file.
        cuts: Number of bytes after which each of the next responses is cut off.
        statuses: Status codes of the next responses, instead of the file.
        content_type: Type of every file.
        requests: All requests so far.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    etag: str | None = '"1"'
    has_ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    content_type: str = "application/octet-stream"
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Bind a free port."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.bind(Handler)

    def url(self, name: str) -> str:
        """Return the address of a file."""
        return f"{self.endpoint}/{name}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a file, a part of it, or an error."""
        headers = handler.headers
        self.requests.append(Request(handler.path, headers.get("Range"), headers.get("If-Range")))
        content = self.files.get(handler.path.lstrip("/"))
        status = self.statuses.pop(0) if self.statuses else (404 if content is None else 200)
        if status != 200 or content is None:
            handler.send_error(status)
            return
        asked = _RANGE.fullmatch(headers.get("Range", ""))
        is_same = headers.get("If-Range") in (None, self.etag)
        total = len(content)
        if asked is not None and self.has_ranges and is_same:
            start = int(asked[1])
            if start >= total:
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{total}")
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            content = content[start:]
        else:
            handler.send_response(200)
        handler.send_header("Content-Type", self.content_type)
        handler.send_header("Content-Length", str(len(content)))
        if self.etag is not None:
            handler.send_header("ETag", self.etag)
        handler.end_headers()
        handler.wfile.write(content[: self.cuts.pop(0)] if self.cuts else content)
