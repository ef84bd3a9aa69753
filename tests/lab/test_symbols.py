"""Tests of the symbols of language models."""

import numpy as np
import pytest

from elmo.config.language_models import SymbolConfig
from elmo.lab.symbols import Symbols


def symbols_of(text, **options):
    return Symbols.of_text([text], SymbolConfig(**options))


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
@pytest.mark.parametrize("text", ["to be\nor not", "한국어 text\n\nend\n", "a"])
def test_decode_returns_encoded_text(unit, text):
    symbols = symbols_of(text, unit=unit)
    assert symbols.decode(symbols.encode(text).tolist()) == text


def test_characters_are_sorted_by_frequency_after_unknown():
    assert symbols_of("abbccc").names == ("<UNK>", "c", "b", "a")


def test_unknown_character_has_id_0():
    symbols = symbols_of("ab")
    assert symbols.encode("aXb😀").tolist() == [1, 0, 2, 0]


def test_min_count_makes_rare_characters_unknown():
    symbols = symbols_of("aab", min_count=2)
    assert symbols.encode("ab").tolist() == [1, 0]


def test_bytes_have_their_value_as_id():
    symbols = symbols_of("", unit="bytes")
    assert len(symbols) == 256
    assert symbols.unknown is None
    assert symbols.encode("é\n").tolist() == [0xC3, 0xA9, 10]


def test_bytes_that_are_not_utf8_are_kept():
    text = b"a\xff\xfe".decode("utf-8", "surrogateescape")
    assert Symbols("bytes").encode(text).tolist() == [97, 255, 254]


def test_other_surrogates_become_replacement_characters_as_bytes():
    assert Symbols("bytes").encode("\ud800a").tolist() == [*"\ufffda".encode()]


@pytest.mark.parametrize("tokenizer", ["characters", "characters-and-spaces"])
def test_words_of_one_character_are_decoded_without_spaces(tokenizer):
    symbols = symbols_of("한국어\n한글", unit="words", tokenizer=tokenizer)
    assert symbols.decode(symbols.encode("한국\n한글").tolist()) == "한국\n한글"


def test_words_end_each_line():
    symbols = symbols_of("the cat\nthe dog\n", unit="words")
    assert symbols.names[:3] == ("<UNK>", "</S>", "the")
    ids = symbols.encode("the cat\n\nthe bird\n")
    assert [symbols.names[number] for number in ids] == [
        "the", "cat", "</S>", "</S>", "the", "<UNK>", "</S>",
    ]  # fmt: skip


def test_benchmark_unk_is_the_unknown_word():
    symbols = symbols_of("a <unk> b\n", unit="words")
    assert "<unk>" not in symbols.names
    assert symbols.encode("<unk>").tolist() == [0]


def test_words_that_are_not_symbols_have_ids_of_their_own_as_input():
    symbols = symbols_of("a a b\n", unit="words")
    ids, new_words = symbols.open_ids("dog a <unk> cat dog\n")
    assert new_words == ("dog", "cat")
    assert ids.tolist() == [4, 2, 0, 5, 4, 1]
    assert symbols.close(ids).tolist() == [0, 2, 0, 0, 0, 1]
    assert symbols_of("ab").open_ids("ax").ids.tolist() == [1, 0]


def test_vocab_size_limits_words():
    symbols = symbols_of("a a b b c\n", unit="words", vocab_size=2)
    assert symbols.names == ("<UNK>", "</S>", "a", "b")


def test_end_is_the_line_break():
    assert symbols_of("a\n").end == symbols_of("a\n").encode("\n")[0]
    assert symbols_of("ab").end is None


def test_ids_are_int32():
    assert symbols_of("ab").encode("ab").dtype == np.int32
