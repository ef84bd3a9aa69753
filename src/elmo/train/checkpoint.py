"""Training checkpoints: atomic writes, checksums, and removal of all but the last two.

Each file name contains the checksum of the content, so that a damaged checkpoint is detected before
it is loaded.
"""

import logging
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeVar, cast

import torch

from elmo.errors import FormatError
from elmo.files import atomic_path

Entry = TypeVar("Entry")

N_KEPT = 2
_NAME = re.compile(r"step-(\d+)-([0-9a-f]{8})\.pt")
logger = logging.getLogger(__name__)


class _ChecksumWriter:
    """File wrapper that computes the CRC-32 of the written data and remembers write errors."""

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


def save(folder: Path, step: int, content: Mapping[str, object]) -> Path:
    """Write a checkpoint of plain data and tensors atomically; keep only the newest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"step-{step:09d}.writing"
    with atomic_path(temporary) as partial:
        with partial.open("wb") as file:
            writer = _ChecksumWriter(file)
            try:
                torch.save(dict(content), cast(IO[bytes], writer))
            except RuntimeError:
                # While closing its archive, torch can replace the OSError by an error of its own.
                if writer.error is not None:
                    raise writer.error from None
                raise
        name = f"step-{step:09d}-{writer.checksum:08x}.pt"
    final = folder / name
    temporary.replace(final)
    for same_step in folder.glob(f"step-{step:09d}-*.pt"):
        if same_step != final:
            same_step.unlink(missing_ok=True)
    for older in _by_step(folder)[N_KEPT:]:
        if older != final:
            older.unlink(missing_ok=True)
    return final


def exists(folder: Path) -> bool:
    """Whether the folder contains a checkpoint, which can be damaged."""
    return bool(_by_step(folder))


def load_newest(folder: Path) -> dict[str, object] | None:
    """Return the newest undamaged checkpoint, if any, and delete damaged or unfinished files."""
    for unfinished in folder.glob("*.writing"):
        unfinished.unlink(missing_ok=True)
    for unfinished in folder.glob(".*.partial"):
        unfinished.unlink(missing_ok=True)
    for path in _by_step(folder):
        content = _read(path)
        if content is not None:
            return content
        logger.warning("%s is truncated or damaged. The previous checkpoint is used instead.", path)
        with suppress(OSError):
            path.unlink()
    return None


def entry(content: Mapping[str, object], name: str, kind: type[Entry]) -> Entry:
    """Return an entry of a checkpoint; raise `FormatError` if it is missing or of another type."""
    value = content.get(name)
    if not isinstance(value, kind):
        raise FormatError(
            f"The entry {name} of the checkpoint has type {type(value).__name__}, expected "
            f"{kind.__name__}. The checkpoint was not written by this program."
        )
    return value


def _by_step(folder: Path) -> list[Path]:
    """Return the paths of all checkpoints in the folder, newest first."""
    matches = [(_NAME.fullmatch(path.name), path) for path in folder.glob("step-*.pt")]
    numbered = [(int(match[1]), path) for match, path in matches if match]
    return [path for _, path in sorted(numbered, reverse=True)]


def _read(path: Path) -> dict[str, object] | None:
    """Load a checkpoint; return None if its content does not match the checksum in its name."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(2**22):
            checksum = zlib.crc32(block, checksum)
    match = _NAME.fullmatch(path.name)
    if match is None or int(match[2], 16) != checksum:
        return None
    content: dict[str, object] = torch.load(path, map_location="cpu", weights_only=True)
    return content
