"""Atomic writing of files and folders: write under a temporary name, then rename."""

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
    """Yield a temporary path that is renamed to `path` at the end of the block.

    If the block ends early, for example by Ctrl-C or a full disk, the temporary file is removed and
    an existing file under `path` is left unchanged.
    """
    # A process id is not enough: on a shared disk another machine can use the same one.
    token = f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
    partial = path.with_name(f".{path.name}.{token}.partial")
    try:
        if path.is_dir():
            raise OutputError(f"Cannot write {path}: it is a folder. Give the path of a file.")
        if not path.parent.is_dir():
            raise OutputError(
                f"Cannot write {path}: the folder {path.parent} does not exist. Create it first."
            )
        yield partial
        sync(partial)
        partial.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"Cannot write {path}: {reason}. No partial file was left.") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder that is renamed to `folder` at the end of the block.

    The temporary folder is hidden and has the same parent. If the block ends early, it is removed
    and an existing folder is left unchanged; at the end, an existing folder is replaced.
    """
    folder = Path(os.path.abspath(folder))
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    older = folder.with_name(f".{folder.name}.{os.getpid()}.older")
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"Cannot write the folder {folder}: a file of that name exists.")
        if not folder.parent.is_dir():
            raise OutputError(
                f"Cannot write the folder {folder}: {folder.parent} does not exist. Create it "
                "first."
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
            f"Cannot write the folder {folder}: {reason}. No partial files were left."
        ) from error
    finally:
        if os.path.exists(older) and not os.path.exists(folder):
            older.rename(folder)
        shutil.rmtree(older, ignore_errors=True)
        shutil.rmtree(partial, ignore_errors=True)


def write_folder(folder: Path, writers: Mapping[str, Callable[[Path], Any] | None]) -> None:
    """Write several files into a folder, all or none of them.

    All files are first written to a temporary folder inside it, then moved into place in the given
    order. Other files in the folder are kept.

    Args:
        folder: Folder to write to; created if it does not exist.
        writers: Function that writes the file, by file name; None removes an existing file.
    """
    partial = folder / f".{os.getpid()}.partial"
    is_new = complete = False
    try:
        is_new = not folder.exists()
        if not is_new and not folder.is_dir():
            raise OutputError(f"Cannot write the folder {folder}: a file of that name exists.")
        for name in writers:
            if (folder / name).is_dir():
                raise OutputError(
                    f"Cannot write the folder {folder}: {name} in it is a folder, not a file."
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
            f"Cannot write the folder {folder}: {reason}. No partial files were left."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if is_new and not complete:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Hold an exclusive lock on a folder, which is created if it does not exist.

    The lock is a file lock, which the operating system releases when the process ends.

    Args:
        folder: Folder to lock.
        busy: Error message if another process holds the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise OutputError(f"Cannot write to {folder}: {error.strerror}.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(busy) from None
        yield


def clear_partials(*folders: Path) -> None:
    """Remove temporary files of killed processes. No other process may be writing there."""
    for folder in folders:
        for leftover in folder.glob(".*.partial"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def clear_partials_of(path: Path) -> None:
    """Remove temporary files that killed processes of this machine left while writing `path`."""
    for leftover in path.parent.glob(f".{escape(path.name)}.{escape(platform.node())}-*.partial"):
        process = leftover.name.split("-")[-2]
        if process.isdigit() and not _is_running(int(process)):
            leftover.unlink(missing_ok=True)


def _clear_leftovers(folder: Path) -> None:
    """Remove temporary folders that killed processes left while writing `folder`."""
    for leftover in folder.parent.glob(f".{folder.name}.*.partial"):
        number = leftover.name.split(".")[-2]
        if number == str(os.getpid()) or (number.isdigit() and not _is_running(int(number))):
            shutil.rmtree(leftover, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def sync(path: Path) -> None:
    """Flush a file to disk; for a folder, its list of entries."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
