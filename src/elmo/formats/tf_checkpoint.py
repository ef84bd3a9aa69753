"""Reader for TensorFlow V2 checkpoints that does not need TensorFlow.

It reads the `.index` table and the `.data` shards into NumPy arrays and verifies every checksum.
Graphs (`.meta`) and the V1 format are not supported.
"""

import math
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from elmo.errors import FormatError, listing
from elmo.formats.crc32c import masked_crc32c
from elmo.formats.tf_index import (
    COPY_AGAIN,
    FOOTER_SIZE,
    MAGIC,
    SAVE_AGAIN,
    DefectError,
    TensorEntry,
    parse_table,
)

_STORED_DTYPES: dict[str, np.dtype[Any]] = {
    "bfloat16": np.dtype("<u2"),
    "bool": np.dtype("u1"),
    "float16": np.dtype("<f2"),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
}

_MAX_RANK = 32  # supported by all NumPy versions
_MAX_LISTED = 8


def find_checkpoint(path: Path) -> Path:
    """Return the prefix of a checkpoint: its path without `.index`.

    The path is a folder, any file of the checkpoint (`.index`, `.data-…`, `.meta` or the text file
    `checkpoint`), or the prefix itself. In a folder, the text file `checkpoint` names the
    checkpoint. Without that file, the only `.index` or the one with the highest step is used.
    """
    if os.path.isdir(path):
        return _find_in_folder(path)
    if path.name == "checkpoint" and os.path.isfile(path):
        return _find_in_folder(path.parent)
    stem = re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path.name)
    prefix = path.with_name(stem) if stem.strip(".") else path
    if _has_index(prefix):
        return prefix
    index_path = _index_path(prefix)
    if os.path.isdir(index_path):
        found = f"a folder named {index_path.name}"
    elif os.path.exists(path):
        found = f"{path.name} without {index_path.name} next to it"
    else:
        found = "no such file"
    raise _format_error(
        path,
        found,
        f"a TensorFlow V2 checkpoint with the file {index_path}",
        "Pass the folder of the checkpoint or its .index file. A single file without an index "
        f"may be in the older V1 format. {SAVE_AGAIN}",
    )


def read_checkpoint(prefix: Path) -> dict[str, npt.NDArray[np.generic]]:
    """Read all tensors of a checkpoint as writable arrays in native byte order, by name.

    The checksums of all index blocks and tensors are verified. Each tensor must have the size that
    its shape implies, lie inside the data file, and not overlap another tensor. bfloat16 tensors
    are converted to float32 without loss; tensors in slices are not supported.
    """
    index_path = _index_path(prefix)
    n_shards, entries = _read_index(index_path)
    for name, entry in entries.items():
        _check_entry(index_path, name, entry, n_shards)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for shard in sorted({entry.shard for entry in entries.values()}):
        data_path = prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{n_shards:05d}")
        shard_entries = {name: entry for name, entry in entries.items() if entry.shard == shard}
        arrays.update(_read_shard(data_path, shard_entries))
    return {name: arrays[name] for name in entries}


# Finding the files


def _index_path(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".index") if prefix.name else prefix


def _has_index(prefix: Path) -> bool:
    # Path.is_file raises where os.path.isfile returns False: a damaged `checkpoint` file can
    # contain a path that is too long for the file system.
    return os.path.isfile(_index_path(prefix))


def _find_in_folder(folder: Path) -> Path:
    # Names with a leading dot are created by file managers and are not checkpoints.
    prefixes = sorted(
        path.with_name(path.name.removesuffix(".index"))
        for path in folder.glob("*.index")
        if not path.name.startswith(".") and os.path.isfile(path)
    )
    if os.path.isfile(folder / "checkpoint"):
        return _follow_checkpoint_file(folder / "checkpoint", prefixes)
    steps = [_step(prefix) for prefix in prefixes]
    newest = [prefix for prefix, step in zip(prefixes, steps, strict=True) if step == max(steps)]
    if len(newest) == 1:
        return newest[0]
    index_files = listing([prefix.name + ".index" for prefix in prefixes], _MAX_LISTED)
    raise _format_error(
        folder,
        f"no text file `checkpoint` and these index files: {index_files}",
        "one .index file, or one with the highest step",
        "Pass the .index file itself."
        if prefixes
        else "Pass the folder that contains the .index and .data files.",
    )


