"""Tests of the levels of nested lists by their bytes; `test_parquet.py` has Arrow read them."""

from elmo.formats.parquet_levels import cut_at_nothing, definition_levels, repetition_levels


def test_below_an_empty_list_is_nothing():
    assert [cut_at_nothing(shape) for shape in [(), (0, 4), (3, 0, 4), (2, 5)]] == [
        (),
        (),
        (3,),
        (2, 5),
    ]


def test_rows_that_are_alike():
    """Numbers, which are no lists, and words."""
    assert definition_levels([()] * 64).hex() == "800101"
    assert definition_levels([(3,), (2**30,), (), ()]).hex() == "8680808008" + "03" + "0401"
    assert repetition_levels([(1,), (), (64,)]).hex() == "0200" + "0200" + "0200" + "7e01"


def test_vectors():
    # A blank sentence, one of two words with three numbers each.
    assert definition_levels([(), (2, 3)]).hex() == "0201" + "0c05"
    assert repetition_levels([(), (2, 3)]).hex() == "0200" + "0200" + "0402" + "0201" + "0402"
    # Two layers of no words; two layers of two words with two numbers each.
    assert definition_levels([(2,), (2, 2, 2)]).hex() == "0403" + "1007"
    first, others = "0200" + "0203" + "0202" + "0203", "0201" + "0203" + "0202" + "0203"
    assert repetition_levels([(2,), (2, 2, 2)]).hex() == "0200" + "0201" + first + others
