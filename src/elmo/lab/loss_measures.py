"""Conversions between nats, bits and perplexity."""

import math
from typing import Literal

Measure = Literal["nats", "bits", "perplexity"]


def perplexity(nats: float) -> float:
    """Return the perplexity of a mean loss in nats; infinite if it is out of range."""
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def perplexity_text(nats: float) -> str:
    """Return the perplexity with two decimals, or in scientific notation if it is large."""
    value = perplexity(nats)
    return f"{value:,.2f}" if not value >= 1e5 else f"{value:.3g}"


def bits(nats: float) -> float:
    """Convert nats to bits."""
    return nats / math.log(2)


def bits_per_character(nats: float, characters_per_symbol: float) -> float:
    """Return the bits per character of a mean loss per symbol.

    Args:
        nats: Mean loss per symbol.
        characters_per_symbol: Number of characters of the original text, including spaces and line
            ends, divided by the number of symbols that were predicted.
    """
    return bits(nats) / characters_per_symbol


def to_nats(figure: float, measure: Measure) -> float:
    """Convert a figure per symbol to nats."""
    if measure == "perplexity":
        return math.log(figure)
    return figure * math.log(2) if measure == "bits" else figure