def _step(prefix: Path) -> int:
    match = re.search(r"-([0-9]+)$", prefix.name)
    return int(match.group(1)) if match else -1


def _follow_checkpoint_file(path: Path, prefixes: list[Path]) -> Path:
    index_files = listing([prefix.name + ".index" for prefix in prefixes], _MAX_LISTED)
    with _open(path) as file:
        # The line is near the start; a large file of this name is something else.
        text = file.read(1 << 20)
    match = re.search(rb'^\s*model_checkpoint_path:\s*"((?:[^"\\\n]|\\.)*)"', text, re.MULTILINE)
    if match is None:
        raise _format_error(
            path,
            "no model_checkpoint_path line",
            'a text file with model_checkpoint_path: "…"',
            f"Pass the .index file itself; the folder contains: {index_files}.",
        )
    recorded = _unescape(match.group(1))
    # The recorded path is often an absolute path on the machine that trained the model.
    base_name = re.split(r"[\\/]", recorded)[-1]
    for prefix in (path.parent / recorded, path.parent / base_name):
        if _has_index(prefix):
            return prefix
    raise _format_error(
        path,
        f"model_checkpoint_path {recorded!r}, whose index file is missing there and in this folder",
        f"{base_name}.index next to it",
        f"Copy that file here or pass another .index file; the folder contains: {index_files}.",
    )


def _unescape(text: bytes) -> str:
    """Decode the octal and backslash escapes in a protocol buffer text string."""

    def unescaped(match: re.Match[bytes]) -> bytes:
        octal, character = match.groups()
        return bytes([int(octal, 8) & 0xFF]) if octal else character

    return re.sub(rb"\\(?:([0-7]{1,3})|(.))", unescaped, text).decode("utf-8", "replace")


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        stem = re.split(r"\.(?:index|data-)", path.name)[0]
        similar_files = sorted(entry.name for entry in path.parent.glob("*") if stem in entry.name)
        raise _format_error(
            path,
            f"no such file (similar files: {listing(similar_files, _MAX_LISTED)})",
            "all files of the checkpoint under their original names",
            "Copy the missing file into the folder.",
        ) from None
    except IsADirectoryError:
        raise _format_error(
            path, "a folder", "a file", "Pass the folder that contains the file."
        ) from None
    except (OSError, ValueError) as error:
        raise _format_error(
            path,
            f"a file that cannot be opened ({error})",
            "a readable file",
            "Check the path and its permissions.",
        ) from error


def _format_error(path: Path, found: str, expected: str, action: str) -> FormatError:
    return FormatError(f"{path}: found {found}; expected {expected}. {action}")


# The index: a sorted table of blocks


def _read_index(path: Path) -> tuple[int, dict[str, TensorEntry]]:
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - FOOTER_SIZE))
        footer = file.read()
        if len(footer) < FOOTER_SIZE or not footer.endswith(MAGIC):
            raise _format_error(
                path,
                f"{size} bytes ending in {footer[-8:].hex() or 'nothing'}",
                f"at least {FOOTER_SIZE} bytes ending in {MAGIC.hex()}",
                f"This is not a complete index of a V2 checkpoint. {COPY_AGAIN}",
            )
        file.seek(0)
        table = file.read()
    try:
        return parse_table(table)
    except DefectError as defect:
        raise _format_error(path, defect.found, defect.expected, defect.action) from None


# The data files


