"""Tests for the encoded Parquet levels; `test_parquet.py` verifies them with Arrow."""

from elmo.formats.parquet_levels import definition_levels, repetition_levels, truncate_at_zero


def test_truncate_at_zero_cuts_before_empty_list():
    assert [truncate_at_zero(shape) for shape in [(), (0, 4), (3, 0, 4), (2, 5)]] == [
        (),
        (),
        (3,),
        (2, 5),
    ]


def test_parquet_levels_of_scalars_and_lists_match_expected_bytes():
    """Shapes without dimensions are scalars, and shapes with one dimension are lists."""
    assert definition_levels([()] * 64).hex() == "800101"
    assert definition_levels([(3,), (2**30,), (), ()]).hex() == "8680808008" + "03" + "0401"
    assert repetition_levels([(1,), (), (64,)]).hex() == "0200" + "0200" + "0200" + "7e01"


def test_parquet_levels_of_nested_arrays_match_expected_bytes():
    # An empty sentence, and a sentence of two words with three dimensions.
    assert definition_levels([(), (2, 3)]).hex() == "0201" + "0c05"
    assert repetition_levels([(), (2, 3)]).hex() == "0200" + "0200" + "0402" + "0201" + "0402"
    # Two layers without words; two layers of two words with two dimensions.
    assert definition_levels([(2,), (2, 2, 2)]).hex() == "0403" + "1007"
    first, second = "0200" + "0203" + "0202" + "0203", "0201" + "0203" + "0202" + "0203"
    assert repetition_levels([(2,), (2, 2, 2)]).hex() == "0200" + "0201" + first + second
