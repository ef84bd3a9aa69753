"""Atomic writing of files and folders, by writing to a temporary path and renaming it."""

import fcntl
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from elmo.errors import OutputError

LOCK = ".lock"


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `path` at the end of the block.

    If the block raises an exception, for example because of Ctrl-C or a full disk, the temporary
    file is removed and an existing file at `path` is left unchanged.
    """
    # A process id is not unique enough: on a shared disk, another machine can use the same one.
    token = f"{platform.node()}-{os.getpid()}-{secrets.token_hex(4)}"
    partial = path.with_name(f".{path.name}.{token}.partial")
    try:
        if path.is_dir():
            raise OutputError(f"Cannot write {path}: it is a folder. Specify a file path.")
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

    The temporary folder is hidden and has the same parent. An existing folder is replaced, but only
    at the end of the block: if the block raises an exception, the temporary folder is removed and
    the existing folder is left unchanged.
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


def write_folder(folder: Path, writers: Mapping[str, Callable[[Path], object] | None]) -> None:
    """Write several files to a folder: either all of them or none.

    The files are first written to a temporary subfolder, then moved into place in the given order.
    A file without a function that writes it is removed. Other files are left unchanged.
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
    """Hold an exclusive lock on a folder for the duration of the block.

    The folder is created if it does not exist. The operating system releases the lock when the
    process ends. `busy` is the error message if another process holds the lock.
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
    """Remove temporary files of killed processes, while no process writes to the folders."""
    for folder in folders:
        for leftover in folder.glob(".*.partial"):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def clear_partials_of(path: Path) -> None:
    """Remove temporary files for `path` that were left by killed processes on this machine."""
    for leftover in path.parent.glob(f".{escape(path.name)}.{escape(platform.node())}-*.partial"):
        process = leftover.name.split("-")[-2]
        if process.isdigit() and not _is_running(int(process)):
            leftover.unlink(missing_ok=True)


def _clear_leftovers(folder: Path) -> None:
    """Remove temporary folders for `folder` that were left by killed processes."""
    for leftover in folder.parent.glob(f".{folder.name}.*.partial"):
        number = leftover.name.split(".")[-2]
        if number == str(os.getpid()) or (number.isdigit() and not _is_running(int(number))):
            shutil.rmtree(leftover, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def sync(path: Path) -> None:
    """Flush a file, or the directory entries of a folder, to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
