"""Tests of the bytes of a text with surrogates."""

import pytest

from elmo.lab.text_bytes import utf8_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("é", "é".encode()),
        ("a\udcffb", b"a\xffb"),
        ("\ud800a", "\ufffda".encode()),
        ("\udc7f\udd00\udfff", "\ufffd\ufffd\ufffd".encode()),
        ("\ud800\udc80", "\ufffd".encode() + b"\x80"),
    ],
)
def test_surrogate_escapes_are_bytes_and_others_are_replaced(text, expected):
    assert utf8_bytes(text) == expected
