"""Download of one file over HTTP, resumed after an interruption.

The bytes received so far are in `NAME.part`, next to a record of the version of the file on the
server. The rest is only requested if the server still has that version (`If-Range`), so that two
versions are never mixed. `NAME` appears when the file is complete and was checked.
"""

import errno
import hashlib
import http.client
import json
import logging
import shutil
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from elmo.errors import FormatError, OutputError
from elmo.files import atomic_path, sync
from elmo.progress import Progress

TIMEOUT = 30.0
"""Seconds without any answer after which a connection counts as lost."""
PAUSES = (1.0, 2.0, 4.0)
"""Seconds before each new attempt; an attempt that received data starts the series again."""
CHUNK = 1 << 18
MEGABYTE = 1_000_000
RESUME = "Run the same command again to resume."
logger = logging.getLogger(__name__)
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class ConnectionLost(Exception):
    """The connection could not be opened or ended too early; trying again can help."""


@dataclass
class PartialFile:
    """The part of a file that was downloaded so far, and the version it belongs to."""

    path: Path
    url: str

    @property
    def part(self) -> Path:
        """Path of the bytes received so far."""
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def record(self) -> Path:
        """Path of the record of the version."""
        return self.path.with_name(f"{self.path.name}.part.json")

    @property
    def n_bytes(self) -> int:
        """Number of bytes received so far."""
        return self.part.stat().st_size if self.part.exists() else 0

    def version(self) -> str | None:
        """Return the value for `If-Range`; None if the rest cannot be requested."""
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        is_known = isinstance(record, dict) and record.get("url") == self.url and self.n_bytes > 0
        return record.get("version") if is_known else None

    def start(self, version: str | None) -> None:
        """Discard what was received and record the version of the new download."""
        with atomic_path(self.record) as path:
            path.write_text(json.dumps({"url": self.url, "version": version}), encoding="utf-8")
        self.part.write_bytes(b"")

    def discard(self) -> None:
        """Remove what was received."""
        self.part.unlink(missing_ok=True)
        self.record.unlink(missing_ok=True)

    def finish(self) -> None:
        """Rename the complete file."""
        sync(self.part)
        self.part.replace(self.path)
        self.record.unlink(missing_ok=True)


def download_file(url: str, path: Path, checksum: str = "", *, show_progress: bool = True) -> str:
    """Download a file, resuming an earlier attempt, and return its SHA-256 in hexadecimal.

    The folder of the path exists. The expected checksum is `ALGORITHM:HEX`, or empty if it is
    unknown; a wrong file is an error.
    """
    partial = PartialFile(path, url)
    pauses = iter(PAUSES)
    restarts = 0
    while True:
        before = partial.n_bytes
        try:
            _receive(partial, show_progress)
            break
        except ConnectionLost as error:
            can_resume = partial.version() is not None
            if not can_resume:
                restarts += partial.n_bytes > 0
            if not can_resume and restarts > 1:
                raise FormatError(
                    f"The connection to {_host(url)} was lost several times, and the server "
                    "cannot resume a download. Try again with a better connection, or download "
                    f"{url} by other means."
                ) from error
            if partial.n_bytes > before:
                pauses = iter(PAUSES)
            pause = next(pauses, None)
            if pause is None:
                kept = f" {RESUME}" if can_resume else ""
                raise FormatError(f"Cannot download {url}: {error}.{kept}") from error
            time.sleep(pause)
    digest = _check(partial, checksum)
    partial.finish()
    return digest


def _receive(partial: PartialFile, show_progress: bool) -> None:
    """Request the missing part of a file and append it."""
    asked_from = partial.n_bytes
    version = partial.version()
    headers = {"User-Agent": "elmo-torch", "Accept-Encoding": "identity"}
    if version is not None:
        headers |= {"Range": f"bytes={asked_from}-", "If-Range": version}
    with closing(_open(urllib.request.Request(partial.url, headers=headers))) as response:
        if response.status == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            # The part has the size of the whole file, or the file on the server shrank.
            if response.headers.get("Content-Range", "") == f"bytes */{asked_from}":
                return
            partial.discard()
            raise ConnectionLost("the file on the server changed")
        if response.status == http.client.PARTIAL_CONTENT and version is not None:
            if not response.headers.get("Content-Range", "").startswith(f"bytes {asked_from}-"):
                partial.discard()
                raise ConnectionLost("the server sent another part than requested")
        else:
            _reject_web_page(response, partial.url)
            new_version = _version(response.headers)
            if version is not None:
                reason = "It changed on the server"
                if version == new_version:
                    reason, new_version = "The server cannot resume downloads", None
                logger.warning("%s: %s. The download starts again.", partial.path.name, reason)
            partial.start(new_version)
        _append(partial, response, show_progress)


