"""Minimal writer for TensorFlow V2 checkpoints, used only by tests.

`write_checkpoint` writes valid checkpoints. The `encode_*` functions can build invalid checkpoints
with correct checksums. The checksum is a slow reference implementation that is independent of the
reader.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DTYPE_NUMBERS = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int8": 6,
    "int64": 9,
    "bool": 10,
    "float16": 19,
}
MAGIC = 0xDB4775248B80FB57


def write_checkpoint(
    prefix: Path,
    tensors: Mapping[str, npt.ArrayLike],
    n_shards: int = 1,
    *,
    rows_per_block: int = 7,
    restart_interval: int = 3,
) -> Path:
    """Write `prefix.index` and its data files, assigning tensors to shards in turn.

    Args:
        prefix: Path without `.index`; its folder must exist.
        tensors: Arrays by name; names must not be empty.
        n_shards: Number of data files.
        rows_per_block: Number of entries per index block; small values produce several blocks.
        restart_interval: Every how many entries a key is written in full.

    Returns:
        The prefix, for `read_checkpoint`.
    """
    shards = [bytearray() for _ in range(n_shards)]
    rows = [(b"", encode_header(n_shards))]
    by_key = sorted((name.encode(), np.asarray(value)) for name, value in tensors.items())
    for number, (key, array) in enumerate(by_key):
        shard = number % n_shards
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        rows.append((key, encode_array_entry(array, data, shard, len(shards[shard]))))
        shards[shard] += data
    for number, content in enumerate(shards):
        data_path(prefix, number, n_shards).write_bytes(content)
    index_path(prefix).write_bytes(
        encode_table(rows, rows_per_block=rows_per_block, restart_interval=restart_interval)
    )
    return prefix


def index_path(prefix: Path) -> Path:
    """Return the path of the index file."""
    return prefix.with_name(prefix.name + ".index")


def data_path(prefix: Path, shard: int = 0, n_shards: int = 1) -> Path:
    """Return the path of one data file."""
    return prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{n_shards:05d}")


def encode_header(n_shards: int = 1, endianness: int = 0) -> bytes:
    """Encode the index header, which is the value of the empty key."""
    return encode_number(1, n_shards) + encode_number(2, endianness) + b"\x1a\x02\x08\x01"


def encode_array_entry(array: npt.NDArray[Any], data: bytes, shard: int, offset: int) -> bytes:
    """Encode a valid index entry for an array."""
    return encode_entry(
        dtype=DTYPE_NUMBERS[array.dtype.name],
        shape=array.shape,
        shard=shard,
        offset=offset,
        n_bytes=len(data),
        checksum=masked_crc32c(data),
    )


def encode_entry(
    *,
    dtype: int = 1,
    shape: Sequence[int] = (),
    shard: int = 0,
    offset: int = 0,
    n_bytes: int = 4,
    checksum: int = 0,
    is_sliced: bool = False,
) -> bytes:
    """Encode the index entry of a tensor; fields may be intentionally invalid."""
    dimensions = b"".join(encode_bytes(2, encode_number(1, size)) for size in shape)
    return (
        encode_number(1, dtype)
        + encode_bytes(2, dimensions)
        + encode_number(3, shard)
        + encode_number(4, offset)
        + encode_number(5, n_bytes)
        + b"\x35"
        + checksum.to_bytes(4, "little")
        + (encode_bytes(7, encode_bytes(1, b"")) if is_sliced else b"")
    )


def encode_number(field: int, value: int) -> bytes:
    """Encode a varint field; zero is omitted, as in protocol buffers."""
    return varint(field << 3) + varint(value) if value else b""


def encode_bytes(field: int, value: bytes) -> bytes:
    """Encode a length-delimited field."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    """Encode an integer in seven-bit groups, least significant first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def encode_table(
    rows: Sequence[tuple[bytes, bytes]],
    *,
    rows_per_block: int = 7,
    restart_interval: int = 3,
    compression: int = 0,
    damage: Callable[[bytes], bytes] = lambda block: block,
) -> bytes:
    """Encode an index file.

    Args:
        rows: Keys and values, in the order in which they are written.
        rows_per_block: Number of entries per data block.
        restart_interval: Every how many entries a key is written in full.
        compression: Compression type byte of the data blocks; the content is never compressed.
        damage: Function that changes each data block before its checksum is computed.
    """
    table = bytearray()

    def append_block(content: bytes, compression_type: int) -> bytes:
        handle = varint(len(table)) + varint(len(content))
        checked = content + bytes([compression_type])
        table.extend(checked + masked_crc32c(checked).to_bytes(4, "little"))
        return handle

    handles = []
    for start in range(0, len(rows), rows_per_block):
        block_rows = rows[start : start + rows_per_block]
        content = damage(encode_block(block_rows, restart_interval))
        handles.append((block_rows[-1][0] + b"~", append_block(content, compression)))
    metaindex_handle = append_block(encode_block([], 1), 0)
    index_handle = append_block(encode_block(handles, 1), 0)
    footer = (metaindex_handle + index_handle).ljust(40, b"\0") + MAGIC.to_bytes(8, "little")
    return bytes(table) + footer


def encode_block(rows: Sequence[tuple[bytes, bytes]], restart_interval: int) -> bytes:
    """Encode a block: rows with prefix-compressed keys, then the restart points and their count."""
    content = bytearray()
    restarts = [0]
    previous = b""
    for number, (key, value) in enumerate(rows):
        if number % restart_interval == 0:
            previous = b""
            if number:
                restarts.append(len(content))
        n_shared = 0
        while n_shared < min(len(key), len(previous)) and key[n_shared] == previous[n_shared]:
            n_shared += 1
        content += varint(n_shared) + varint(len(key) - n_shared) + varint(len(value))
        content += key[n_shared:] + value
        previous = key
    for number in [*restarts, len(restarts)]:
        content += number.to_bytes(4, "little")
    return bytes(content)


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 if byte & 1 else byte >> 1
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """Compute the CRC-32C one byte at a time."""
    register = 0xFFFFFFFF
    for byte in data:
        register = CRC_TABLE[(register ^ byte) & 0xFF] ^ register >> 8
    return register ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """Compute the masked CRC-32C, as stored in checkpoint files."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
