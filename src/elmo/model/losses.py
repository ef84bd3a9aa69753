"""Losses of a language model: full, sampled and adaptive softmax, a value for each prediction.

The sampled one is TensorFlow's (Jean et al., 2015): a few candidates in place of all words, their
logits corrected by how often they were to be expected. It trains, but is no measure.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

# Logits in memory at a time (256 MiB); more are computed in parts, and again for the gradient.
CHUNK_VALUES = 2**26

Softmax = nn.Linear | nn.AdaptiveLogSoftmaxWithLoss


def exact_losses(softmax: Softmax, hidden: Tensor, targets: Tensor) -> Tensor:
    """Give -ln p(target) over all words.

    Args:
        softmax: of the model.
        hidden: (predictions, dim).
        targets: word ids, (predictions,).

    Returns:
        (predictions,), float32.
    """
    if isinstance(softmax, nn.AdaptiveLogSoftmaxWithLoss):
        # Its clusters are put together by place, which wants one type of numbers.
        with torch.autocast(hidden.device.type, enabled=False):
            found: Tensor = softmax(hidden.float(), targets).output
            return -found
    return full_losses(hidden, softmax.weight, softmax.bias, targets)


def full_losses(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Give -ln p(target), the softmax being over all rows of a matrix."""
    rows = max(1, CHUNK_VALUES // weight.shape[0])
    if len(hidden) <= rows:
        # Each part of a larger matrix would be filled up anew.
        filled = with_fillers(weight, bias) if hidden.is_cuda else (weight, bias)
        return _cross_entropy(hidden, *filled, targets)
    parts = []
    for part, aims in zip(torch.split(hidden, rows), torch.split(targets, rows), strict=True):
        if torch.is_grad_enabled():
            loss = checkpoint(
                _cross_entropy,
                part,
                weight,
                bias,
                aims,
                use_reentrant=False,
                preserve_rng_state=False,
            )
        else:
            loss = _cross_entropy(part, weight, bias, aims)
        parts.append(loss)
    return torch.cat(parts)


def _cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    logits = functional.linear(hidden, weight, bias).float()
    return functional.cross_entropy(logits, targets, reduction="none")


def with_fillers(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Add rows that have no chance, up to a multiple of 8: what fast products want.

    Args:
        weight: (words, dim).
        bias: (words,).
    """
    missing = -len(weight) % 8
    if not missing:
        return weight, bias
    filled = functional.pad(weight, (0, 0, 0, missing))
    return filled, functional.pad(bias, (0, missing), value=float("-inf"))


# ----------------------------------------------------------------------------- sampled softmax


@dataclass(frozen=True)
class Candidates:
    """Words drawn for one step of one direction.

    Attributes:
        ids: distinct word ids, (candidates,).
        n_tries: draws it took to find so many distinct ones.
    """

    ids: NDArray[np.int64]
    n_tries: int


def draw_candidates(n_candidates: int, n_words: int, seed: tuple[int, ...]) -> Candidates:
    """Draw distinct words, `P(k) = (ln(k + 2) - ln(k + 1)) / ln(n_words + 1)`.

    Draws go on until there are enough different ones; how many that took is part of the result.

    Args:
        n_candidates: how many, fewer than there are words.
        n_words: size of the vocabulary, ordered by falling frequency.
        seed: the same numbers give the same words.
    """
    generator = np.random.default_rng(seed)
    draws = np.zeros(0, dtype=np.int64)
    places = np.empty(n_words, dtype=np.int64)
    while True:
        uniform = generator.random(2 * n_candidates)
        # The inverse of the distribution function ln(k + 1) / ln(n_words + 1).
        new = np.exp(uniform * np.log(n_words + 1.0)).astype(np.int64) - 1
        draws = np.concatenate([draws, new.clip(0, n_words - 1)])
        # Written from the last to the first, a word's place is where it came first.
        numbers = np.arange(len(draws))
        places[draws[::-1]] = numbers[::-1]
        firsts = np.flatnonzero(places[draws] == numbers)
        if len(firsts) >= n_candidates:
            firsts = firsts[:n_candidates]
            return Candidates(draws[firsts], int(firsts[-1]) + 1)


def log_expected_count(ids: Tensor, n_words: int, n_tries: int | Tensor) -> Tensor:
    """Give ln q, q being the chance that a word is among the draws: `1 - (1 - P)^tries`."""
    k = ids.double()
    chance = ((k + 2).log() - (k + 1).log()) / float(np.log(n_words + 1.0))
    expected = -torch.expm1(n_tries * torch.log1p(-chance))
    return expected.log().float()


def sampled_losses(
    hidden: Tensor,
    *,
    true_weight: Tensor,
    true_bias: Tensor,
    true_log_expected: Tensor,
    sampled_weight: Tensor,
    sampled_bias: Tensor,
    sampled_log_expected: Tensor,
    targets: Tensor,
    sampled: Tensor,
) -> Tensor:
    """Give the loss of each prediction against its target and the candidates.

    Args:
        hidden: (predictions, dim).
        true_weight: softmax rows of the targets, (predictions, dim).
        true_bias: (predictions,).
        true_log_expected: ln q of the targets, (predictions,).
        sampled_weight: softmax rows of the candidates, (candidates, dim).
        sampled_bias: (candidates,).
        sampled_log_expected: ln q of the candidates, (candidates,).
        targets: word ids, (predictions,).
        sampled: word ids, (candidates,).

    Returns:
        (predictions,), float32.
    """
    true_logits = (hidden * true_weight).sum(dim=1).float() + true_bias - true_log_expected
    logits = functional.linear(hidden, sampled_weight).float() + sampled_bias
    logits = logits - sampled_log_expected
    # A candidate that is the target itself would count it twice.
    hits = targets.unsqueeze(1) == sampled.unsqueeze(0)
    logits = logits.masked_fill(hits, torch.finfo(torch.float32).min)
    all_logits = torch.cat([true_logits.unsqueeze(1), logits], dim=1)
    return all_logits.logsumexp(dim=1) - true_logits
