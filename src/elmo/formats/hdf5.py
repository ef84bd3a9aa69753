"""Reading HDF5 datasets as float32 arrays, and writing HDF5 files safely when the disk is full.

h5py is imported only when a file is opened, because most runs do not use HDF5.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from elmo.errors import FormatError
from elmo.formats.container import one_line
from elmo.formats.weight_names import Array

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_arrays(file: BinaryIO, label: str) -> dict[str, Array]:
    """Read every dataset in a file as float32, by path. Links to other files are not followed."""
    import h5py

    arrays: dict[str, Array] = {}

    def visit(name: str, item: object) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.external is not None or item.is_virtual:
            raise FormatError(f"{label}: {name} refers to another file, which is not supported.")
        if item.dtype.kind != "f":
            raise FormatError(f"{label}: {name} has dtype {item.dtype}, expected floating point.")
        with np.errstate(over="ignore"):  # infinite values raise later, with the name of the tensor
            arrays[name] = np.asarray(item[()], dtype=np.float32)

    try:
        with h5py.File(file, "r") as content:
            content.visititems(visit)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        raise FormatError(f"{label} is not a complete HDF5 file: {one_line(error)}") from None
    return arrays


class HDF5File:
    """An HDF5 file for writing that raises an ordinary error if the disk is full.

    The HDF5 library cannot close a file after a failed write: it keeps failing, and the process
    crashes at exit. This class therefore gives it a file whose writes always succeed: data that
    could not be written is buffered in memory until the file is closed, and `check` raises the
    error.
    """

    def __init__(self, path: Path) -> None:
        import h5py

        self._sink = _BufferingFile(path)
        self.content = h5py.File(self._sink, "w")

    def check(self) -> None:
        """Raise the original disk error if a write failed."""
        if self._sink.error is not None:
            raise self._sink.error

    def close(self) -> None:
        """Finish and close the file; raise the original disk error if a write failed."""
        self.content.close()
        self._sink.close()
        self.check()


class _BufferingFile(io.RawIOBase):
    """A file whose writes always succeed: data that cannot be written to disk is buffered."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w+b", buffering=0)
        self._position = 0
        self._unwritten: list[tuple[int, bytes]] = []
        self.error: BaseException | None = None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self._file.seek(0, io.SEEK_END) if start is None else start)
        return self._position

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        # BaseException: an interrupt must not reach HDF5 either.
        try:
            if self.error is None:
                self._file.seek(self._position)
                done = 0
                while done < len(view):
                    done += self._file.write(view[done:])
        except BaseException as error:
            self.error = error
        if self.error is not None:
            self._unwritten.append((self._position, bytes(view)))
        self._position += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        start, end = self._position, self._position + len(view)
        self._file.seek(start)
        stored = self._file.read(len(view))
        view[: len(stored)] = stored
        for offset, data in self._unwritten:
            low, high = max(start, offset), min(end, offset + len(data))
            if low < high:
                view[low - start : high - start] = data[low - offset : high - offset]
        self._position = end
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        size = self._position if size is None else size
        try:
            if self.error is None:
                self._file.truncate(size)
        except OSError as error:
            self.error = error
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write datasets as bilm-tf does: contiguous float32 without attributes."""
    file = HDF5File(path)
    try:
        for name, array in arrays.items():
            file.content.create_dataset(name, data=array)
            file.check()
    finally:
        file.close()
