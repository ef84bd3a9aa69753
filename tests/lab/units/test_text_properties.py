"""Tests of the built-in properties of characters, with marks below each text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError, InputError
from elmo.lab.units.text_properties import (
    PROPERTIES,
    bracket_depth,
    pattern_property,
    text_property,
)

# Name of the property, text, and a mark (or a digit) for each character that has it. Line breaks
# are written as ¶.
CASES = [
    ("quotes", 'say "yes, go" now', "    ========     "),
    ("quotes", "\u201cHi,\u201d he said", "====         "),
    ("quotes", 'an "open¶¶one " x', "   ======     ==="),
    ("single-quotes", "don't 'a b' or 'tis", "      ====         "),
    ("single-quotes", "the dogs' bone", "              "),
    ("brackets", "f(a[1])x)", " =====   "),
    ("bracket-depth", "f(a[1])x)(", "0112210001"),
    ("bracket-depth", "{ :-( } [c) d]", "11112200111110"),
    ("block-depth", 'a{"{"/*{*/{(}}', "01111111112210"),
    ("if", "if (f(x)) y(z); elif (a)", "   =====                "),
    ("if", 'if(")" || /* ) */ b) c', "  =================   "),
    ("if", "g(if (a) b) if (c", "     ==        =="),
    ("comment", "a /* b */ c // d¶e / f", "   =====     ===      "),
    ("comment", '"/* no */" /*/ x */', "            ====== "),
    ("string", r'x = "a\"b" + c;', "    =====      "),
    ("string", 'c = \'x\'; /* "no" */ "yes', "    ==              ===="),
    ("string", '"open¶next"x"', "=====     == "),
    ("python-comment", 'a = "#" # b¶c', "        ===  "),
    ("python-string", "x = 'a#' # 'b'", "    ===       "),
    ("python-string", '"""a "b" c""" d', "============   "),
    ("line-position", "ab¶c¶¶d", "1201001"),
    ("indentation", "  a b¶ c", "12222011"),
    ("word-start", "ab c_1, d", "=  =    ="),
    ("word-position", "ab c_1, d", "120123001"),
    ("capital", "aB cD", " =  ="),
    ("digit", "a1 2b", " = = "),
    ("punctuation", "a, b!", " =  ="),
    ("whitespace", "a b¶c", " = = "),
    ("end-of-line", "a¶b", " = "),
]


def values_of(name, text):
    return text_property(name).function(text)


@pytest.mark.parametrize(("name", "text", "marks"), CASES)
def test_property_has_marked_positions(name, text, marks):
    values = values_of(name, text.replace("¶", "\n"))
    if values.dtype == bool:
        found = "".join("=" if value else " " for value in values)
    else:
        found = "".join(str(int(value)) for value in values)
    assert found == marks


SOURCE_TEXT = st.text(alphabet="ab \n\"'/*#\\(){}[]if1\u201c\u201d\u2019", max_size=60)


@given(SOURCE_TEXT | st.text(max_size=30))
def test_properties_have_one_value_per_character(text):
    for name in PROPERTIES:
        values = values_of(name, text)
        assert values.shape == (len(text),), name
        assert (values >= 0).all(), name


@given(SOURCE_TEXT)
def test_string_and_comment_do_not_overlap(text):
    assert not (values_of("string", text) & values_of("comment", text)).any()
    assert not (values_of("python-string", text) & values_of("python-comment", text)).any()


@given(st.text(alphabet="([{a ", max_size=20))
def test_mirrored_brackets_are_closed(text):
    closing = {"(": ")", "[": "]", "{": "}"}
    whole = text + "".join(closing.get(character, character) for character in reversed(text))
    depth = bracket_depth(whole)
    assert (np.abs(np.diff(depth)) <= 1).all()
    assert not len(depth) or depth[-1] == 0
    assert depth.max(initial=0) == sum(character in closing for character in text)


@given(SOURCE_TEXT)
def test_prefix_determines_depth_and_positions(text):
    for name in ("bracket-depth", "line-position", "indentation", "word-start", "quotes"):
        half = text[: len(text) // 2]
        np.testing.assert_array_equal(values_of(name, text)[: len(half)], values_of(name, half))


def test_pattern_marks_match_or_first_group():
    assert pattern_property(r"\d+").function("a12b3").tolist() == [False, True, True, False, True]
    assert pattern_property("^(.)b").function("ab\nab").tolist() == [
        True,
        False,
        False,
        True,
        False,
    ]


def test_invalid_names_and_patterns_are_rejected():
    with pytest.raises(ConfigError, match="Did you mean quotes"):
        text_property("quote")
    with pytest.raises(ConfigError, match="is not a regular expression"):
        pattern_property("(")
    with pytest.raises(InputError, match="does not match"):
        pattern_property("x").function("abc")
