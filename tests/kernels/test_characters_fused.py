"""Convolutions with their maximum: values and gradients, on a GPU or interpreted."""

import pytest
import torch
from triton_device import DEVICE, IS_INTERPRETED, KINDS

from elmo.kernels import characters_fused, characters_reference

pytestmark = pytest.mark.gpu

TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def draw(n_words, length, dim, filters, seed=0):
    """Draw words of all lengths, padded with one character, and filters."""
    generator = torch.Generator().manual_seed(seed)
    n_characters = 30
    characters = torch.randint(1, n_characters, (n_words, length), generator=generator)
    lengths = torch.randint(0, length + 1, (n_words, 1), generator=generator)
    characters[torch.arange(length) >= lengths] = 7
    table = torch.randn(n_characters, dim, generator=generator)
    table[0] = 0
    weights = [torch.randn(n, dim, width, generator=generator) for width, n in filters]
    biases = [torch.randn(n, generator=generator) for _, n in filters]
    return characters, table, weights, biases


def outcome(kernel, given, dtype):
    characters, table, weights, biases = given
    leaves = [value.to(DEVICE, dtype).requires_grad_() for value in (table, *weights, *biases)]
    n = len(weights)
    out = kernel(characters.to(DEVICE), leaves[0], leaves[1 : n + 1], leaves[n + 1 :])
    # What comes from above is a plain number for each word, whatever the precision.
    upstream = torch.linspace(-1, 2, len(out), device=DEVICE, dtype=dtype)[:, None]
    found = [out, *torch.autograd.grad((out * upstream).sum(), leaves)]
    return [value.detach().double().cpu() for value in found]


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(
    ("n_words", "length", "dim", "filters"),
    [
        (1, 3, 4, [(1, 2), (3, 5)]),
        (70, 9, 16, [(1, 3), (2, 70), (7, 20)]),
        (33, 12, 5, [(4, 129)]),
    ],
)
def test_it_is_the_reference(dtype, n_words, length, dim, filters):
    given = draw(n_words, length, dim, filters)
    found = outcome(characters_fused.convolve_and_pool, given, dtype)
    expected = outcome(characters_reference.convolve_and_pool, given, torch.float64)
    for ours, true in zip(found, expected, strict=True):
        assert ours.shape == true.shape
        assert (ours - true).norm() <= TOLERANCE[dtype] * true.norm()


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_it_is_the_same_each_time(dtype):
    # As many filters as for PTB: where windows lie over each other, threads could meet.
    filters = [(1, 50), (2, 100), (3, 150), (4, 200), (5, 200), (6, 200), (7, 200)]
    n_words, n_times = (5, 2) if IS_INTERPRETED else (500, 50)
    characters, table, weights, biases = draw(n_words, 21, 16, filters)
    # Rounded for both, so that they find the maximum in the same place.
    table = table.to(dtype)
    weights, biases = [w.to(dtype) for w in weights], [b.to(dtype) for b in biases]
    given = (characters, table, weights, biases)
    found = outcome(characters_fused.convolve_and_pool, given, dtype)
    expected = outcome(characters_reference.convolve_and_pool, given, torch.float64)
    for ours, true in zip(found, expected, strict=True):
        assert (ours - true).norm() <= TOLERANCE[dtype] * true.norm()
    for _ in range(n_times - 1):
        again = outcome(characters_fused.convolve_and_pool, given, dtype)
        assert all(torch.equal(one, other) for one, other in zip(again, found, strict=True))


def test_a_program_has_several_blocks_of_words(monkeypatch):
    given = draw(70, 9, 16, [(1, 3), (2, 70)])
    expected = outcome(characters_fused.convolve_and_pool, given, torch.float32)
    monkeypatch.setattr(characters_fused, "PROGRAMS", 1)
    monkeypatch.setattr(characters_fused, "CHARACTERS", 16)
    found = outcome(characters_fused.convolve_and_pool, given, torch.float32)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)


def test_the_mask_is_not_trained():
    characters, table, weights, biases = draw(9, 6, 4, [(2, 8)])
    characters[:, 1] = 0
    found = outcome(
        characters_fused.convolve_and_pool, (characters, table, weights, biases), torch.float32
    )
    assert not found[1][0].any()
    assert found[1][1:].any()


def test_where_it_runs():
    characters, table = torch.zeros(1, 5, dtype=torch.long), torch.zeros(3, 2)
    weights = [torch.zeros(4, 2, 3), torch.zeros(4, 2, 1)]
    assert not characters_fused.can_run(characters, table.bfloat16(), weights)
    if not IS_INTERPRETED:
        characters, table = characters.cuda(), table.cuda()
        assert characters_fused.can_run(characters, table.bfloat16(), weights)
        assert not characters_fused.can_run(characters, table, weights)
        # As wide as ELMoForManyLangs has them: more than a tile holds.
        wide = [torch.zeros(4, 50, 7)]
        assert not characters_fused.can_run(characters, table.bfloat16(), wide)
        # Filters longer than words, characters too broad for a tile, and no words.
        assert not characters_fused.can_run(characters[:, :2], table.bfloat16(), weights)
        broad = table.bfloat16().expand(-1, 2).repeat(1, 80)
        assert not characters_fused.can_run(characters, broad, [torch.zeros(4, 160, 1)])
        assert not characters_fused.can_run(characters[:0], table.bfloat16(), weights)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert characters_fused.can_run(characters, table, weights)


def test_any_layout_of_characters():
    characters, table, weights, biases = draw(70, 9, 16, [(2, 20)])
    expected = outcome(
        characters_fused.convolve_and_pool, (characters, table, weights, biases), torch.float32
    )
    other = torch.cat([characters.int(), characters.int()], dim=1)[:, :9]
    found = outcome(
        characters_fused.convolve_and_pool, (other, table, weights, biases), torch.float32
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_what_is_no_number_stays_none():
    characters, table, weights, biases = draw(9, 6, 4, [(2, 8)])
    weights[0][3] = float("nan")
    found = outcome(
        characters_fused.convolve_and_pool, (characters, table, weights, biases), torch.float32
    )[0]
    assert found[:, 3].isnan().all()
    assert not found[:, :3].isnan().any()
