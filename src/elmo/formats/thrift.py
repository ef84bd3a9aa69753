"""Thrift's compact protocol, as much of it as the metadata of a Parquet file takes; writing only.

A value is made first and put somewhere later, so it carries the type that will be told before it:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
# Fields and lists that tell more than this do so in bytes of their own.
MAX_SHORT_STEP, MAX_SHORT_LIST = 15, 14


class Value(NamedTuple):
    """A value and its type."""

    kind: int
    data: bytes


def varint(number: int) -> bytes:
    """Write a number that is not negative in groups of seven bits, lowest first."""
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def zigzag(number: int) -> int:
    """Fold negative numbers between the others: 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    return 2 * number if number >= 0 else -2 * number - 1


def i32(number: int) -> Value:
    """Make an integer of 32 bits, or an enum."""
    return Value(I32, varint(zigzag(number)))


def i64(number: int) -> Value:
    """Make an integer of 64 bits."""
    return Value(I64, varint(zigzag(number)))


def binary(data: bytes) -> Value:
    """Make a string of bytes."""
    return Value(BINARY, varint(len(data)) + data)


def string(text: str) -> Value:
    """Make a text."""
    return binary(text.encode())


def many(kind: int, values: Sequence[Value]) -> Value:
    """Make a list.

    Args:
        kind: of the values, which an empty list tells too.
        values: all of that kind.
    """
    count = len(values)
    if count <= MAX_SHORT_LIST:
        head = bytes([count << 4 | kind])
    else:
        head = bytes([0xF0 | kind]) + varint(count)
    return Value(LIST, head + b"".join(value.data for value in values))


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Make a struct.

    Args:
        fields: by their ids, which ascend by 15 at most; None where one is left out.
    """
    data = bytearray()
    last = 0
    for number, value in fields.items():
        if value is not None:
            assert 0 < number - last <= MAX_SHORT_STEP, "a field out of order"
            data.append((number - last) << 4 | value.kind)
            data += value.data
            last = number
    return Value(STRUCT, bytes(data) + b"\0")
