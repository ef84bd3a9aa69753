"""Tests that compare softmax losses and sampled candidates with slow implementations."""

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
    merged_losses,
    pad_vocabulary,
    sampled_logits,
    sampled_losses,
)

N_WORDS, DIM, N = 11, 16, 7


def randn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def random_targets(seed=0, n_words=N_WORDS, n=N):
    return torch.randint(0, n_words, (n,), generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------ full


@pytest.mark.parametrize("chunk_values", [3 * N_WORDS, 2**26])
def test_merged_losses_add_up_the_probabilities_of_merged_words(monkeypatch, chunk_values):
    monkeypatch.setattr(losses, "CHUNK_VALUES", chunk_values)
    softmax, hidden, targets = nn.Linear(DIM, N_WORDS), randn(N, DIM), random_targets()
    merged = torch.arange(N_WORDS) % 3 == 2
    assert 0 < merged[targets].sum() < N
    probabilities = softmax(hidden).softmax(1)
    expected = [
        -row[merged].sum().log() if merged[word] else -row[word].log()
        for row, word in zip(probabilities, targets, strict=True)
    ]
    found = merged_losses(softmax, hidden, targets, merged)
    torch.testing.assert_close(found, torch.stack(expected))


def full_with_gradients(targets):
    hidden, weight, bias = randn(N, DIM), randn(N_WORDS, DIM, seed=1), randn(N_WORDS, seed=2)
    tensors = [value.requires_grad_() for value in (hidden, weight, bias)]
    result = full_losses(hidden, weight, bias, targets)
    # Each prediction has a different weight, so that a wrong order is noticed.
    loss = (result * torch.arange(1.0, N + 1)).sum()
    return result, torch.autograd.grad(loss, tensors)


def test_full_losses_equal_explicit_log_softmax():
    targets = random_targets()
    result, _ = full_with_gradients(targets)
    logits = (randn(N, DIM) @ randn(N_WORDS, DIM, seed=1).T + randn(N_WORDS, seed=2)).double()
    for row, target, loss in zip(logits, targets, result, strict=True):
        exponentials = [math.exp(value) for value in row.tolist()]
        expected = -math.log(exponentials[int(target)] / sum(exponentials))
        assert loss.item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("chunk_rows", [0, 1, 2, 3, 6])
def test_losses_computed_in_chunks_equal_losses_in_one_chunk(monkeypatch, chunk_rows):
    targets = random_targets()
    whole, expected = full_with_gradients(targets)
    calls = []
    inner = losses._cross_entropy

    def count_calls(hidden, *rest):
        calls.append(len(hidden))
        return inner(hidden, *rest)

    monkeypatch.setattr(losses, "_cross_entropy", count_calls)
    monkeypatch.setattr(losses, "CHUNK_VALUES", chunk_rows * N_WORDS + 3)
    result, gradients = full_with_gradients(targets)
    torch.testing.assert_close(result, whole, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-5)
    # Logits are not kept: every chunk is computed again for the gradient.
    assert max(calls) == max(1, chunk_rows)
    assert sum(calls) == 2 * N
    calls.clear()
    with torch.no_grad():
        without_gradients = full_losses(
            randn(N, DIM), randn(N_WORDS, DIM, seed=1), randn(N_WORDS, seed=2), targets
        )
    torch.testing.assert_close(without_gradients, whole.detach(), rtol=1e-6, atol=1e-6)
    assert sum(calls) == N


def test_exact_losses_of_linear_softmax_equal_full_losses():
    softmax = nn.Linear(DIM, N_WORDS)
    expected = full_losses(randn(N, DIM), softmax.weight, softmax.bias, random_targets())
    assert torch.equal(exact_losses(softmax, randn(N, DIM), random_targets()), expected)


# ------------------------------------------------------------------------------------ adaptive


@pytest.mark.parametrize("cutoffs", [[4], [3, 7]])
def test_exact_losses_of_adaptive_softmax_equal_explicit_formula(cutoffs):
    softmax = nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, cutoffs)
    initialize_softmax(softmax, torch.Generator().manual_seed(3))
    hidden, targets = randn(40, DIM), random_targets(n=40)
    result = exact_losses(softmax, hidden, targets)
    table = softmax.log_prob(hidden)
    torch.testing.assert_close(result, -table[torch.arange(40), targets], rtol=0, atol=1e-5)
    torch.testing.assert_close(table.exp().sum(dim=1), torch.ones(40))
    # By hand: log probability of the cluster in the head, plus that of the word in the cluster.
    first = cutoffs[0]
    for vector, target, loss in zip(hidden, targets.tolist(), result, strict=True):
        head = torch.log_softmax(softmax.head(vector), dim=0)
        if target < first:
            expected = head[target]
        else:
            bounds = [*cutoffs, N_WORDS]
            cluster = sum(target >= bound for bound in bounds) - 1
            inside = torch.log_softmax(softmax.tail[cluster](vector), dim=0)
            expected = head[first + cluster] + inside[target - bounds[cluster]]
        assert loss.item() == pytest.approx(-expected.item(), abs=1e-5)


