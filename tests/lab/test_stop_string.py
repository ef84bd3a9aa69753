"""Tests of the search for a stop string in text that arrives in parts."""

from itertools import product

import pytest

from elmo.lab.stop_string import StopString


def parts_of(text, stop, size=1):
    search = StopString(stop)
    parts = [search.add(text[begin : begin + size]) for begin in range(0, len(text), size)]
    return [*parts, search.end()], search.is_found


def test_partial_match_is_held_back_until_it_is_certain():
    search = StopString("aab")
    assert [search.add(character) for character in "xaba"] == ["x", "", "ab", ""]
    assert search.add("a") == ""
    assert search.add("b") == ""
    assert search.is_found
    assert search.add("more") == ""


def test_held_text_is_returned_at_end():
    search = StopString("END")
    assert search.add("the EN") == "the "
    assert search.end() == "EN"


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("stop", ["a", "ab", "aab", "aba", "abab"])
def test_parts_join_to_text_before_first_occurrence(stop, size):
    for characters in product("ab", repeat=8):
        text = "".join(characters)
        parts, is_found = parts_of(text, stop, size)
        assert "".join(parts) == text.split(stop)[0]
        assert is_found == (stop in text)


def test_without_stop_string_text_is_passed_on():
    assert parts_of("abc", None) == (["a", "b", "c", ""], False)
