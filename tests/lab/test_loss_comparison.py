"""Tests of the comparison of a loss with n-gram models."""

import json

import pytest
from small_language_models import small_config

from elmo.config.language_models import SymbolConfig
from elmo.errors import FormatError
from elmo.lab.loss_comparison import LossComparison, compare_loss, read_comparison
from elmo.lab.symbol_text import read_training_text
from elmo.lab.text_loss import TextLoss

LINES = "the cat sat on the mat\n" * 40


def compared(tmp_path, unit, text=LINES):
    """Compare a loss of 1 nat on the held-out part of a text."""
    parts = read_training_text(small_config(tmp_path, text, symbols=SymbolConfig(unit=unit)))
    return compare_loss(parts, TextLoss.of_part(1.0, parts.parts["valid"], parts.symbols))


def bits_of_rows(comparison):
    lines = comparison.table().splitlines()
    column = lines[1].index("bits/") + len("bits/char")
    return [line[:column].split()[-1] for line in lines[2:] if line.startswith(("  ", "> "))]


def test_word_models_have_bits_per_character(tmp_path):
    bits = bits_of_rows(compared(tmp_path, "words"))
    # Seven symbols in each line of 23 characters, in nats.
    assert f"{1 / 0.693147 / (23 / 7):.3f}" in bits
    assert "-" not in bits


@pytest.mark.parametrize("word", ["<unk>", "dog"], ids=["in the text", "not in the vocabulary"])
def test_word_models_of_text_with_unknown_words_have_no_bits_per_character(tmp_path, word):
    comparison = compared(tmp_path, "words", LINES + f"the cat sat on the {word}\n")
    assert set(bits_of_rows(comparison)) == {"-"}
    assert "bits per character would be too low" in comparison.table()


def test_characters_of_text_with_unknown_words_have_bits_per_character(tmp_path):
    comparison = compared(tmp_path, "characters", LINES + "the cat sat on the <unk>\n")
    assert "-" not in bits_of_rows(comparison)


@pytest.mark.parametrize("change", [{"nats": "1"}, {"unit": "lines"}, {"ngrams": 3}, {"extra": 1}])
def test_comparison_of_wrong_type_is_an_error(tmp_path, change):
    comparison = LossComparison(2.0, "characters", "test", 1.0, (3.0, 2.5), 100, 7)
    comparison.write(tmp_path)
    assert read_comparison(tmp_path) == comparison
    path = tmp_path / "loss_comparison.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FormatError, match=r"loss_comparison.json is damaged: comparison"):
        read_comparison(tmp_path)