def test_adaptive_softmax_losses_are_computed_in_float32():
    softmax = nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, [3, 7])
    expected = exact_losses(softmax, randn(N, DIM).bfloat16().float(), random_targets())
    with torch.autocast("cpu", torch.bfloat16):
        result = exact_losses(softmax, randn(N, DIM).bfloat16(), random_targets())
    assert result.dtype == torch.float32
    assert torch.equal(result, expected)


# ------------------------------------------------------------------------------------ candidates


def slow_candidates(n_candidates, n_words, seed):
    """Draw words one by one, from the same random numbers, until enough are distinct."""
    generator = np.random.default_rng(seed)
    words, tries = [], 0
    while True:
        for uniform in generator.random(2 * n_candidates).tolist():
            word = min(int(math.exp(uniform * math.log(n_words + 1.0))) - 1, n_words - 1)
            tries += 1
            if word not in words:
                words.append(word)
            if len(words) == n_candidates:
                return words, tries


@settings(max_examples=60)
@given(st.integers(2, 60), st.floats(0.0, 1.0), st.integers(0, 2**40))
def test_sampled_candidates_are_the_first_distinct_draws(n_words, share, seed):
    n_candidates = max(1, min(n_words - 1, int(share * n_words)))
    drawn = draw_candidates(n_candidates, n_words, (seed, 5))
    expected, tries = slow_candidates(n_candidates, n_words, (seed, 5))
    assert drawn.ids.tolist() == expected
    assert drawn.n_tries == tries
    assert len(set(expected)) == n_candidates
    assert 0 <= min(expected) <= max(expected) < n_words


def test_same_seed_draws_same_candidates():
    first = draw_candidates(50, 1000, (1, 2, 0))
    again = draw_candidates(50, 1000, (1, 2, 0))
    assert first.ids.tolist() == again.ids.tolist()
    assert first.n_tries == again.n_tries
    for other in ((1, 2, 1), (1, 3, 0), (2, 2, 0)):
        assert draw_candidates(50, 1000, other).ids.tolist() != first.ids.tolist()


def test_candidate_frequencies_follow_log_uniform_distribution():
    n_words, n_draws = 20, 20_000
    # The first candidate is a single draw from the distribution.
    firsts = [int(draw_candidates(1, n_words, (9, number)).ids[0]) for number in range(n_draws)]
    counts = np.bincount(firsts, minlength=n_words)
    for word in range(n_words):
        probability = (math.log(word + 2) - math.log(word + 1)) / math.log(n_words + 1)
        deviation = math.sqrt(n_draws * probability * (1 - probability))
        assert abs(counts[word] - n_draws * probability) < 4.5 * deviation, word


def test_log_expected_count_equals_formula():
    n_words, tries = 50, 37
    log_counts = log_expected_count(torch.arange(n_words), n_words, tries)
    assert log_counts.dtype == torch.float32
    total = 0.0
    for word in range(n_words):
        probability = (math.log(word + 2) - math.log(word + 1)) / math.log(n_words + 1)
        total += probability
        assert log_counts[word].item() == pytest.approx(
            math.log(1 - (1 - probability) ** tries), rel=1e-5
        )
    assert total == pytest.approx(1.0)


def test_log_expected_count_of_rare_words_is_exact():
    """In float32, `1 - (1 - P)^n` would be 0 here."""
    n_words = 800_000
    log_counts = log_expected_count(torch.tensor([n_words - 1]), n_words, 3).item()
    probability = math.log1p(1 / n_words) / math.log(n_words + 1)
    assert log_counts == pytest.approx(math.log(3 * probability), rel=1e-5)


