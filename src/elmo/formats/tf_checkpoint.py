"""TensorFlow V2 checkpoints as a container: a prefix in, named numpy arrays out, no TensorFlow.

Reads the `.index` table and the `.data` shards and checks every checksum on the way. It knows
nothing of ELMo's variable names, of graphs (`.meta`) or of the older V1 format, and writes nothing.
"""

import math
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from elmo.errors import FormatError

_FOOTER_SIZE = 48
_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_BLOCK_TRAILER_SIZE = 5  # one byte for the compression, four for the checksum

# By TensorFlow's type number, from 0.
_DTYPE_NAMES = (
    "invalid float32 float64 int32 uint8 int16 int8 string complex64 int64 bool qint8 quint8 "
    "qint32 bfloat16 qint16 quint16 uint16 complex128 float16 resource variant uint32 uint64"
).split()
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

_MAX_RANK = 32  # what every numpy can hold
_MAX_LISTED = 8

_COPY_AGAIN = "The file is damaged or incomplete: copy or download the checkpoint again."
_SAVE_AGAIN = "Load it in TensorFlow and save it again with a plain tf.train.Saver."


@dataclass(frozen=True)
class TensorEntry:
    """What the index says about one tensor."""

    dtype: str
    """Name of the TensorFlow type, such as `float32`."""
    shape: tuple[int, ...]
    """Dimensions; empty for a scalar."""
    shard: int
    """Number of the data file that holds the bytes."""
    offset: int
    """First byte in that data file."""
    n_bytes: int
    """Number of bytes in that data file."""
    checksum: int
    """Masked CRC-32C of those bytes."""
    is_sliced: bool
    """Whether the values lie in pieces under other keys (a partitioned variable)."""


