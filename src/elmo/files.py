"""Files written beside their final name and moved: a reader never meets half of one."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from elmo.errors import OutputError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a path to write to which becomes `path` at the end of the block.

    Whatever ends the block early, Ctrl-C and a full disk included, removes the partial file and
    leaves an older one under `path` as it was.
    """
    if path.is_dir():
        raise OutputError(f"cannot write {path}: it is a folder; name a file")
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write {path}: {reason}; nothing was left behind") from error
    finally:
        partial.unlink(missing_ok=True)


def write_folder(folder: Path, writers: Mapping[str, Callable[[Path], None]]) -> None:
    """Write several files into a folder, all or none of them.

    Each is written into a temporary folder inside first; only when all are complete are they
    moved, in the order given, into place. Other files in the folder stay.

    Args:
        folder: made where it does not exist.
        writers: a function that writes the file, by its name.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"cannot write the folder {folder}: there is a file of that name")
    is_new = not folder.exists()
    partial = folder / f".{os.getpid()}.partial"
    complete = False
    try:
        partial.mkdir(parents=True)
        for name, write in writers.items():
            with atomic_path(partial / name) as path:
                write(path)
        for name in writers:
            (partial / name).replace(folder / name)
        complete = True
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write the folder {folder}: {reason}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if is_new and not complete:
            shutil.rmtree(folder, ignore_errors=True)
