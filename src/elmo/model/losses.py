"""Language model losses per prediction, for the full, adaptive and sampled softmax.

The sampled softmax works as in TensorFlow (Jean et al., 2015): it compares the target with a few
sampled words instead of the whole vocabulary, and corrects the logits by the expected count of each
word. It is used for training only; perplexity cannot be computed from its loss.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

# Logits in memory at a time (256 MiB). Larger matrices are computed in chunks, which are computed
# again for the gradient.
CHUNK_VALUES = 2**26

Softmax = nn.Linear | nn.AdaptiveLogSoftmaxWithLoss


def exact_losses(softmax: Softmax, hidden: Tensor, targets: Tensor) -> Tensor:
    """Return -ln p(target) of each prediction, with a softmax over the whole vocabulary.

    The hidden vectors are (predictions, dim), targets and losses (predictions,).
    """
    if isinstance(softmax, nn.AdaptiveLogSoftmaxWithLoss):
        # It copies the outputs of its clusters into one tensor, so they must have the same dtype.
        with torch.autocast(hidden.device.type, enabled=False):
            log_probabilities: Tensor = softmax(hidden.float(), targets).output
            return -log_probabilities
    return full_losses(hidden, softmax.weight, softmax.bias, targets)


def merged_losses(softmax: nn.Linear, hidden: Tensor, targets: Tensor, merged: Tensor) -> Tensor:
    """Return -ln p(target) of each prediction, where several words count as one.

    `merged` is whether each word counts as the merged one, (words,), whose probability is the sum
    of theirs. The other arguments are those of `exact_losses`.
    """
    chunk_rows = max(1, CHUNK_VALUES // softmax.out_features)
    losses = []
    for chunk, words in zip(
        torch.split(hidden, chunk_rows), torch.split(targets, chunk_rows), strict=True
    ):
        logits = softmax(chunk).float()
        own = logits.gather(1, words.unsqueeze(1)).squeeze(1)
        together = logits.masked_fill(~merged, -torch.inf).logsumexp(1)
        losses.append(logits.logsumexp(1) - torch.where(merged[words], together, own))
    return torch.cat(losses)


def full_losses(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Return -ln p(target) of each prediction, with a softmax over all rows of a weight matrix."""
    if hidden.is_cuda:
        weight, bias = pad_vocabulary(weight, bias)
    chunk_rows = max(1, CHUNK_VALUES // weight.shape[0])
    if len(hidden) <= chunk_rows:
        return _cross_entropy(hidden, weight, bias, targets)
    losses = []
    for chunk, chunk_targets in zip(
        torch.split(hidden, chunk_rows), torch.split(targets, chunk_rows), strict=True
    ):
        if torch.is_grad_enabled():
            loss = checkpoint(
                _cross_entropy,
                chunk,
                weight,
                bias,
                chunk_targets,
                use_reentrant=False,
                preserve_rng_state=False,
            )
        else:
            loss = _cross_entropy(chunk, weight, bias, chunk_targets)
        losses.append(loss)
    return torch.cat(losses)


def _cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    logits = functional.linear(hidden, weight, bias).float()
    return functional.cross_entropy(logits, targets, reduction="none")


def pad_vocabulary(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Pad a softmax to a multiple of 8 rows, as fast products on tensor cores require."""
    n_missing = -len(weight) % 8
    if not n_missing:
        return weight, bias
    padded = functional.pad(weight, (0, 0, 0, n_missing))
    return padded, functional.pad(bias, (0, n_missing), value=float("-inf"))


# ----------------------------------------------------------------------------- sampled softmax


@dataclass(frozen=True)
class Candidates:
    """Distinct words sampled for one training step in one direction, and the number of draws."""

    ids: NDArray[np.int64]
    n_tries: int


def draw_candidates(n_candidates: int, n_words: int, seed: tuple[int, ...]) -> Candidates:
    """Sample distinct words with `P(k) = (ln(k + 2) - ln(k + 1)) / ln(n_words + 1)`.

    The vocabulary of `n_words` is sorted by decreasing frequency. Words are drawn with replacement
    until there are enough distinct ones; the result includes the number of draws.
    """
    generator = np.random.default_rng(seed)
    draws = np.zeros(0, dtype=np.int64)
    first_draw = np.empty(n_words, dtype=np.int64)
    while True:
        uniform = generator.random(2 * n_candidates)
        # Inverse of the cumulative distribution function ln(k + 1) / ln(n_words + 1).
        new = np.exp(uniform * np.log(n_words + 1.0)).astype(np.int64) - 1
        draws = np.concatenate([draws, new.clip(0, n_words - 1)])
        # Assigned in reverse order, so that the first draw of each word is the one that stays.
        positions = np.arange(len(draws))
        first_draw[draws[::-1]] = positions[::-1]
        distinct = np.flatnonzero(first_draw[draws] == positions)
        if len(distinct) >= n_candidates:
            distinct = distinct[:n_candidates]
            return Candidates(draws[distinct], int(distinct[-1]) + 1)


def log_expected_count(ids: Tensor, n_words: int, n_tries: int | Tensor) -> Tensor:
    """Return ln q, where `q = 1 - (1 - P)^n_tries` is the probability that a word is sampled."""
    k = ids.double()
    probability = ((k + 2).log() - (k + 1).log()) / float(np.log(n_words + 1.0))
    expected = -torch.expm1(n_tries * torch.log1p(-probability))
    return expected.log().float()


def sampled_losses(logits: tuple[Tensor, Tensor]) -> Tensor:
    """Return the sampled-softmax loss of each prediction, (predictions,), float32.

    Args:
        logits: Logits that `sampled_logits` returns.
    """
    return all_classes(logits).logsumexp(dim=1) - logits[0]


def all_classes(logits: tuple[Tensor, Tensor]) -> Tensor:
    """Return the logits of targets and candidates in one tensor, (predictions, 1 + candidates).

    Args:
        logits: Logits that `sampled_logits` returns.
    """
    targets, candidates = logits
    return torch.cat([targets.unsqueeze(1), candidates], dim=1)


def sampled_logits(
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
) -> tuple[Tensor, Tensor]:
    """Return the logits of a sampled softmax, corrected by the expected counts.

    Args:
        hidden: Hidden vectors, (predictions, dim).
        true_weight: Softmax rows of the targets, (predictions, dim).
        true_bias: Biases of the targets, (predictions,).
        true_log_expected: Ln q of the targets, (predictions,).
        sampled_weight: Softmax rows of the candidates, (candidates, dim).
        sampled_bias: Biases of the candidates, (candidates,).
        sampled_log_expected: Ln q of the candidates, (candidates,).
        targets: Word ids of the targets, (predictions,).
        sampled: Word ids of the candidates, (candidates,).

    Returns:
        Logits of the targets, (predictions,), and of the candidates, (predictions, candidates),
        float32. A candidate that is also the target has the lowest finite logit.
    """
    true_logits = (hidden * true_weight).sum(dim=1).float() + true_bias - true_log_expected
    logits = functional.linear(hidden, sampled_weight).float() + sampled_bias
    logits = logits - sampled_log_expected
    # If the target is also a candidate, it must not be counted twice.
    hits = targets.unsqueeze(1) == sampled.unsqueeze(0)
    return true_logits, logits.masked_fill(hits, torch.finfo(torch.float32).min)
