"""A folder, a zip or a tar as one set of named files.

Nothing is ever unpacked to disk, so no name inside an archive can reach a path outside it.
"""

import io
import json
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from elmo.errors import FormatError

# What torn archives make their readers raise; names inside that are no UTF-8 are a ValueError.
_BROKEN = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
)


@dataclass(frozen=True)
class Container:
    """Named files and a way to open them.

    Attributes:
        label: what to call it in a message.
        names: the files, by their paths inside.
        opener: opens one of them for reading from any position.
        deeper: whether a file that is not among the names, in a folder below, can be opened too.
    """

    label: str
    names: tuple[str, ...]
    opener: Callable[[str], BinaryIO]
    deeper: Callable[[str], bool] = lambda name: False

    def holds(self, name: str) -> bool:
        """Whether there is a file of this path inside."""
        return name in self.names or self.deeper(name)

    def open(self, name: str) -> BinaryIO:
        """Open a file; one that cannot be read is a `FormatError`."""
        if not self.holds(name):
            raise FormatError(f"{self.label}: there is no {name}; found {self.listing()}")
        try:
            return self.opener(name)
        except _BROKEN as error:
            raise FormatError(f"{self.label}: {name} cannot be read: {one_line(error)}") from None

    def read(self, name: str) -> bytes:
        """Read a whole file."""
        with self.open(name) as file:
            return file.read()

    def read_json(self, name: str) -> Any:
        """Read a JSON file."""
        return parse_json(self.read(name), f"{self.label}: {name}")

    def listing(self) -> str:
        """List the first names, for a message."""
        shown = ", ".join(self.names[:8]) or "no files"
        return shown + (f" and {len(self.names) - 8} more" if len(self.names) > 8 else "")


def one_line(error: Exception) -> str:
    """Give the text of another library's error so that it fits into a message."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def parse_json(data: bytes, label: str) -> Any:
    """Parse JSON; what is no JSON is a `FormatError`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # among them too many digits, and no UTF-8
        raise FormatError(f"{label} is not JSON: {error}") from None


def read_file(path: Path) -> bytes:
    """Read a whole file; a path that cannot be read is a `FormatError`."""
    with open_file(path) as file:
        return file.read()


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading; a path that cannot be opened is a `FormatError`."""
    try:
        return path.open("rb")
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror}") from None


def open_folder(path: Path) -> Container:
    """Take the files of a folder; only those directly inside are listed.

    A folder may hold anything, so what lies below it is looked for by its whole path alone.
    """
    try:
        names = tuple(sorted(item.name for item in path.iterdir() if item.is_file()))
    except OSError as error:
        raise FormatError(f"cannot read the folder {path}: {error.strerror}") from None

    def below(name: str) -> bool:
        found = os.path.normpath(path / name)
        return Path(found).is_relative_to(os.path.normpath(path)) and os.path.isfile(found)

    return Container(str(path), names, lambda name: open_file(path / name), below)


def open_zip(path: Path) -> Container:
    """Take the files of a zip; a single folder around them is looked through.

    What macOS adds to a zip is passed over.
    """
    try:
        archive = zipfile.ZipFile(path)
    except _BROKEN as error:
        raise FormatError(f"{path} is not a whole zip file: {one_line(error)}") from None
    members = {
        item.filename: item
        for item in archive.infolist()
        if not item.filename.endswith("/") and not item.filename.startswith("__MACOSX/")
    }
    inside = _without_top_folder(list(members))
    return Container(
        str(path),
        tuple(inside),
        lambda name: io.BytesIO(archive.read(members[inside[name]])),
    )


def open_tar(path: Path) -> Container:
    """Take the regular files of a tar, compressed or not; links in it are passed over."""
    try:
        with tarfile.open(path) as archive:
            members = {item.name.removeprefix("./"): item for item in archive if item.isreg()}
            # The checksum of a compressed archive is only looked at where it ends.
            while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                pass
    except _BROKEN as error:
        raise FormatError(f"{path} is not a whole tar archive: {one_line(error)}") from None

    def read(name: str) -> BinaryIO:
        with tarfile.open(path) as archive:
            file = archive.extractfile(members[name])
            assert file is not None  # only None for what is no regular file
            return io.BytesIO(file.read())

    return Container(str(path), tuple(members), read)


def _without_top_folder(names: list[str]) -> dict[str, str]:
    tops = {name.split("/", 1)[0] for name in names}
    if len(tops) == 1 and all("/" in name for name in names):
        return {name.split("/", 1)[1]: name for name in names}
    return {name: name for name in names}