def _append(partial: PartialFile, response: Any, show_progress: bool) -> None:
    done = partial.n_bytes
    length = response.headers.get("Content-Length")
    total = None if length is None else done + int(length)
    _check_free_space(partial.path, 0 if total is None else total - done)
    megabytes = None if total is None else max(1, round(total / MEGABYTE))
    name = partial.path.name
    with (
        partial.part.open("ab") as file,
        Progress(name, megabytes, "MB", show_progress, done // MEGABYTE) as progress,
    ):
        for chunk in _chunks(response):
            try:
                file.write(chunk)
            except OSError as error:
                raise _write_error(partial.path, error) from error
            progress.advance(len(chunk) / MEGABYTE)
        try:
            file.flush()
        except OSError as error:
            raise _write_error(partial.path, error) from error
    if total is not None and partial.n_bytes < total:
        raise ConnectionLost(
            f"the connection was closed after {partial.n_bytes:,} of {total:,} bytes"
        )


def _chunks(response: Any) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost(_reason(error)) from error
        if not chunk:
            return
        yield chunk


def _open(request: urllib.request.Request) -> Any:
    """Send a request and return the response; raise `ConnectionLost` if that can be retried."""
    url = request.full_url
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return error
        with closing(error):
            if error.code in (http.client.NOT_FOUND, http.client.GONE):
                raise FormatError(
                    f"The server has no file {url} ({error.code}). It may have moved; see the "
                    "page of the publisher (elmo download --list)."
                ) from None
            if error.code in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
                raise FormatError(f"The server denied access to {url} ({error.code}).") from None
            raise ConnectionLost(f"the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionLost(
            f"{_host(url)} cannot be reached ({_reason(error)}). Check the network connection and "
            "the proxy (https_proxy)"
        ) from error


def _reject_web_page(response: Any, url: str) -> None:
    """Raise `FormatError` if a login or error page is sent instead of the file."""
    if response.headers.get_content_type() == "text/html":
        raise FormatError(
            f"{url} returned a web page instead of the file. Open the address in a browser: it may "
            "have moved, or the network requires a login."
        )


def _version(headers: Any) -> str | None:
    """Return a value for `If-Range`; weak entity tags are not allowed there."""
    tag = headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        return str(tag)
    changed = headers.get("Last-Modified")
    return None if changed is None else str(changed)


def _check(partial: PartialFile, checksum: str) -> str:
    """Check the content of a complete file and return its SHA-256; discard a wrong file."""
    algorithm, _, expected = checksum.partition(":")
    hashes = {name: hashlib.new(name) for name in {"sha256", algorithm or "sha256"}}
    with partial.part.open("rb") as file:
        while chunk := file.read(CHUNK):
            for digest in hashes.values():
                digest.update(chunk)
    problem = ""
    if expected and hashes[algorithm].hexdigest() != expected:
        found = hashes[algorithm].hexdigest()
        problem = f"its {algorithm} checksum is {found}, expected {expected}"
    else:
        wrong_kind = next(
            (
                kind
                for end, (kind, is_kind) in _KINDS.items()
                if partial.path.name.endswith(end) and not is_kind(partial.part)
            ),
            None,
        )
        if wrong_kind is not None:
            problem = f"it is not {wrong_kind}"
    if problem:
        partial.discard()
        raise FormatError(
            f"The file from {partial.url} is damaged or was replaced: {problem}. It was deleted; "
            "run the same command to download it again."
        )
    return hashes["sha256"].hexdigest()


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True


def _starts_with(start: bytes) -> Callable[[Path], bool]:
    def check(path: Path) -> bool:
        with path.open("rb") as file:
            return file.read(len(start)) == start

    return check


# By file ending: name of the format, and a function that checks a file quickly.
_KINDS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    ".json": ("a JSON file", _is_json),
    ".hdf5": ("an HDF5 file", _starts_with(_HDF5_SIGNATURE)),
    ".zip": ("a complete zip file", zipfile.is_zipfile),
    ".gz": ("a gzip file", _starts_with(b"\x1f\x8b")),
}


def _check_free_space(path: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if n_bytes > free:
        raise OutputError(
            f"Cannot write {path}: {n_bytes / MEGABYTE:,.0f} MB are needed, but only "
            f"{free / MEGABYTE:,.0f} MB are free. Free some space, or use another folder (--out or "
            "ELMO_HOME)."
        )


def _write_error(path: Path, error: OSError) -> OutputError:
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = f"Free some space. {RESUME}" if is_full else "Check the folder."
    return OutputError(f"Cannot write {path}: {error.strerror or error}. {remedy}")


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _reason(error: BaseException) -> str:
    """Return the innermost reason of a connection error as one line."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"no answer for {TIMEOUT:g} s"
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return " ".join(text.split()) or type(cause).__name__
