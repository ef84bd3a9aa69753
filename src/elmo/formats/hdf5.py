"""HDF5 files: flat dictionaries of float32 arrays read, and files written without surprises.

h5py is loaded with the first file: most runs read and write none.
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
    """Read every dataset of a file; links to other files are not followed.

    Args:
        file: open for reading.
        label: what to call it in a message.
    """
    import h5py

    arrays: dict[str, Array] = {}

    def visit(name: str, item: object) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        if item.external is not None or item.is_virtual:
            raise FormatError(f"{label}: {name} points into another file; it is not read")
        if item.dtype.kind != "f":
            raise FormatError(
                f"{label}: {name} holds {item.dtype}, expected floating-point numbers"
            )
        with np.errstate(over="ignore"):  # infinite values are refused later, by name
            arrays[name] = np.asarray(item[()], dtype=np.float32)

    try:
        with h5py.File(file, "r") as content:
            content.visititems(visit)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        raise FormatError(f"{label} is not a whole HDF5 file: {one_line(error)}") from None
    return arrays


class HDF5File:
    """An HDF5 file being written, which survives a full disk.

    HDF5 cannot close a file whose disk refused a write: it fails again and again, and takes the
    process down at exit. So it is given a file that never refuses: what the disk does not take
    stays in memory until the file is closed, and `check` raises the disk's error.
    """

    def __init__(self, path: Path) -> None:
        """Begin a file.

        Args:
            path: file to write.
        """
        import h5py

        self._sink = _PatientFile(path)
        self.content = h5py.File(self._sink, "w")

    def check(self) -> None:
        """Raise what the disk answered, if it refused a write."""
        if self._sink.error is not None:
            raise self._sink.error

    def close(self) -> None:
        """Finish the file; raises what the disk answered."""
        self.content.close()
        self._sink.close()
        self.check()


class _PatientFile(io.RawIOBase):
    """A file whose writes always succeed; those the disk refused are remembered."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("w+b", buffering=0)
        self._position = 0
        self._kept: list[tuple[int, bytes]] = []
        self.error: BaseException | None = None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self._file.seek(0, io.SEEK_END) if start is None else start)
        return self._position

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        # An interrupt must not reach HDF5 either.
        try:
            if self.error is None:
                self._file.seek(self._position)
                done = 0
                while done < len(view):
                    done += self._file.write(view[done:])
        except BaseException as error:
            self.error = error
        if self.error is not None:
            self._kept.append((self._position, bytes(view)))
        self._position += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        start, end = self._position, self._position + len(view)
        self._file.seek(start)
        stored = self._file.read(len(view))
        view[: len(stored)] = stored
        for place, data in self._kept:
            low, high = max(start, place), min(end, place + len(data))
            if low < high:
                view[low - start : high - start] = data[low - place : high - place]
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
    """Write datasets as bilm-tf does: contiguous float32, no attributes."""
    file = HDF5File(path)
    try:
        for name, array in arrays.items():
            file.content.create_dataset(name, data=array)
            file.check()
    finally:
        file.close()
