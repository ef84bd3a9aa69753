"""Tests of `docs/make_packing_picture.py`."""

import random
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
sys.path.append(str(Path(__file__).parents[2] / "docs"))
from make_packing_picture import METHODS, Layer

PADDED = METHODS[0]


def random_lengths(n=50):
    rng = random.Random(3)
    return [rng.randint(1, 20) for _ in range(n)]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_batches_have_every_sentence_once(method):
    lengths = random_lengths()
    batches = method.batches(lengths, 8)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        rows = [lengths[i] for i in batch]
        if method.packs:
            assert rows == sorted(rows, reverse=True)


def test_packing_computes_real_positions_only():
    lengths = random_lengths()
    counts = [method.positions(lengths, 8) for method in METHODS]
    assert counts[2] == counts[3] == sum(lengths)
    assert counts[0] > counts[1] > counts[2]


def test_all_methods_return_the_same_states():
    generator = torch.Generator().manual_seed(1)
    sentences = [torch.randn(n, 5, generator=generator) for n in random_lengths()]
    layer = Layer(5, 6)
    expected = torch.cat([layer.last_states(PADDED, [sentence]) for sentence in sentences])
    for method in METHODS:
        states = layer.last_states(method, sentences, 8)
        torch.testing.assert_close(states, expected, atol=1e-5, rtol=1e-5)
