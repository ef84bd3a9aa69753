"""Tests of the n-gram models against an implementation with dictionaries."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from elmo.errors import ConfigError, InputError
from elmo.lab.ngram_baseline import (
    DEFAULT_DISCOUNTS,
    estimate_discounts,
    ngram_losses,
    ngram_symbol_losses,
)

ORDERS = 6


class DictionaryModel:
    """Interpolated modified Kneser-Ney smoothing, written for reading and not for speed."""

    def __init__(self, train, n_symbols, order):
        self.n_symbols = n_symbols
        self.levels = {}
        for n in range(1, order + 1):
            grams = [tuple(train[i : i + n]) for i in range(len(train) - n + 1)]
            if n == order:
                counts = Counter(grams)
            else:
                longer = {tuple(train[i : i + n + 1]) for i in range(len(train) - n)}
                counts = Counter(gram[1:] for gram in longer)
            followers = defaultdict(dict)
            for gram, count in counts.items():
                followers[gram[:-1]][gram[-1]] = count
            self.levels[n] = followers, self.discounts(counts)

    @staticmethod
    def discounts(counts):
        n = Counter(counts.values())
        if all(n[i] for i in (1, 2, 3, 4)):
            y = n[1] / (n[1] + 2 * n[2])
            estimates = [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
            if all(0 < estimates[i - 1] <= i for i in (1, 2, 3)):
                return estimates
        return DEFAULT_DISCOUNTS

    def probability(self, context, symbol):
        """Return the probability of a symbol after a context shorter than the order."""
        lower = self.probability(context[1:], symbol) if context else 1 / self.n_symbols
        followers, discounts = self.levels[len(context) + 1]
        if context not in followers:
            return lower
        counts = followers[context]
        discount = {other: discounts[min(count, 3) - 1] for other, count in counts.items()}
        own = counts[symbol] - discount[symbol] if symbol in counts else 0.0
        return (own + sum(discount.values()) * lower) / sum(counts.values())


def reference_losses(train, heldout, n_symbols, order):
    model = DictionaryModel(train, n_symbols, order)
    return [
        -math.log(model.probability(tuple(heldout[max(0, i - order + 1) : i]), symbol))
        for i, symbol in enumerate(heldout)
    ]


def random_text(length, n_symbols, seed):
    """Return a text in which some symbols are frequent and n-grams repeat."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, n_symbols, rng.integers(1, 7)) for _ in range(30)]
    chosen = np.minimum(rng.zipf(1.5, length), 30) - 1
    return np.concatenate([words[index] for index in chosen])[:length].astype(np.int32)


@pytest.mark.parametrize(("length", "n_symbols"), [(3000, 40), (300, 7), (20, 3), (4, 9), (1, 2)])
def test_symbol_losses_equal_those_of_dictionary_model(length, n_symbols):
    text = random_text(length + 200, n_symbols, length)
    train, heldout = text[:length], text[length:]
    losses = list(ngram_symbol_losses(train, heldout, n_symbols, ORDERS))
    assert len(losses) == ORDERS
    for order, computed in enumerate(losses, 1):
        expected = reference_losses(train.tolist(), heldout.tolist(), n_symbols, order)
        np.testing.assert_allclose(computed, expected, rtol=1e-10)


def test_comparison_texts_use_estimated_and_default_discounts():
    # The comparison above would otherwise not cover both cases.
    large = Counter(zip(*(random_text(3200, 40, 3000)[i:] for i in range(3)), strict=False))
    assert tuple(estimate_discounts(np.array(list(large.values())))[1:]) != DEFAULT_DISCOUNTS
    small = np.bincount(random_text(20, 3, 20))
    assert tuple(estimate_discounts(small)[1:]) == DEFAULT_DISCOUNTS


@pytest.mark.parametrize("seed", range(4))
def test_probabilities_of_all_symbols_sum_to_one(seed):
    n_symbols = 5
    # The last symbol never occurs in the training text.
    train = random_text(400, n_symbols - 1, seed)
    context = np.random.default_rng(seed).integers(0, n_symbols, 7)
    sums = np.zeros(ORDERS)
    for symbol in range(n_symbols):
        heldout = np.append(context, symbol).astype(np.int32)
        last = [losses[-1] for losses in ngram_symbol_losses(train, heldout, n_symbols, ORDERS)]
        assert np.isfinite(last).all()
        sums += np.exp(-np.array(last))
    np.testing.assert_allclose(sums, 1, rtol=1e-12)


def test_losses_are_means_of_symbol_losses_and_fall_with_order_on_repeated_text():
    text = np.tile(np.arange(8, dtype=np.int32), 50)
    text[::5] = 0
    losses = ngram_losses(text[:320], text[320:], 8, 3)
    means = [values.mean() for values in ngram_symbol_losses(text[:320], text[320:], 8, 3)]
    assert losses == pytest.approx(means)
    assert losses[0] > losses[1] > losses[2] > 0


def test_estimated_discounts_follow_chen_and_goodman():
    counts = np.repeat([1, 2, 3, 4, 9], [100, 40, 20, 10, 5])
    ratio = 100 / 180
    expected = [0, 1 - 2 * ratio * 0.4, 2 - 3 * ratio * 0.5, 3 - 4 * ratio * 0.5]
    np.testing.assert_allclose(estimate_discounts(counts), expected)


@pytest.mark.parametrize("numbers", [[0, 5, 5, 5], [5, 0, 5, 5], [5, 5, 5, 0], [5, 1, 50, 1]])
def test_discounts_that_cannot_be_estimated_have_defaults(numbers):
    counts = np.repeat([1, 2, 3, 4], numbers)
    assert tuple(estimate_discounts(counts)) == (0, *DEFAULT_DISCOUNTS)


def test_constant_text_has_finite_losses():
    text = np.zeros(50, np.int32)
    assert np.isfinite(ngram_losses(text, np.array([0, 1, 0], np.int32), 2)).all()


@pytest.mark.parametrize(
    ("train", "heldout", "message"),
    [([], [0], "training text is empty"), ([0], [], "held-out text is empty")],
)
def test_empty_text_is_rejected(train, heldout, message):
    with pytest.raises(InputError, match=message):
        ngram_losses(np.array(train, np.int32), np.array(heldout, np.int32), 3)


@pytest.mark.parametrize("symbol", [-1, 3])
def test_symbol_id_out_of_range_is_rejected(symbol):
    with pytest.raises(InputError, match="expected are ids from 0 to 2"):
        ngram_losses(np.array([0, 1], np.int32), np.array([symbol], np.int32), 3)


def test_order_below_one_is_rejected():
    with pytest.raises(ConfigError, match="at least 1, not 0"):
        ngram_losses(np.array([0], np.int32), np.array([0], np.int32), 3, 0)
