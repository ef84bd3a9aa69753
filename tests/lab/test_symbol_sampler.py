"""Tests of drawing symbols from log-probabilities."""

import numpy as np
import pytest
import torch

from elmo.config.language_models import SamplingConfig
from elmo.errors import ConfigError, InputError
from elmo.lab.symbol_sampler import SymbolSampler

PROBABILITIES = [0.1, 0.4, 0.2, 0.25, 0.05]


def draws(n, probabilities=PROBABILITIES, excluded=(), **options):
    """Return `n` symbols drawn for one row."""
    sampler = SymbolSampler(SamplingConfig(**options), 1, excluded)
    scores = torch.tensor([probabilities]).log()
    return [sampler.draw(scores)[0] for _ in range(n)]


def frequencies(symbols, n_symbols=5):
    return np.bincount(symbols, minlength=n_symbols) / len(symbols)


def test_draws_have_probabilities_of_model():
    assert np.allclose(frequencies(draws(20_000)), PROBABILITIES, atol=0.012)


def test_temperature_raises_probabilities_to_its_inverse():
    expected = np.array(PROBABILITIES) ** 2
    expected /= expected.sum()
    assert np.allclose(frequencies(draws(20_000, temperature=0.5)), expected, atol=0.012)


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1e-300])
def test_temperature_near_0_draws_most_likely_symbol(temperature):
    assert set(draws(50, temperature=temperature)) == {1}


def test_top_k_keeps_most_likely_symbols():
    symbols = draws(20_000, top_k=2)
    assert np.allclose(frequencies(symbols), [0, 0.4 / 0.65, 0, 0.25 / 0.65, 0], atol=0.012)


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [(0.01, {1}), (0.4, {1}), (0.41, {1, 3}), (0.84, {1, 2, 3}), (1.0, set(range(5)))],
)
def test_top_p_keeps_fewest_symbols_that_reach_probability(top_p, kept):
    assert set(draws(2_000, top_p=top_p)) == kept


def test_top_p_applies_to_probabilities_after_top_k():
    # After top_k 2 the probabilities are 0.62 and 0.38.
    assert set(draws(500, top_k=2, top_p=0.6)) == {1}


def test_excluded_symbols_are_masked_before_limits():
    assert set(draws(500, excluded=[1], top_k=2)) == {2, 3}
    assert set(draws(500, excluded=[1, 3], top_p=0.5)) == {2}
    assert set(draws(50, excluded=[1], temperature=0.0)) == {3}


def test_top_k_above_number_of_symbols_never_draws_excluded_ones():
    assert set(draws(2_000, excluded=[4], top_k=100)) == {0, 1, 2, 3}


def test_rows_are_independent_of_number_of_rows():
    scores = torch.tensor([PROBABILITIES] * 4).log()
    together = SymbolSampler(SamplingConfig(seed=5), 4)
    alone = SymbolSampler(SamplingConfig(seed=5), 2)
    rows = [together.draw(scores) for _ in range(20)]
    assert [row[:2] for row in rows] == [alone.draw(scores[:2]) for _ in range(20)]
    assert len({tuple(column) for column in zip(*rows, strict=True)}) == 4


def test_draw_rejects_nan_and_model_without_symbols():
    sampler = SymbolSampler(SamplingConfig(), 1, [0])
    with pytest.raises(InputError, match="NaN"):
        sampler.draw(torch.full((1, 3), torch.nan))
    with pytest.raises(InputError, match="no symbol but <UNK>"):
        sampler.draw(torch.zeros(1, 1))


def test_draw_does_not_change_log_probabilities():
    scores = torch.tensor([PROBABILITIES], dtype=torch.float64).log()
    before = scores.clone()
    SymbolSampler(SamplingConfig(), 1, [0]).draw(scores)
    assert torch.equal(scores, before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.5}, "temperature must be 0 or more"),
        ({"temperature": float("nan")}, "temperature must be 0 or more"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.1}, "top_p must be above 0"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"length": -1}, "length must be 0 or more"),
        ({"stop": ""}, "stop must not be empty"),
    ],
)
def test_config_rejects_invalid_values(options, message):
    with pytest.raises(ConfigError, match=message):
        SamplingConfig(**options)
