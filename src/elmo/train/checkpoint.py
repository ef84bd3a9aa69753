"""Checkpoints: written whole or not at all, told from torn ones, the last two kept.

The name of a file holds the checksum of its content, so that one look tells whether it is whole.
"""

import logging
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from elmo.files import atomic_path

KEPT = 2
_NAME = re.compile(r"step-(\d+)-([0-9a-f]{8})\.pt")
logger = logging.getLogger(__name__)


class _Checksummed:
    """A file that adds up a checksum of what is written to it, and keeps the error of a write."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.checksum = 0
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self.checksum = zlib.crc32(data, self.checksum)
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self.file.flush()


def save(folder: Path, step: int, content: dict[str, Any]) -> Path:
    """Write a checkpoint and remove all but the newest.

    Args:
        folder: of the checkpoints; made where it is missing.
        step: updates done.
        content: tensors and plain data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"step-{step:09d}.writing"
    with atomic_path(temporary) as partial:
        with partial.open("wb") as file:
            summed = _Checksummed(file)
            try:
                torch.save(content, cast(IO[bytes], summed))
            except RuntimeError:
                # Closing its archive, torch may cover up why it could not be written.
                if summed.error is not None:
                    raise summed.error from None
                raise
        name = f"step-{step:09d}-{summed.checksum:08x}.pt"
    final = folder / name
    temporary.replace(final)
    for twin in folder.glob(f"step-{step:09d}-*.pt"):
        if twin != final:
            twin.unlink(missing_ok=True)
    for older in _by_step(folder)[KEPT:]:
        if older != final:
            older.unlink(missing_ok=True)
    return final


def newest(folder: Path) -> dict[str, Any] | None:
    """Read the newest whole checkpoint; None where there is none. What is torn is removed."""
    for left in folder.glob("*.writing"):
        left.unlink(missing_ok=True)
    for left in folder.glob(".*.partial"):
        left.unlink(missing_ok=True)
    for path in _by_step(folder):
        content = _read(path)
        if content is not None:
            return content
        logger.warning("%s is torn or damaged; the checkpoint before it is used", path)
        with suppress(OSError):
            path.unlink()
    return None


def _by_step(folder: Path) -> list[Path]:
    """List checkpoints, the newest first."""
    found = [(_NAME.fullmatch(path.name), path) for path in folder.glob("step-*.pt")]
    numbered = [(int(match[1]), path) for match, path in found if match]
    return [path for _, path in sorted(numbered, reverse=True)]


def _read(path: Path) -> dict[str, Any] | None:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(2**22):
            checksum = zlib.crc32(block, checksum)
    match = _NAME.fullmatch(path.name)
    if match is None or int(match[2], 16) != checksum:
        return None
    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return content
