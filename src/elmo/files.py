"""Files written beside their final name and moved: a reader never meets half of one."""

import fcntl
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from elmo.errors import OutputError

LOCK = ".lock"


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a path to write to which becomes `path` at the end of the block.

    Whatever ends the block early, Ctrl-C and a full disk included, removes the partial file and
    leaves an older one under `path` as it was.
    """
    # A number of this process alone would not do: on a shared disk another machine has it too.
    token = f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
    partial = path.with_name(f".{path.name}.{token}.partial")
    try:
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder; name a file")
        if not path.parent.is_dir():
            raise OutputError(
                f"cannot write {path}: there is no folder {path.parent}; make it first"
            )
        yield partial
        sync(partial)
        partial.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {path}: {reason}; nothing was left behind") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Give an empty folder to fill which becomes `folder` at the end of the block.

    It stands hidden beside the final one. Whatever ends the block early removes it and leaves an
    older folder as it was; at the end an older one is replaced as a whole.
    """
    folder = Path(os.path.abspath(folder))
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    older = folder.with_name(f".{folder.name}.{os.getpid()}.older")
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"cannot write the folder {folder}: there is a file of that name")
        if not folder.parent.is_dir():
            raise OutputError(
                f"cannot write the folder {folder}: there is no folder {folder.parent}; make it "
                "first"
            )
        _clear_leftovers(folder)
        partial.mkdir()
        yield partial
        for path in partial.rglob("*"):
            if path.is_file():
                sync(path)
        if folder.exists():
            folder.rename(older)
        partial.rename(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"cannot write the folder {folder}: {reason}; nothing was left behind"
        ) from error
    finally:
        if os.path.exists(older) and not os.path.exists(folder):
            older.rename(folder)
        shutil.rmtree(older, ignore_errors=True)
        shutil.rmtree(partial, ignore_errors=True)


def write_folder(folder: Path, writers: Mapping[str, Callable[[Path], Any] | None]) -> None:
    """Write several files into a folder, all or none of them.

    Each is written into a temporary folder inside first; only when all are complete are they
    moved, in the order given, into place. Other files in the folder stay.

    Args:
        folder: made where it does not exist.
        writers: a function that writes the file, by its name; None removes an older file.
    """
    partial = folder / f".{os.getpid()}.partial"
    is_new = complete = False
    try:
        is_new = not folder.exists()
        if not is_new and not folder.is_dir():
            raise OutputError(f"cannot write the folder {folder}: there is a file of that name")
        for name in writers:
            if (folder / name).is_dir():
                raise OutputError(
                    f"cannot write the folder {folder}: {name} in it is a folder, not a file"
                )
        partial.mkdir(parents=True)
        for name, write in writers.items():
            if write is not None:
                write(partial / name)
                sync(partial / name)
        for name, write in writers.items():
            if write is None:
                (folder / name).unlink(missing_ok=True)
            else:
                (partial / name).replace(folder / name)
        complete = True
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"cannot write the folder {folder}: {reason}; nothing was left behind"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if is_new and not complete:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Keep a second process out of a folder, which is made where it is missing.

    Args:
        folder: who is in it holds the lock of a file there, which ends with the process.
        busy: what to say where another one is in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(busy) from None
        yield


def clear_partials(*folders: Path) -> None:
    """Remove what killed processes had not finished writing; nobody else may be writing there."""
    for folder in folders:
        for left in folder.glob(".*.partial"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def clear_partials_of(path: Path) -> None:
    """Remove what killed processes of this machine left when they wrote a file of this name."""
    for left in path.parent.glob(f".{escape(path.name)}.{escape(platform.node())}-*.partial"):
        process = left.name.split("-")[-2]
        if process.isdigit() and not _is_running(int(process)):
            left.unlink(missing_ok=True)


def _clear_leftovers(folder: Path) -> None:
    """Remove what processes left beside a folder when they were killed while writing it."""
    for left in folder.parent.glob(f".{folder.name}.*.partial"):
        number = left.name.split(".")[-2]
        if number == str(os.getpid()) or (number.isdigit() and not _is_running(int(number))):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def sync(path: Path) -> None:
    """Wait until the disk has a file; of a folder, the names in it."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
