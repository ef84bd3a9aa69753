"""Uniform read access to the files in a folder, zip or tar archive.

Archives are never unpacked to disk, so a name inside an archive cannot reach a path outside it.
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
from typing import BinaryIO

from elmo.errors import FormatError, listing, shortened

# Errors raised by the readers of damaged archives; ValueError: a name that is not valid UTF-8.
_READ_ERRORS = (
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
    """A read-only set of named files in a folder or archive.

    `opener` opens a file for random-access reading. `has_nested` returns whether a path refers to a
    file in a subfolder; such files can be opened but are not listed in `names`.
    """

    label: str
    names: tuple[str, ...]
    opener: Callable[[str], BinaryIO]
    has_nested: Callable[[str], bool] = lambda name: False

    def holds(self, name: str) -> bool:
        """Whether the container has a file with this path."""
        return name in self.names or self.has_nested(name)

    def open(self, name: str) -> BinaryIO:
        """Open a file; raise `FormatError` if it is missing or cannot be read."""
        if not self.holds(name):
            raise FormatError(f"{self.label}: no file {name} (found {self.listing()}).")
        try:
            return self.opener(name)
        except _READ_ERRORS as error:
            raise FormatError(f"{self.label}: cannot read {name}: {one_line(error)}") from None

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.open(name) as file:
            return file.read()

    def read_json(self, name: str) -> object:
        """Return the parsed content of a JSON file."""
        return parse_json(self.read(name), f"{self.label}: {name}")

    def listing(self) -> str:
        """Return the first few file names as text for an error message."""
        return listing(self.names, 8) if self.names else "no files"


def one_line(error: Exception) -> str:
    """Return an error message as a single line of limited length."""
    return shortened(error) or type(error).__name__


def parse_json(data: bytes, label: str) -> object:
    """Parse JSON; raise `FormatError` if it is invalid."""
    try:
        return json.loads(data)
    # ValueError: also invalid UTF-8, or a number with too many digits
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{label} is not valid JSON: {error}") from None


def read_file(path: Path) -> bytes:
    """Return the content of a file; raise `FormatError` if it cannot be read."""
    with open_file(path) as file:
        return file.read()


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading; raise `FormatError` if that fails."""
    try:
        return path.open("rb")
    except OSError as error:
        raise FormatError(f"Cannot read {path}: {error.strerror}") from None


def open_folder(path: Path) -> Container:
    """Return the files directly inside a folder.

    Subfolders are not listed because they may contain many unrelated files. A file in a subfolder
    can still be opened by its relative path.
    """
    try:
        names = tuple(sorted(item.name for item in path.iterdir() if item.is_file()))
    except OSError as error:
        raise FormatError(f"Cannot read the folder {path}: {error.strerror}") from None

    def has_nested(name: str) -> bool:
        nested = os.path.normpath(path / name)
        return Path(nested).is_relative_to(os.path.normpath(path)) and os.path.isfile(nested)

    return Container(str(path), names, lambda name: open_file(path / name), has_nested)


def open_zip(path: Path) -> Container:
    """Return the files in a zip archive.

    If all files are in one top-level folder, its name is removed from their paths. Metadata folders
    added by macOS are ignored.
    """
    try:
        archive = zipfile.ZipFile(path)
    except _READ_ERRORS as error:
        raise FormatError(f"{path} is not a complete zip file: {one_line(error)}") from None
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
    """Return the regular files in a tar archive, compressed or not; links are ignored.

    If all files are in one top-level folder, its name is removed from their paths.
    """
    try:
        with tarfile.open(path) as archive:
            members = {item.name.removeprefix("./"): item for item in archive if item.isreg()}
            # Read to the end: only there is the checksum of a compressed archive verified.
            while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                pass
    except _READ_ERRORS as error:
        raise FormatError(f"{path} is not a complete tar archive: {one_line(error)}") from None

    inside = _without_top_folder(list(members))

    def read(name: str) -> BinaryIO:
        with tarfile.open(path) as archive:
            file = archive.extractfile(members[inside[name]])
            assert file is not None  # it is None only if the member is not a regular file
            return io.BytesIO(file.read())

    return Container(str(path), tuple(inside), read)


def _without_top_folder(names: list[str]) -> dict[str, str]:
    tops = {name.split("/", 1)[0] for name in names}
    if len(tops) == 1 and all("/" in name for name in names):
        return {name.split("/", 1)[1]: name for name in names}
    return {name: name for name in names}