def test_expected_counts_match_observed_sampling_frequencies():
    n_words, n_candidates, runs = 12, 5, 4000
    hits, expected = np.zeros(n_words), np.zeros(n_words)
    for number in range(runs):
        drawn = draw_candidates(n_candidates, n_words, (4, number))
        hits[drawn.ids] += 1
        expected += log_expected_count(torch.arange(n_words), n_words, drawn.n_tries).exp().numpy()
    # Approximate, because the number of draws is itself random.
    np.testing.assert_allclose(hits / runs, expected / runs, atol=0.04)


# ------------------------------------------------------------------------------------ sampled


def call_sampled(hidden, weight, bias, targets, sampled, log_expected):
    logits = sampled_logits(
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
    return sampled_losses(logits)


def test_sampled_losses_equal_slow_implementation():
    hidden, weight, bias = randn(N, DIM), randn(N_WORDS, DIM, seed=1), randn(N_WORDS, seed=2)
    targets = torch.tensor([0, 3, 3, 10, 5, 2, 7])
    sampled = torch.tensor([3, 0, 8, 9])  # 0 and 3 are targets too
    log_expected = log_expected_count(torch.arange(N_WORDS), N_WORDS, 6)
    result = call_sampled(hidden, weight, bias, targets, sampled, log_expected)
    scores = (weight.double() @ hidden.double().T).T + bias.double() - log_expected.double()
    n_hits = 0
    for row, target, loss in zip(scores.tolist(), targets.tolist(), result, strict=True):
        others = [word for word in sampled.tolist() if word != target]
        n_hits += len(sampled) - len(others)
        total = math.exp(row[target]) + sum(math.exp(row[word]) for word in others)
        assert loss.item() == pytest.approx(math.log(total) - row[target], abs=1e-5)
    assert n_hits == 3
    assert result.dtype == torch.float32


def test_sampled_losses_with_all_words_equal_full_losses():
    """If every word is a candidate, the logit corrections are 0."""
    hidden, weight, bias = randn(N, DIM), randn(N_WORDS, DIM, seed=1), randn(N_WORDS, seed=2)
    order = torch.randperm(N_WORDS, generator=torch.Generator().manual_seed(0))
    certain = log_expected_count(torch.arange(N_WORDS), N_WORDS, 10**6)
    result = call_sampled(hidden, weight, bias, random_targets(), order, certain)
    torch.testing.assert_close(result, full_losses(hidden, weight, bias, random_targets()))


def test_mean_sampled_loss_is_close_to_full_loss():
    n_words, n = 300, 40
    hidden = 0.3 * randn(n, DIM)
    weight, bias = randn(n_words, DIM, seed=1), randn(n_words, seed=2)
    targets = random_targets(n_words=n_words, n=n)
    means = []
    for number in range(60):
        drawn = draw_candidates(150, n_words, (2, number))
        log_expected = log_expected_count(torch.arange(n_words), n_words, drawn.n_tries)
        sampled = torch.from_numpy(drawn.ids)
        loss = call_sampled(hidden, weight, bias, targets, sampled, log_expected)
        # Without the ln q of the target, the loss is a softmax with an estimated normalizer.
        means.append((loss - log_expected[targets]).mean().item())
    full = full_losses(hidden, weight, bias, targets).mean().item()
    assert np.mean(means) == pytest.approx(full, abs=0.06)


@pytest.mark.parametrize("n_words", [8, 13])
def test_pad_vocabulary_does_not_change_losses_or_gradients(n_words):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(n_words, 4, generator=generator, dtype=torch.float64).requires_grad_()
    bias = torch.randn(n_words, generator=generator, dtype=torch.float64).requires_grad_()
    targets = torch.tensor([0, 3, n_words - 1, 7, 2])
    results = []
    for rows in ((weight, bias), pad_vocabulary(weight, bias)):
        loss = full_losses(hidden, *rows, targets)
        results.append([loss, *torch.autograd.grad(loss.sum(), (weight, bias))])
        assert len(rows[0]) == len(rows[1])
    torch.testing.assert_close(*results)
    assert len(rows[0]) == n_words + -n_words % 8