def find_checkpoint(path: Path) -> Path:
    """Find the checkpoint a user means and return its prefix, the path without `.index`.

    Args:
        path: a folder, any file of the checkpoint (`.index`, `.data-…`, `.meta` or the text file
            `checkpoint`), or the prefix itself. In a folder the text file `checkpoint` decides;
            without one, the only `.index` or the one with the highest step.

    Raises:
        FormatError: no index file is there, or several are and none is the newest.
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
        found = f"{path.name} without {index_path.name} beside it"
    else:
        found = "no such file"
    raise _refusal(
        path,
        found,
        f"a TensorFlow V2 checkpoint with the file {index_path}",
        "Give the folder of the checkpoint or its .index file. A single file without an index "
        f"may be of the older V1 format. {_SAVE_AGAIN}",
    )


def list_tensors(prefix: Path) -> dict[str, TensorEntry]:
    """Read names, types and shapes from the index without opening the data files.

    Args:
        prefix: path of the checkpoint without `.index`, as `find_checkpoint` returns it.

    Returns:
        Name to entry, in the order of the index, which is that of the names' bytes.

    Raises:
        FormatError: the index is missing or damaged.
    """
    return _read_index(_index_path(prefix))[1]


def read_checkpoint(
    prefix: Path, names: Collection[str] | None = None
) -> dict[str, npt.NDArray[Any]]:
    """Read tensors from a checkpoint.

    Verified are the CRC-32C of each index block, that a tensor's byte count fits its shape and
    lies inside its data file apart from the other tensors, and the CRC-32C of every tensor that
    is read, whatever its size. Data of tensors not asked for is not touched.

    Args:
        prefix: path of the checkpoint without `.index`, as `find_checkpoint` returns it.
        names: the tensors to read; all of them when left out.

    Returns:
        Name to writable array in native byte order, in the order of the index. bfloat16 becomes
        float32, which holds the same values.

    Raises:
        FormatError: a file is missing or damaged, a name is unknown, or a tensor that is asked
            for has a type this reader does not support or is stored in slices.
    """
    index_path = _index_path(prefix)
    n_shards, entries = _read_index(index_path)
    if names is not None:
        wanted = set(names)
        _check_names(index_path, wanted, entries)
        entries = {name: entry for name, entry in entries.items() if name in wanted}
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
    # os.path.isfile answers False where Path.is_file raises: a garbled `checkpoint` file can
    # name a path too long for the system.
    return os.path.isfile(_index_path(prefix))


def _find_in_folder(folder: Path) -> Path:
    # Names with a leading dot are left by file managers and are no checkpoints.
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
    listing = _listing([prefix.name + ".index" for prefix in prefixes])
    raise _refusal(
        folder,
        f"no text file `checkpoint` and these index files: {listing}",
        "one .index file, or one with the highest step",
        "Give the .index file itself."
        if prefixes
        else "Give the folder that holds the .index and .data files.",
    )


def _step(prefix: Path) -> int:
    match = re.search(r"-([0-9]+)$", prefix.name)
    return int(match.group(1)) if match else -1


def _follow_checkpoint_file(path: Path, prefixes: list[Path]) -> Path:
    listing = _listing([prefix.name + ".index" for prefix in prefixes])
    with _open(path) as file:
        # The wanted line comes first; a large file of this name is something else.
        text = file.read(1 << 20)
    match = re.search(rb'^\s*model_checkpoint_path:\s*"((?:[^"\\\n]|\\.)*)"', text, re.MULTILINE)
    if match is None:
        raise _refusal(
            path,
            "no line model_checkpoint_path",
            'a text file with model_checkpoint_path: "…"',
            f"Give the .index file itself; its folder holds these: {listing}.",
        )
    recorded = _unescape(match.group(1))
    # The recorded path is often absolute and of the machine that trained the model.
    base_name = re.split(r"[\\/]", recorded)[-1]
    for prefix in (path.parent / recorded, path.parent / base_name):
        if _has_index(prefix):
            return prefix
    raise _refusal(
        path,
        f"model_checkpoint_path {recorded!r}, whose index file is neither there nor in this folder",
        f"{base_name}.index beside it",
        f"Copy that file here or give another .index file; its folder holds these: {listing}.",
    )


def _unescape(text: bytes) -> str:
    """Undo the escapes of protocol buffer text: octal bytes, and a backslash before a mark."""

    def plain(match: re.Match[bytes]) -> bytes:
        octal, mark = match.groups()
        return bytes([int(octal, 8) & 0xFF]) if octal else mark

    return re.sub(rb"\\(?:([0-7]{1,3})|(.))", plain, text).decode("utf-8", "replace")


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        stem = re.split(r"\.(?:index|data-)", path.name)[0]
        beside = sorted(entry.name for entry in path.parent.glob("*") if stem in entry.name)
        raise _refusal(
            path,
            f"no such file; beside it: {_listing(beside)}",
            "every file of the checkpoint under its original name",
            "Copy the missing file into the folder.",
        ) from None
    except IsADirectoryError:
        raise _refusal(path, "a folder", "a file", "Give the folder that holds the file.") from None
    except (OSError, ValueError) as error:
        raise _refusal(
            path,
            f"a file that does not open ({error})",
            "a readable file",
            "Check path and rights.",
        ) from error


def _listing(names: list[str]) -> str:
    return (", ".join(names[:_MAX_LISTED]) or "none") + (", …" if len(names) > _MAX_LISTED else "")


def _refusal(path: Path, found: str, expected: str, action: str) -> FormatError:
    return FormatError(f"{path}: found {found}; expected {expected}. {action}")


# The index: a sorted table of blocks


class _DefectError(Exception):
    """A defect found by code that does not know the file's name."""

    def __init__(self, found: str, expected: str, action: str = _COPY_AGAIN) -> None:
        super().__init__(found, expected, action)
        self.found = found
        self.expected = expected
        self.action = action


def _read_index(path: Path) -> tuple[int, dict[str, TensorEntry]]:
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _FOOTER_SIZE))
        footer = file.read()
        if len(footer) < _FOOTER_SIZE or not footer.endswith(_MAGIC):
            raise _refusal(
                path,
                f"{size} bytes that end in {footer[-8:].hex() or 'nothing'}",
                f"at least {_FOOTER_SIZE} bytes that end in {_MAGIC.hex()}",
                f"It is not the whole index of a V2 checkpoint. {_COPY_AGAIN}",
            )
        file.seek(0)
        table = file.read()
    try:
        return _parse_table(table)
    except _DefectError as defect:
        raise _refusal(path, defect.found, defect.expected, defect.action) from None


