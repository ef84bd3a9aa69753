"""Losses of n-gram models with interpolated modified Kneser-Ney smoothing.

They are what a recurrent model has to improve on. The model of order n uses counts of n-grams at
its highest order and, below it, the number of different symbols that precede an n-gram
(continuation counts). All orders share these lower levels, so one pass over the orders computes
the losses of every model.

An n-gram is represented by the rank of (context, symbol) among the distinct n-grams of the training
text, where the context is the rank of its first n - 1 symbols. Sorting finds the ranks, without
dictionaries; memory is about 50 bytes per training symbol.

Chen and Goodman (1999), "An empirical study of smoothing techniques for language modeling".
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo.errors import ConfigError, InputError

Ids = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]

UNSEEN = -1
# Discounts of counts 1, 2 and 3 or more if the text is too small to estimate them.
DEFAULT_DISCOUNTS = (0.5, 1.0, 1.5)


def ngram_losses(
    train_ids: Ids, heldout_ids: Ids, n_symbols: int, max_order: int = 6
) -> list[float]:
    """Return the mean loss on the held-out text of each order from 1 to `max_order`, in nats.

    Args:
        train_ids: Symbol ids of the training text.
        heldout_ids: Symbol ids of the held-out text. Contexts do not extend beyond its beginning.
        n_symbols: Number of symbols that a model can predict; ids are smaller.
        max_order: Largest order of the models.
    """
    return [
        float(losses.mean())
        for losses in ngram_symbol_losses(train_ids, heldout_ids, n_symbols, max_order)
    ]


def ngram_symbol_losses(
    train_ids: Ids, heldout_ids: Ids, n_symbols: int, max_order: int
) -> Iterator[Floats]:
    """Yield the loss of each held-out symbol in nats, for each order from 1 to `max_order`.

    Args:
        train_ids: Symbol ids of the training text.
        heldout_ids: Symbol ids of the held-out text. Contexts do not extend beyond its beginning.
        n_symbols: Number of symbols that a model can predict; ids are smaller.
        max_order: Largest order of the models.
    """
    if max_order < 1:
        raise ConfigError(f"The order of an n-gram model must be at least 1, not {max_order}.")
    for ids, name in ((train_ids, "training"), (heldout_ids, "held-out")):
        if not len(ids):
            raise InputError(f"The {name} text is empty, so n-gram models cannot be computed.")
        if ids.min() < 0 or ids.max() >= n_symbols:
            raise InputError(
                f"Symbol ids of the {name} text are from {ids.min()} to {ids.max()}; expected are "
                f"ids from 0 to {n_symbols - 1}."
            )
    grams = _unigrams(train_ids, heldout_ids, n_symbols)
    lower = np.full(len(heldout_ids), 1 / n_symbols)
    yield -np.log(_interpolate(grams, grams.counts, lower))
    for _ in range(2, max_order + 1):
        longer = _extend(grams, train_ids, heldout_ids, n_symbols)
        lower = _interpolate(grams, longer.continuation_counts, lower)
        grams = longer
        yield -np.log(_interpolate(grams, grams.counts, lower))


def estimate_discounts(counts: Ids) -> Floats:
    """Return the discounts of counts 0, 1, 2 and of 3 or more, estimated from counts of counts.

    The discount of a count is positive and not larger than the count, so that every context leaves
    probability for unseen symbols. If an estimate is not, or a count of counts is zero, the
    defaults are used.

    Args:
        counts: Counts of the distinct n-grams of one order; zeros are ignored.
    """
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if min(n1, n2, n3, n4) > 0:
        ratio = n1 / (n1 + 2 * n2)
        estimates = (1 - 2 * ratio * n2 / n1, 2 - 3 * ratio * n3 / n2, 3 - 4 * ratio * n4 / n3)
        if all(0 < estimate <= count for count, estimate in enumerate(estimates, 1)):
            return np.array([0.0, *estimates])
    return np.array([0.0, *DEFAULT_DISCOUNTS])


@dataclass(frozen=True)
class _Ngrams:
    """The n-grams of one order.

    Attributes:
        contexts: Context of each distinct n-gram of the training text, in increasing order.
        n_contexts: Number of distinct contexts, which are n-grams of the order below.
        counts: Number of occurrences of each distinct n-gram.
        train: Index of the n-gram that ends at each training position which has enough context.
        heldout: Index of the n-gram that ends at each held-out position, or `UNSEEN`.
        heldout_contexts: Index of the context of each held-out position, or `UNSEEN`.
        continuation_counts: Number of different n-grams of this order that end with each distinct
            n-gram of the order below.
    """

    contexts: Ids
    n_contexts: int
    counts: Ids
    train: Ids
    heldout: Ids
    heldout_contexts: Ids
    continuation_counts: Ids


def _unigrams(train_ids: Ids, heldout_ids: Ids, n_symbols: int) -> _Ngrams:
    """Count the symbols of the training text. Their context is empty and always known."""
    return _count(
        np.zeros(len(train_ids), np.int32),
        train_ids,
        np.zeros(len(heldout_ids), np.int32),
        heldout_ids,
        n_symbols,
        np.zeros(len(train_ids), np.int32),
        1,
    )


def _extend(shorter: _Ngrams, train_ids: Ids, heldout_ids: Ids, n_symbols: int) -> _Ngrams:
    """Count the n-grams that are one symbol longer."""
    order_of_shorter = len(train_ids) - len(shorter.train) + 1
    return _count(
        shorter.train[:-1],
        train_ids[order_of_shorter:],
        np.concatenate([[UNSEEN], shorter.heldout[:-1]]).astype(np.int32),
        heldout_ids,
        n_symbols,
        shorter.train[1:],
        len(shorter.counts),
    )


def _count(
    contexts: Ids,
    symbols: Ids,
    heldout_contexts: Ids,
    heldout_symbols: Ids,
    n_symbols: int,
    suffixes: Ids,
    n_shorter: int,
) -> _Ngrams:
    """Count the distinct pairs of a context and a symbol.

    Args:
        contexts: Index of the context of each training position.
        symbols: Symbol at each of these positions.
        heldout_contexts: Index of the context of each held-out position, or `UNSEEN`.
        heldout_symbols: Symbol at each held-out position.
        n_symbols: Number of symbols.
        suffixes: Index of the n-gram of the order below that ends at each training position.
        n_shorter: Number of distinct n-grams of the order below.
    """
    keys = contexts.astype(np.int64) * n_symbols + symbols
    by_key = np.argsort(keys)
    keys = keys[by_key]
    is_first = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
    train = np.empty(len(keys), np.int32)
    train[by_key] = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    starts = np.flatnonzero(is_first)
    distinct = keys[starts]

    # The key of an unseen context is negative and therefore not found either.
    wanted = heldout_contexts.astype(np.int64) * n_symbols + heldout_symbols
    heldout = np.searchsorted(distinct, wanted).astype(np.int32)
    is_seen = heldout < len(distinct)
    is_seen[is_seen] = distinct[heldout[is_seen]] == wanted[is_seen]
    heldout[~is_seen] = UNSEEN
    return _Ngrams(
        contexts=(distinct // n_symbols).astype(np.int32),
        n_contexts=n_shorter,
        counts=np.diff(starts, append=len(keys)).astype(np.int32),
        train=train,
        heldout=heldout,
        heldout_contexts=heldout_contexts,
        continuation_counts=np.bincount(suffixes[by_key[starts]], minlength=n_shorter),
    )


def _interpolate(grams: _Ngrams, counts: Ids, lower: Floats) -> Floats:
    """Return the probability of each held-out symbol at one order.

    Args:
        grams: The n-grams of this order.
        counts: Count of each distinct n-gram: occurrences, or continuation counts.
        lower: Probabilities of the order below.
    """
    discounts = estimate_discounts(counts)[np.minimum(counts, 3)]
    totals = np.bincount(grams.contexts, counts, grams.n_contexts)
    discounted = np.bincount(grams.contexts, discounts, grams.n_contexts)
    # A context that was only seen at the end of the training text has no counts.
    has_counts = grams.heldout_contexts != UNSEEN
    has_counts[has_counts] = totals[grams.heldout_contexts[has_counts]] > 0
    contexts = grams.heldout_contexts[has_counts]
    heldout = grams.heldout[has_counts]
    own = np.zeros(len(heldout))
    is_seen = heldout != UNSEEN
    own[is_seen] = (counts - discounts)[heldout[is_seen]]
    probabilities = lower.copy()
    probabilities[has_counts] = (own + discounted[contexts] * lower[has_counts]) / totals[contexts]
    return probabilities
