"""Encoder for the part of Thrift's compact protocol that Parquet metadata uses.

Each encoded value carries its type, because structs and lists write the type before the value.
See https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
# Larger field id deltas and list lengths need additional bytes.
MAX_SHORT_ID_DELTA, MAX_SHORT_LIST = 15, 14


class Value(NamedTuple):
    """An encoded value and its type."""

    type_id: int
    data: bytes


def varint(number: int) -> bytes:
    """Encode a non-negative integer in seven-bit groups, least significant first."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def zigzag(number: int) -> int:
    """Map signed integers to unsigned ones: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    return 2 * number if number >= 0 else -2 * number - 1


def i32(number: int) -> Value:
    """Encode a 32-bit integer or an enum."""
    return Value(I32, varint(zigzag(number)))


def i64(number: int) -> Value:
    """Encode a 64-bit integer."""
    return Value(I64, varint(zigzag(number)))


def binary(data: bytes) -> Value:
    """Encode a byte string."""
    return Value(BINARY, varint(len(data)) + data)


def string(text: str) -> Value:
    """Encode a string as UTF-8."""
    return binary(text.encode())


def list_of(type_id: int, values: Sequence[Value]) -> Value:
    """Encode a list of encoded elements; their type is written even if it is empty."""
    length = len(values)
    if length <= MAX_SHORT_LIST:
        header = bytes([length << 4 | type_id])
    else:
        header = bytes([0xF0 | type_id]) + varint(length)
    return Value(LIST, header + b"".join(value.data for value in values))


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Encode a struct of fields that are not None, by ids in ascending steps of at most 15."""
    data = bytearray()
    previous_id = 0
    for field_id, value in fields.items():
        if value is not None:
            assert 0 < field_id - previous_id <= MAX_SHORT_ID_DELTA, (
                "field ids must ascend in steps of at most 15"
            )
            data.append((field_id - previous_id) << 4 | value.type_id)
            data += value.data
            previous_id = field_id
    return Value(STRUCT, bytes(data) + b"\0")