def _check_entry(path: Path, name: str, entry: TensorEntry, n_shards: int) -> None:
    if entry.is_sliced:
        raise _format_error(
            path,
            f"tensor {name} stored in slices",
            "unsliced tensors",
            "It was saved from a partitioned variable. Load it in TensorFlow without a "
            "partitioner and save it again.",
        )
    if entry.dtype not in _STORED_DTYPES:
        raise _format_error(
            path,
            f"tensor {name} with dtype {entry.dtype}",
            f"one of {', '.join(_STORED_DTYPES)}",
            "Save the checkpoint without this tensor, or convert it to a supported dtype.",
        )
    if entry.shard >= n_shards:
        raise _format_error(
            path,
            f"tensor {name} in data file number {entry.shard}",
            f"a number below {n_shards}",
            COPY_AGAIN,
        )
    if len(entry.shape) > _MAX_RANK:
        raise _format_error(
            path,
            f"tensor {name} with {len(entry.shape)} dimensions",
            f"at most {_MAX_RANK}",
            COPY_AGAIN,
        )
    n_bytes = math.prod(entry.shape) * _STORED_DTYPES[entry.dtype].itemsize
    if n_bytes != entry.n_bytes:
        raise _format_error(
            path,
            f"tensor {name} with {entry.n_bytes} bytes",
            f"{n_bytes} for {entry.dtype} with shape {entry.shape}",
            COPY_AGAIN,
        )


def _read_shard(path: Path, entries: dict[str, TensorEntry]) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    previous_end = 0
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        # Every byte is read at most once, so a damaged index cannot request more memory than the
        # size of the file.
        for name, entry in sorted(entries.items(), key=lambda item: _extent(item[1])):
            start, end = _extent(entry)
            if end > size:
                raise _format_error(
                    path,
                    f"{size} bytes, but tensor {name} is at bytes {start} to {end}",
                    f"at least {end} bytes",
                    COPY_AGAIN,
                )
            if start < previous_end:
                raise _format_error(
                    path,
                    f"tensor {name} at byte {start}, which overlaps the previous tensor",
                    f"a start at byte {previous_end} or later",
                    COPY_AGAIN,
                )
            previous_end = end
            arrays[name] = _decode(path, name, entry, _read_bytes(path, file, entry))
    return arrays


def _extent(entry: TensorEntry) -> tuple[int, int]:
    return entry.offset, entry.offset + entry.n_bytes


def _read_bytes(path: Path, file: BinaryIO, entry: TensorEntry) -> npt.NDArray[np.uint8]:
    try:
        file.seek(entry.offset)
        raw = np.fromfile(file, np.uint8, entry.n_bytes)
    except OSError as error:
        raise _format_error(
            path, f"a read error ({error})", "a readable file", "Check the disk and try again."
        ) from error
    if raw.size != entry.n_bytes:
        raise _format_error(
            path, f"{raw.size} bytes at {entry.offset}", f"{entry.n_bytes}", COPY_AGAIN
        )
    return raw


def _decode(
    path: Path, name: str, entry: TensorEntry, raw: npt.NDArray[np.uint8]
) -> npt.NDArray[Any]:
    checksum = masked_crc32c(raw)
    if checksum != entry.checksum:
        raise _format_error(
            path,
            f"checksum {checksum:08x} for tensor {name}",
            f"{entry.checksum:08x} according to the index",
            COPY_AGAIN,
        )
    stored_dtype = _STORED_DTYPES[entry.dtype]
    array: npt.NDArray[Any] = raw.view(stored_dtype).astype(
        stored_dtype.newbyteorder("="), copy=False
    )
    if entry.dtype == "bool":
        array = array != 0
    elif entry.dtype == "bfloat16":
        # bfloat16 is the upper half of a float32.
        wide = array.astype(np.uint32)
        wide <<= 16
        array = wide.view(np.float32)
    try:
        return array.reshape(entry.shape)
    except (ValueError, OverflowError):
        raise _format_error(
            path,
            f"tensor {name} with shape {entry.shape}",
            "a shape that NumPy supports",
            COPY_AGAIN,
        ) from None