def _parse_table(table: bytes) -> tuple[int, dict[str, TensorEntry]]:
    rows = _iterate_rows(table)
    key, header = next(rows, (None, b""))
    if key != b"":
        raise _DefectError("no header entry in the index", "the empty key first")
    n_shards = _parse_header(header)
    entries: dict[str, TensorEntry] = {}
    for key, value in rows:
        # The pieces of a sliced tensor lie under binary keys that start with a zero byte.
        if key.startswith(b"\0"):
            continue
        try:
            name = key.decode("utf-8")
        except UnicodeDecodeError:
            raise _DefectError(f"the tensor name {key!r}", "UTF-8") from None
        entries[name] = _parse_entry(value)
    return n_shards, entries


def _iterate_rows(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield all keys and values of the table, refusing keys that do not rise."""
    footer = table[-_FOOTER_SIZE : -len(_MAGIC)]
    _, after_metaindex = _parse_handle(footer, 0)
    index_handle, _ = _parse_handle(footer, after_metaindex)
    previous: bytes | None = None
    for _, value in _iterate_block(table, *index_handle):
        handle, _ = _parse_handle(value, 0)
        for key, entry in _iterate_block(table, *handle):
            if previous is not None and key <= previous:
                raise _DefectError(f"key {key!r} after {previous!r}", "keys in rising order")
            previous = key
            yield key, entry


def _parse_handle(buffer: bytes, position: int) -> tuple[tuple[int, int], int]:
    offset, position = _parse_varint(buffer, position)
    size, position = _parse_varint(buffer, position)
    return (offset, size), position


def _iterate_block(table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    block = _checked_block(table, offset, size)
    n_restarts = int.from_bytes(block[-4:], "little")
    entries_end = len(block) - 4 * (n_restarts + 1)
    if entries_end < 0:
        raise _DefectError(
            f"{n_restarts} restart points in a block of {len(block)} bytes", "a block that fits"
        )
    key = b""
    position = 0
    while position < entries_end:
        n_shared, position = _parse_varint(block, position)
        n_unshared, position = _parse_varint(block, position)
        n_value, position = _parse_varint(block, position)
        value_start = position + n_unshared
        value_end = value_start + n_value
        if n_shared > len(key) or value_end > entries_end:
            raise _DefectError(
                f"an entry of lengths {n_shared}, {n_unshared}, {n_value} at byte {position} of "
                f"the block at {offset}",
                f"a shared part of at most {len(key)} bytes and an end by byte {entries_end}",
            )
        key = key[:n_shared] + block[position:value_start]
        yield key, block[value_start:value_end]
        position = value_end


def _checked_block(table: bytes, offset: int, size: int) -> bytes:
    blocks_end = len(table) - _FOOTER_SIZE
    end = offset + size
    if size < 4 or end + _BLOCK_TRAILER_SIZE > blocks_end:
        raise _DefectError(
            f"a block of {size} bytes at byte {offset}",
            f"at least 4 bytes and an end before byte {blocks_end}",
        )
    stored = int.from_bytes(table[end + 1 : end + _BLOCK_TRAILER_SIZE], "little")
    computed = _masked_crc32c(np.frombuffer(table, np.uint8, size + 1, offset))
    if computed != stored:
        raise _DefectError(
            f"checksum {computed:08x} for the block at byte {offset}", f"the stored {stored:08x}"
        )
    compression = table[end]
    if compression != 0:
        kind = "Snappy-compressed" if compression == 1 else f"of compression type {compression}"
        raise _DefectError(
            f"a block that is {kind} at byte {offset}", "uncompressed blocks", _SAVE_AGAIN
        )
    return table[offset:end]


# The messages inside the index


def _parse_varint(buffer: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(buffer):
            raise _DefectError("a number that runs off the end of its record", "its last byte")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _DefectError("a number of more than ten bytes", "at most ten")


def _parse_message(message: bytes) -> tuple[dict[int, int], dict[int, list[bytes]]]:
    """Split a protocol buffer message into its numbers and its byte strings, by field number."""
    numbers: dict[int, int] = {}
    strings: dict[int, list[bytes]] = {}
    position = 0
    while position < len(message):
        tag, position = _parse_varint(message, position)
        field, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            numbers[field], position = _parse_varint(message, position)
            continue
        if wire_type == 2:
            length, position = _parse_varint(message, position)
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            raise _DefectError(f"a field of wire type {wire_type}", "type 0, 1, 2 or 5")
        content = message[position : position + length]
        position += length
        if position > len(message):
            raise _DefectError(f"field {field} of {length} bytes", f"{len(content)} that are left")
        if wire_type == 2:
            strings.setdefault(field, []).append(content)
        else:
            numbers[field] = int.from_bytes(content, "little")
    return numbers, strings


def _parse_header(message: bytes) -> int:
    numbers, _ = _parse_message(message)
    if numbers.get(2, 0) != 0:
        raise _DefectError(
            "a checkpoint written on a big-endian machine",
            "little-endian data",
            "Load it in TensorFlow on such a machine and export the arrays from there.",
        )
    n_shards = numbers.get(1, 0)
    if n_shards < 1:
        raise _DefectError("a header that counts no data file", "at least one")
    return n_shards


def _parse_entry(message: bytes) -> TensorEntry:
    numbers, strings = _parse_message(message)
    _, shape_strings = _parse_message(b"".join(strings.get(2, [])))
    dimensions = [_parse_message(dimension)[0] for dimension in shape_strings.get(2, [])]
    dtype = numbers.get(1, 0)
    return TensorEntry(
        dtype=_DTYPE_NAMES[dtype] if dtype < len(_DTYPE_NAMES) else f"number {dtype}",
        shape=tuple(dimension.get(1, 0) for dimension in dimensions),
        shard=numbers.get(3, 0),
        offset=numbers.get(4, 0),
        n_bytes=numbers.get(5, 0),
        checksum=numbers.get(6, 0),
        is_sliced=7 in strings,
    )


# The data files


def _check_names(path: Path, wanted: set[str], entries: dict[str, TensorEntry]) -> None:
    missing = sorted(wanted - entries.keys())
    if missing:
        raise _refusal(
            path,
            f"no tensor named {_listing(missing)}",
            f"one of the {len(entries)} it holds: {_listing(list(entries))}",
            "Ask for these names, or give the checkpoint that holds the others.",
        )


def _check_entry(path: Path, name: str, entry: TensorEntry, n_shards: int) -> None:
    if entry.is_sliced:
        raise _refusal(
            path,
            f"tensor {name} stored in slices",
            "each tensor in one piece",
            "It was saved from a partitioned variable: load it in TensorFlow without a "
            "partitioner and save it again.",
        )
    if entry.dtype not in _STORED_DTYPES:
        raise _refusal(
            path,
            f"tensor {name} of type {entry.dtype}",
            f"one of {', '.join(_STORED_DTYPES)}",
            "Leave this tensor out of the names to read, or save it with another type.",
        )
    if entry.shard >= n_shards:
        raise _refusal(
            path,
            f"tensor {name} in data file number {entry.shard}",
            f"a number below {n_shards}",
            _COPY_AGAIN,
        )
    if len(entry.shape) > _MAX_RANK:
        raise _refusal(
            path,
            f"tensor {name} of {len(entry.shape)} dimensions",
            f"at most {_MAX_RANK}",
            _COPY_AGAIN,
        )
    n_bytes = math.prod(entry.shape) * _STORED_DTYPES[entry.dtype].itemsize
    if n_bytes != entry.n_bytes:
        raise _refusal(
            path,
            f"tensor {name} of {entry.n_bytes} bytes",
            f"{n_bytes} for {entry.dtype} of shape {entry.shape}",
            _COPY_AGAIN,
        )


def _read_shard(path: Path, entries: dict[str, TensorEntry]) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {}
    previous_end = 0
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        # Bytes are given out once and in order, so a garbled index cannot ask for more memory
        # than the file is long.
        for name, entry in sorted(entries.items(), key=lambda item: _extent(item[1])):
            start, end = _extent(entry)
            if end > size:
                raise _refusal(
                    path,
                    f"{size} bytes, while tensor {name} lies at bytes {start} to {end}",
                    f"at least {end} bytes",
                    _COPY_AGAIN,
                )
            if start < previous_end:
                raise _refusal(
                    path,
                    f"tensor {name} at byte {start}, inside the tensor before it",
                    f"a start from byte {previous_end} on",
                    _COPY_AGAIN,
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
        raise _refusal(
            path, f"a read error ({error})", "a readable file", "Check the disk and try again."
        ) from error
    if raw.size != entry.n_bytes:
        raise _refusal(path, f"{raw.size} bytes at {entry.offset}", f"{entry.n_bytes}", _COPY_AGAIN)
    return raw


def _decode(
    path: Path, name: str, entry: TensorEntry, raw: npt.NDArray[np.uint8]
) -> npt.NDArray[Any]:
    checksum = _masked_crc32c(raw)
    if checksum != entry.checksum:
        raise _refusal(
            path,
            f"checksum {checksum:08x} for tensor {name}",
            f"{entry.checksum:08x} as in the index",
            _COPY_AGAIN,
        )
    stored = _STORED_DTYPES[entry.dtype]
    array: npt.NDArray[Any] = raw.view(stored).astype(stored.newbyteorder("="), copy=False)
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
        raise _refusal(
            path, f"tensor {name} of shape {entry.shape}", "a shape numpy can hold", _COPY_AGAIN
        ) from None


# CRC-32C, fast enough to check every tensor

_CRC_POLYNOMIAL = 0x82F63B78  # bit-reversed
_CRC_CHUNK_SIZE = 1 << 23
_CRC_FOLD_UNITS = (16, 1)

# The polynomial x^5685 + x^1362 + x^426 + 1 is a multiple of the CRC's own, so a message keeps its
# remainder when its leading term is taken away and added 5685 - 1362, 5685 - 426 and 5685 places
# later. Over GF(2) the same holds with every exponent times a power of two: places may be bytes or
# groups of 16 bytes, and thousands of them are moved by three array operations.
_CRC_FOLD_DISTANCES = (4323, 5259, 5685)


def _crc_table() -> list[int]:
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = (remainder >> 1) ^ (_CRC_POLYNOMIAL if remainder & 1 else 0)
        table.append(remainder)
    return table


_CRC_TABLE = _crc_table()


def _masked_crc32c(data: npt.NDArray[np.uint8]) -> int:
    """Compute the CRC-32C in the form TensorFlow stores: rotated, plus a constant."""
    register = 0xFFFFFFFF
    for start in range(0, data.size, _CRC_CHUNK_SIZE):
        register = _advance_crc(register, data[start : start + _CRC_CHUNK_SIZE])
    crc = register ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _advance_crc(register: int, data: npt.NDArray[np.uint8]) -> int:
    if data.size > _CRC_FOLD_DISTANCES[-1]:
        data = data.copy()
        # The register enters with the first four bytes, so the rest can start from zero.
        data[:4] ^= np.frombuffer(register.to_bytes(4, "little"), np.uint8)
        register = 0
        for unit in _CRC_FOLD_UNITS:
            data = _fold(data, unit)
    for byte in data.tobytes():
        register = _CRC_TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def _fold(data: npt.NDArray[np.uint8], unit: int) -> npt.NDArray[np.uint8]:
    """Shorten a message in place to `unit` times the largest distance, keeping its remainder."""
    near, middle, far = (distance * unit for distance in _CRC_FOLD_DISTANCES)
    while data.size > far:
        length = min(near, data.size - far)
        head = data[:length]
        for distance in (near, middle, far):
            data[distance : distance + length] ^= head
        data = data[length:]
    return data
