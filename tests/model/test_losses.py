"""Losses of the language model against slow ones: full, adaptive, sampled and its candidates."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from elmo.model import losses
from elmo.model.initialization import initialize_softmax
from elmo.model.losses import (
    draw_candidates,
    exact_losses,
    full_losses,
    log_expected_count,
    sampled_losses,
    pad_vocabulary,
)

N_WORDS, DIM, N = 11, 16, 7


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def aims(seed=0, n_words=N_WORDS, n=N):
    return torch.randint(0, n_words, (n,), generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------ full


def full_with_gradients(targets):
    hidden, weight, bias = numbers(N, DIM), numbers(N_WORDS, DIM, seed=1), numbers(N_WORDS, seed=2)
    given = [value.requires_grad_() for value in (hidden, weight, bias)]
    found = full_losses(hidden, weight, bias, targets)
    # Each prediction counts differently, so that a mixed-up order would show.
    loss = (found * torch.arange(1.0, N + 1)).sum()
    return found, torch.autograd.grad(loss, given)


def test_full_is_the_textbook():
    targets = aims()
    found, _ = full_with_gradients(targets)
    logits = (numbers(N, DIM) @ numbers(N_WORDS, DIM, seed=1).T + numbers(N_WORDS, seed=2)).double()
    for row, target, loss in zip(logits, targets, found, strict=True):
        chances = [math.exp(value) for value in row.tolist()]
        expected = -math.log(chances[int(target)] / sum(chances))
        assert loss.item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 6])
def test_parts_are_the_whole(monkeypatch, rows):
    targets = aims()
    whole, expected = full_with_gradients(targets)
    calls = []
    inner = losses._cross_entropy

    def counted(hidden, *rest):
        calls.append(len(hidden))
        return inner(hidden, *rest)

    monkeypatch.setattr(losses, "_cross_entropy", counted)
    monkeypatch.setattr(losses, "CHUNK_VALUES", rows * N_WORDS + 3)
    found, gradients = full_with_gradients(targets)
    torch.testing.assert_close(found, whole, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-5)
    # Nothing is kept: every part is computed a second time for the gradient.
    assert max(calls) == max(1, rows)
    assert sum(calls) == 2 * N
    calls.clear()
    with torch.no_grad():
        without = full_losses(
            numbers(N, DIM), numbers(N_WORDS, DIM, seed=1), numbers(N_WORDS, seed=2), targets
        )
    torch.testing.assert_close(without, whole.detach(), rtol=1e-6, atol=1e-6)
    assert sum(calls) == N


def test_exact_losses_of_a_matrix():
    softmax = nn.Linear(DIM, N_WORDS)
    expected = full_losses(numbers(N, DIM), softmax.weight, softmax.bias, aims())
    assert torch.equal(exact_losses(softmax, numbers(N, DIM), aims()), expected)


# ------------------------------------------------------------------------------------ adaptive


@pytest.mark.parametrize("cutoffs", [[4], [3, 7]])
def test_exact_losses_of_clusters(cutoffs):
    softmax = nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, cutoffs)
    initialize_softmax(softmax, torch.Generator().manual_seed(3))
    hidden, targets = numbers(40, DIM), aims(n=40)
    found = exact_losses(softmax, hidden, targets)
    table = softmax.log_prob(hidden)
    torch.testing.assert_close(found, -table[torch.arange(40), targets], rtol=0, atol=1e-5)
    torch.testing.assert_close(table.exp().sum(dim=1), torch.ones(40))
    # By hand: the cluster's logit among the first words, then the word's inside the cluster.
    first = cutoffs[0]
    for vector, target, loss in zip(hidden, targets.tolist(), found, strict=True):
        head = torch.log_softmax(softmax.head(vector), dim=0)
        if target < first:
            expected = head[target]
        else:
            bounds = [*cutoffs, N_WORDS]
            cluster = sum(target >= bound for bound in bounds) - 1
            inside = torch.log_softmax(softmax.tail[cluster](vector), dim=0)
            expected = head[first + cluster] + inside[target - bounds[cluster]]
        assert loss.item() == pytest.approx(-expected.item(), abs=1e-5)


def test_clusters_stay_in_float32():
    softmax = nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, [3, 7])
    expected = exact_losses(softmax, numbers(N, DIM).bfloat16().float(), aims())
    with torch.autocast("cpu", torch.bfloat16):
        found = exact_losses(softmax, numbers(N, DIM).bfloat16(), aims())
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


# ------------------------------------------------------------------------------------ candidates


def slow_candidates(n_candidates, n_words, seed):
    """Draw one after another until there are enough, from the same uniform numbers."""
    generator = np.random.default_rng(seed)
    found, tries = [], 0
    while True:
        for uniform in generator.random(2 * n_candidates).tolist():
            word = min(int(math.exp(uniform * math.log(n_words + 1.0))) - 1, n_words - 1)
            tries += 1
            if word not in found:
                found.append(word)
            if len(found) == n_candidates:
                return found, tries


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 60), st.floats(0.0, 1.0), st.integers(0, 2**40))
def test_candidates_are_the_first_different_draws(n_words, share, seed):
    n_candidates = max(1, min(n_words - 1, int(share * n_words)))
    drawn = draw_candidates(n_candidates, n_words, (seed, 5))
    expected, tries = slow_candidates(n_candidates, n_words, (seed, 5))
    assert drawn.ids.tolist() == expected
    assert drawn.n_tries == tries
    assert len(set(expected)) == n_candidates
    assert 0 <= min(expected) <= max(expected) < n_words


def test_a_seed_decides():
    first = draw_candidates(50, 1000, (1, 2, 0))
    again = draw_candidates(50, 1000, (1, 2, 0))
    assert first.ids.tolist() == again.ids.tolist()
    assert first.n_tries == again.n_tries
    for other in ((1, 2, 1), (1, 3, 0), (2, 2, 0)):
        assert draw_candidates(50, 1000, other).ids.tolist() != first.ids.tolist()


def test_frequencies_follow_the_law():
    n_words, n_draws = 20, 20_000
    # The first candidate alone is a plain draw.
    firsts = [int(draw_candidates(1, n_words, (9, number)).ids[0]) for number in range(n_draws)]
    counts = np.bincount(firsts, minlength=n_words)
    for word in range(n_words):
        chance = (math.log(word + 2) - math.log(word + 1)) / math.log(n_words + 1)
        deviation = math.sqrt(n_draws * chance * (1 - chance))
        assert abs(counts[word] - n_draws * chance) < 4.5 * deviation, word


def test_expected_counts():
    n_words, tries = 50, 37
    found = log_expected_count(torch.arange(n_words), n_words, tries)
    assert found.dtype == torch.float32
    total = 0.0
    for word in range(n_words):
        chance = (math.log(word + 2) - math.log(word + 1)) / math.log(n_words + 1)
        total += chance
        assert found[word].item() == pytest.approx(math.log(1 - (1 - chance) ** tries), rel=1e-5)
    assert total == pytest.approx(1.0)


def test_expected_counts_of_rare_words_are_exact():
    """`1 - (1 - P)^n` in float32 would be nothing at all here."""
    n_words = 800_000
    found = log_expected_count(torch.tensor([n_words - 1]), n_words, 3).item()
    chance = math.log1p(1 / n_words) / math.log(n_words + 1)
    assert found == pytest.approx(math.log(3 * chance), rel=1e-5)


def test_expected_counts_are_how_often_words_are_drawn():
    n_words, n_candidates, runs = 12, 5, 4000
    hits, expected = np.zeros(n_words), np.zeros(n_words)
    for number in range(runs):
        drawn = draw_candidates(n_candidates, n_words, (4, number))
        hits[drawn.ids] += 1
        expected += log_expected_count(torch.arange(n_words), n_words, drawn.n_tries).exp().numpy()
    # Approximate, since the number of tries is a result of the draws.
    np.testing.assert_allclose(hits / runs, expected / runs, atol=0.04)


# ------------------------------------------------------------------------------------ sampled


def call_sampled(hidden, weight, bias, targets, sampled, log_expected):
    return sampled_losses(
        hidden,
        true_weight=weight[targets],
        true_bias=bias[targets],
        true_log_expected=log_expected[targets],
        sampled_weight=weight[sampled],
        sampled_bias=bias[sampled],
        sampled_log_expected=log_expected[sampled],
        targets=targets,
        sampled=sampled,
    )


def test_sampled_against_a_slow_one():
    hidden, weight, bias = numbers(N, DIM), numbers(N_WORDS, DIM, seed=1), numbers(N_WORDS, seed=2)
    targets = torch.tensor([0, 3, 3, 10, 5, 2, 7])
    sampled = torch.tensor([3, 0, 8, 9])  # 0 and 3 are targets too
    log_expected = log_expected_count(torch.arange(N_WORDS), N_WORDS, 6)
    found = call_sampled(hidden, weight, bias, targets, sampled, log_expected)
    scores = (weight.double() @ hidden.double().T).T + bias.double() - log_expected.double()
    n_hits = 0
    for row, target, loss in zip(scores.tolist(), targets.tolist(), found, strict=True):
        others = [word for word in sampled.tolist() if word != target]
        n_hits += len(sampled) - len(others)
        total = math.exp(row[target]) + sum(math.exp(row[word]) for word in others)
        assert loss.item() == pytest.approx(math.log(total) - row[target], abs=1e-5)
    assert n_hits == 3
    assert found.dtype == torch.float32


def test_sampled_with_every_word_is_full():
    """Where nothing is left to chance there is nothing to correct."""
    hidden, weight, bias = numbers(N, DIM), numbers(N_WORDS, DIM, seed=1), numbers(N_WORDS, seed=2)
    order = torch.randperm(N_WORDS, generator=torch.Generator().manual_seed(0))
    certain = log_expected_count(torch.arange(N_WORDS), N_WORDS, 10**6)
    found = call_sampled(hidden, weight, bias, aims(), order, certain)
    torch.testing.assert_close(found, full_losses(hidden, weight, bias, aims()))


def test_sampling_is_near_the_full_loss_on_average():
    n_words, n = 300, 40
    hidden = 0.3 * numbers(n, DIM)
    weight, bias = numbers(n_words, DIM, seed=1), numbers(n_words, seed=2)
    targets = aims(n_words=n_words, n=n)
    means = []
    for number in range(60):
        drawn = draw_candidates(150, n_words, (2, number))
        log_expected = log_expected_count(torch.arange(n_words), n_words, drawn.n_tries)
        sampled = torch.from_numpy(drawn.ids)
        loss = call_sampled(hidden, weight, bias, targets, sampled, log_expected)
        # The loss holds q of the target; without it, it is a softmax over an estimated sum.
        means.append((loss - log_expected[targets]).mean().item())
    full = full_losses(hidden, weight, bias, targets).mean().item()
    assert np.mean(means) == pytest.approx(full, abs=0.06)


@pytest.mark.parametrize("n_words", [8, 13])
def test_fillers_change_nothing(n_words):
    """Rows that have no chance: the same losses, and the same gradients of what was there."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(n_words, 4, generator=generator, dtype=torch.float64).requires_grad_()
    bias = torch.randn(n_words, generator=generator, dtype=torch.float64).requires_grad_()
    targets = torch.tensor([0, 3, n_words - 1, 7, 2])
    outcomes = []
    for rows in ((weight, bias), pad_vocabulary(weight, bias)):
        loss = full_losses(hidden, *rows, targets)
        outcomes.append([loss, *torch.autograd.grad(loss.sum(), (weight, bias))])
        assert len(rows[0]) == len(rows[1])
    torch.testing.assert_close(*outcomes)
    assert len(rows[0]) == n_words + -n_words % 8
