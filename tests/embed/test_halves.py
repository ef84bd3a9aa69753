"""Tests of half precision: NumPy's rounding to the bit, and no number that became infinite."""

import numpy as np
import pytest

from elmo.embed import halves
from elmo.embed.halves import in_half


def test_numbers_are_rounded_as_numpy_rounds_them():
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32)
    numbers = bits.view(np.float32)
    numbers = numbers[np.abs(numbers) < 65520]  # drops what is no number too
    edges = np.float32([0.0, -0.0, 65504, -65519.99, 2**-24, 2**-25, 1.5 * 2**-24, 1e-45])
    numbers = np.concatenate([numbers, edges])
    assert in_half(numbers).tobytes() == numbers.astype(np.float16).tobytes()


@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4), (1, 1), (3, 5, 7)])
def test_shapes_stay(shape):
    found = in_half(np.ones(shape, np.float32))
    assert found.shape == shape
    assert found.dtype == np.float16
    assert (found == 1).all()


@pytest.mark.parametrize("place", [0, 9, 10, 24])
@pytest.mark.parametrize("value", [65520, -1e9, np.inf])
def test_what_does_not_fit(monkeypatch, place, value):
    monkeypatch.setattr(halves, "PIECE", 10)
    numbers = np.zeros(25, np.float32)
    numbers[place] = value
    with pytest.raises(OverflowError):
        in_half(numbers.reshape(5, 5))


def test_what_is_no_number_is_not_too_large():
    assert np.isnan(in_half(np.float32([np.nan, 1]))).tolist() == [True, False]
