"""Tests of the conversions between measures."""

import math

import pytest

from elmo.lab.loss_measures import (
    bits,
    bits_per_character,
    perplexity,
    perplexity_text,
    to_nats,
)


def test_two_equally_likely_symbols_cost_one_bit():
    assert bits(math.log(2)) == pytest.approx(1)
    assert perplexity(math.log(2)) == pytest.approx(2)


def test_bits_per_character_divide_by_characters_per_symbol():
    assert bits_per_character(math.log(64), 4.0) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("measure", "figure"), [("nats", 2.0), ("bits", 2.885390), ("perplexity", 7.389056)]
)
def test_to_nats_inverts_each_measure(measure, figure):
    assert to_nats(figure, measure) == pytest.approx(2.0, rel=1e-6)


def test_perplexity_out_of_range_is_infinite():
    assert perplexity(1000.0) == math.inf


def test_perplexity_text_of_a_large_loss_is_short():
    assert perplexity_text(math.log(1234.5)) == "1,234.50"
    assert perplexity_text(264.0) == "4.51e+114"
    assert perplexity_text(math.nan) == "nan"
