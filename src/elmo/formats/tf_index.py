"""Parser for the `.index` table of a TensorFlow V2 checkpoint.

It works on the bytes of the table: blocks, prefix-compressed keys and protocol buffer messages.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from elmo.formats.crc32c import masked_crc32c

FOOTER_SIZE = 48
MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_BLOCK_TRAILER_SIZE = 5  # one byte for the compression, four for the checksum

# Indexed by TensorFlow's dtype number.
_DTYPE_NAMES = (
    "invalid float32 float64 int32 uint8 int16 int8 string complex64 int64 bool qint8 quint8 "
    "qint32 bfloat16 qint16 quint16 uint16 complex128 float16 resource variant uint32 uint64"
).split()

COPY_AGAIN = "The file is damaged or incomplete: copy or download the checkpoint again."
SAVE_AGAIN = "Load it in TensorFlow and save it again with a plain tf.train.Saver."


@dataclass(frozen=True)
class TensorEntry:
    """Metadata of one tensor in the index."""

    dtype: str
    """Name of the TensorFlow dtype, such as `float32`."""
    shape: tuple[int, ...]
    """Dimensions; empty for a scalar."""
    shard: int
    """Number of the data file that contains the tensor."""
    offset: int
    """Position of the first byte in the data file."""
    n_bytes: int
    """Number of bytes in the data file."""
    checksum: int
    """Masked CRC-32C of the bytes."""
    is_sliced: bool
    """Whether the values are stored in slices under other keys (a partitioned variable)."""


class DefectError(Exception):
    """A defect in the index; the caller adds the file name to the message."""

    def __init__(self, found: str, expected: str, action: str = COPY_AGAIN) -> None:
        super().__init__(found, expected, action)
        self.found = found
        self.expected = expected
        self.action = action


def parse_table(table: bytes) -> tuple[int, dict[str, TensorEntry]]:
    """Return the number of data files and the entry of each tensor of an index file."""
    rows = _iterate_rows(table)
    key, header = next(rows, (None, b""))
    if key != b"":
        raise DefectError("no header entry in the index", "the empty key as the first key")
    n_shards = _parse_header(header)
    entries: dict[str, TensorEntry] = {}
    for key, value in rows:
        # Slices of a partitioned tensor have binary keys that start with a zero byte.
        if key.startswith(b"\0"):
            continue
        try:
            name = key.decode("utf-8")
        except UnicodeDecodeError:
            raise DefectError(f"the tensor name {key!r}", "a name in UTF-8") from None
        entries[name] = _parse_entry(value)
    return n_shards, entries


def _iterate_rows(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) rows of the table; raise `DefectError` if keys are not sorted."""
    footer = table[-FOOTER_SIZE : -len(MAGIC)]
    _, after_metaindex = _parse_handle(footer, 0)
    index_handle, _ = _parse_handle(footer, after_metaindex)
    previous: bytes | None = None
    for _, value in _iterate_block(table, *index_handle):
        handle, _ = _parse_handle(value, 0)
        for key, entry in _iterate_block(table, *handle):
            if previous is not None and key <= previous:
                raise DefectError(f"key {key!r} after {previous!r}", "keys in ascending order")
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
        raise DefectError(
            f"{n_restarts} restart points in a block of {len(block)} bytes", "fewer restart points"
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
            raise DefectError(
                f"an entry with lengths {n_shared}, {n_unshared}, {n_value} at byte {position} of "
                f"the block at {offset}",
                f"a shared prefix of at most {len(key)} bytes and an end by byte {entries_end}",
            )
        key = key[:n_shared] + block[position:value_start]
        yield key, block[value_start:value_end]
        position = value_end


def _checked_block(table: bytes, offset: int, size: int) -> bytes:
    blocks_end = len(table) - FOOTER_SIZE
    end = offset + size
    if size < 4 or end + _BLOCK_TRAILER_SIZE > blocks_end:
        raise DefectError(
            f"a block of {size} bytes at byte {offset}",
            f"at least 4 bytes and an end before byte {blocks_end}",
        )
    stored = int.from_bytes(table[end + 1 : end + _BLOCK_TRAILER_SIZE], "little")
    computed = masked_crc32c(np.frombuffer(table, np.uint8, size + 1, offset))
    if computed != stored:
        raise DefectError(
            f"checksum {computed:08x} for the block at byte {offset}", f"the stored {stored:08x}"
        )
    compression = table[end]
    if compression != 0:
        compression_name = (
            "Snappy-compressed" if compression == 1 else f"of compression type {compression}"
        )
        raise DefectError(
            f"a block that is {compression_name} at byte {offset}",
            "uncompressed blocks",
            SAVE_AGAIN,
        )
    return table[offset:end]


# Protocol buffer messages in the index


def _parse_varint(buffer: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(buffer):
            raise DefectError("a varint cut off by the end of its record", "a complete one")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DefectError("a varint of more than ten bytes", "at most ten bytes")


def _parse_message(message: bytes) -> tuple[dict[int, int], dict[int, list[bytes]]]:
    """Return the integer and byte-string fields of a protocol buffer message by field number."""
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
            raise DefectError(f"a field with wire type {wire_type}", "type 0, 1, 2 or 5")
        content = message[position : position + length]
        position += length
        if position > len(message):
            raise DefectError(
                f"field {field} with {length} bytes", f"at most the remaining {len(content)}"
            )
        if wire_type == 2:
            strings.setdefault(field, []).append(content)
        else:
            numbers[field] = int.from_bytes(content, "little")
    return numbers, strings


def _parse_header(message: bytes) -> int:
    numbers, _ = _parse_message(message)
    if numbers.get(2, 0) != 0:
        raise DefectError(
            "a checkpoint written on a big-endian machine",
            "little-endian data",
            "Load it in TensorFlow on a big-endian machine and export the arrays there.",
        )
    n_shards = numbers.get(1, 0)
    if n_shards < 1:
        raise DefectError("a header with 0 data files", "at least 1")
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
