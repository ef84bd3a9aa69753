"""HDF5 files as flat dictionaries of float32 arrays, read and written."""

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import h5py
import numpy as np

from elmo.errors import FormatError
from elmo.formats.keys import Array

SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_arrays(file: BinaryIO, label: str) -> dict[str, Array]:
    """Read every dataset of a file; links to other files are not followed.

    Args:
        file: open for reading.
        label: what to call it in a message.
    """
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
        arrays[name] = np.asarray(item[()], dtype=np.float32)

    try:
        with h5py.File(file, "r") as content:
            content.visititems(visit)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise FormatError(f"{label} is not a whole HDF5 file: {reason}") from None
    return arrays


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write datasets as bilm-tf does: contiguous float32, no attributes."""
    with h5py.File(path, "w") as content:
        for name, array in arrays.items():
            content.create_dataset(name, data=array)
