"""Tests of the recognition of texts by size and checksum."""

import zlib

import pytest

from elmo.lab.text_fingerprint import TextFingerprint, text_fingerprint


def test_fingerprint_of_characters_counts_code_points_and_ignores_borders_of_parts():
    text = "naïve\r\n  text\n"
    expected = TextFingerprint(14, zlib.crc32(text.encode()))
    assert text_fingerprint([text], "characters") == expected
    assert text_fingerprint([text[:5], "", text[5:]], "characters") == expected


def test_fingerprint_of_bytes_counts_bytes_also_if_they_are_not_utf8():
    data = b"na\xc3\xafve \xff"
    text = data.decode("utf-8", "surrogateescape")
    assert text_fingerprint([text], "bytes") == TextFingerprint(8, zlib.crc32(data))


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_fingerprint_of_lone_surrogates_is_that_of_replacement_characters(unit):
    assert text_fingerprint(["\ud800abc"], unit) == text_fingerprint(["\ufffdabc"], unit)


def test_fingerprint_of_words_counts_words_and_line_ends_of_all_lines():
    fingerprint = text_fingerprint(["the cat\n\nsat\n", "", "on\n"], "words")
    assert fingerprint.n_symbols == 4 + 4


@pytest.mark.parametrize(
    "parts",
    [
        [" the cat \n\n on the  mat"],
        ["on the mat\n", "the cat\n\n"],
    ],
)
def test_fingerprint_of_words_is_independent_of_spaces_and_order_of_lines(parts):
    expected = text_fingerprint(["the cat\n\non the mat\n"], "words")
    assert text_fingerprint(parts, "words") == expected


@pytest.mark.parametrize("text", ["the cat\n\non the hat\n", "the cat on\n\nthe mat\n"])
def test_fingerprint_of_words_differs_if_words_or_lines_differ(text):
    other = text_fingerprint(["the cat\n\non the mat\n"], "words")
    assert text_fingerprint([text], "words").n_symbols == other.n_symbols
    assert text_fingerprint([text], "words") != other
