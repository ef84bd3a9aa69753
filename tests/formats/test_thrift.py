"""Tests for the Thrift encoder, with bytes derived by hand from the specification."""

import pytest

from elmo.formats.thrift import (
    I32,
    STRUCT,
    binary,
    i32,
    i64,
    list_of,
    string,
    struct,
    varint,
    zigzag,
)


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (50399, "df8903"),
        (2**63, "80808080808080808001"),
    ],
)
def test_varint_encodes_seven_bits_per_byte(number, data):
    assert varint(number).hex() == data


def test_zigzag_maps_signed_to_unsigned():
    assert [zigzag(number) for number in (0, -1, 1, -2, 2)] == [0, 1, 2, 3, 4]
    assert zigzag(2**31 - 1) == 2**32 - 2
    assert zigzag(-(2**31)) == 2**32 - 1
    assert zigzag(-(2**63)) == 2**64 - 1


def test_thrift_strings_start_with_their_length():
    assert binary(b"\0\xff").data.hex() == "0200ff"
    assert string("é").data.hex() == "02c3a9"
    assert string("x" * 200).data == b"\xc8\x01" + b"x" * 200


def test_thrift_lists_start_with_length_and_element_type():
    assert list_of(I32, []).data.hex() == "05"
    assert list_of(I32, [i32(1), i32(-1)]).data.hex() == "250201"
    assert list_of(I32, [i32(0)] * 14).data.hex() == "e5" + "00" * 14
    assert list_of(I32, [i32(0)] * 15).data.hex() == "f50f" + "00" * 15
    assert list_of(STRUCT, [struct({}), struct({1: i64(3)})]).data.hex() == "2c00160600"


def test_thrift_structs_encode_field_id_differences():
    assert struct({}).data.hex() == "00"
    # A field stores the difference to the previous id; omitted fields do not count.
    fields = {1: i32(5), 2: None, 4: string("a"), 9: struct({15: i64(-1)})}
    assert struct(fields).data.hex() == "150a" + "380161" + "5c" + "f601" + "00" + "00"
    with pytest.raises(AssertionError):
        struct({2: i32(0), 1: i32(0)})
