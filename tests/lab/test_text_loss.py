"""Tests of the loss of a language model on a text."""

import math

import pytest
import torch
from small_language_models import small_network

from elmo.lab.symbol_text import text_part
from elmo.lab.symbols import Symbols
from elmo.lab.text_loss import TextLoss, predictions, text_loss

SYMBOLS = Symbols("characters", ("<UNK>", *"abcdefghi\n"))
TEXT = "abc\ndefghi\nabcabc\n" * 9


def slow_loss(network, part):
    """Return the total loss, one symbol at a time."""
    inputs, targets = predictions(part.ids, SYMBOLS)
    state, total = network.zero_state(1), 0.0
    vectors = network.input_vectors()
    for x, y in zip(inputs.tolist(), targets.tolist(), strict=True):
        output = network(vectors, torch.tensor([[x]]), state)
        state = output.state
        scores = network.log_probabilities(output.hidden[0], vectors)
        total -= float(scores[0, y])
    return total / len(targets)


@pytest.mark.parametrize("rows", [1, 3, 32])
def test_loss_equals_one_symbol_at_a_time(rows):
    network, part = small_network(), text_part(TEXT, SYMBOLS)
    with torch.no_grad():
        expected = slow_loss(network, part)
    loss = text_loss(network, SYMBOLS, part, rows=rows, unroll=10)
    # With several rows, text further away than the warm-up is not read.
    assert loss.nats == pytest.approx(expected, rel=1e-4 if rows > 1 else 1e-6)
    assert loss.n_symbols == len(TEXT)


def test_reset_state_gives_another_loss():
    network, part = small_network(), text_part(TEXT, SYMBOLS)
    carried = text_loss(network, SYMBOLS, part, rows=1, unroll=5)
    reset = text_loss(network, SYMBOLS, part, rows=1, unroll=5, carry=False)
    assert carried.nats != reset.nats


def test_first_symbol_is_predicted_after_a_line_break():
    inputs, targets = predictions(SYMBOLS.encode("ab"), SYMBOLS)
    assert SYMBOLS.decode(inputs) == "\na"
    assert SYMBOLS.decode(targets) == "ab"


def test_without_line_break_the_first_symbol_is_not_predicted():
    symbols = Symbols("characters", ("<UNK>", "a", "b"))
    inputs, targets = predictions(symbols.encode("aba"), symbols)
    assert (symbols.decode(inputs), symbols.decode(targets)) == ("ab", "ba")


def test_bits_per_character_counts_all_characters():
    # Three words of eight characters: 3 * 2 nats over 8 characters.
    loss = TextLoss(nats=2.0, n_symbols=3, n_characters=8, unit="words", unknown_rate=0.0)
    assert loss.bits_per_character == pytest.approx(3 * 2.0 / 8 / math.log(2))
    assert loss.perplexity == pytest.approx(math.exp(2.0))


def test_unknown_characters_are_reported():
    loss = text_loss(small_network(), SYMBOLS, text_part("abXY", SYMBOLS))
    assert loss.unknown_rate == 0.5
    assert "50.00% <UNK>" in loss.line()


@pytest.mark.parametrize("n_symbols", [3, 200, 700, 1500])
def test_short_text_has_the_same_loss_in_any_number_of_rows(n_symbols):
    network, part = small_network(), text_part((TEXT * 10)[:n_symbols], SYMBOLS)
    one, many = (text_loss(network, SYMBOLS, part, rows=rows).nats for rows in (1, 32))
    assert many == pytest.approx(one, rel=1e-4)


def test_bits_per_character_of_words_with_unknown_ones_are_marked():
    loss = TextLoss(nats=2.0, n_symbols=3, n_characters=8, unit="words", unknown_rate=0.1)
    assert "too low" in loss.line()
