"""Tests that compare the fused character convolutions and their gradients with the reference."""

import pytest
import torch
from triton_device import DEVICE, DTYPES, IS_INTERPRETED

from elmo.kernels import characters_fused, characters_reference

pytestmark = pytest.mark.gpu

TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}


def draw(n_words, length, dim, filters, seed=0):
    """Return random words of all lengths, padded with the same character, and random filters."""
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


def maxima_and_gradients(kernel, args, dtype):
    characters, table, weights, biases = args
    leaves = [value.to(DEVICE, dtype).requires_grad_() for value in (table, *weights, *biases)]
    n = len(weights)
    out = kernel(characters.to(DEVICE), leaves[0], leaves[1 : n + 1], leaves[n + 1 :])
    # The upstream gradient is the same in every dtype.
    upstream = torch.linspace(-1, 2, len(out), device=DEVICE, dtype=dtype)[:, None]
    values = [out, *torch.autograd.grad((out * upstream).sum(), leaves)]
    return [value.detach().double().cpu() for value in values]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("n_words", "length", "dim", "filters"),
    [
        (1, 3, 4, [(1, 2), (3, 5)]),
        (70, 9, 16, [(1, 3), (2, 70), (7, 20)]),
        (33, 12, 5, [(4, 129)]),
    ],
)
def test_fused_character_convolutions_match_reference(dtype, n_words, length, dim, filters):
    args = draw(n_words, length, dim, filters)
    actual = maxima_and_gradients(characters_fused.convolve_and_pool, args, dtype)
    expected = maxima_and_gradients(characters_reference.convolve_and_pool, args, torch.float64)
    for value, true in zip(actual, expected, strict=True):
        assert value.shape == true.shape
        assert (value - true).norm() <= TOLERANCE[dtype] * true.norm()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fused_character_convolutions_are_deterministic(dtype):
    # As many filters as for PTB: windows overlap, so a race between threads would be possible.
    filters = [(1, 50), (2, 100), (3, 150), (4, 200), (5, 200), (6, 200), (7, 200)]
    n_words, n_times = (5, 2) if IS_INTERPRETED else (500, 50)
    characters, table, weights, biases = draw(n_words, 21, 16, filters)
    # Rounded for both, so that the maxima are at the same positions.
    table = table.to(dtype)
    weights, biases = [w.to(dtype) for w in weights], [b.to(dtype) for b in biases]
    args = (characters, table, weights, biases)
    actual = maxima_and_gradients(characters_fused.convolve_and_pool, args, dtype)
    expected = maxima_and_gradients(characters_reference.convolve_and_pool, args, torch.float64)
    for value, true in zip(actual, expected, strict=True):
        assert (value - true).norm() <= TOLERANCE[dtype] * true.norm()
    for _ in range(n_times - 1):
        again = maxima_and_gradients(characters_fused.convolve_and_pool, args, dtype)
        assert all(torch.equal(value, first) for value, first in zip(again, actual, strict=True))


def test_convolutions_with_several_word_blocks_per_program_match_one_block(monkeypatch):
    args = draw(70, 9, 16, [(1, 3), (2, 70)])
    expected = maxima_and_gradients(characters_fused.convolve_and_pool, args, torch.float32)
    monkeypatch.setattr(characters_fused, "PROGRAMS", 1)
    monkeypatch.setattr(characters_fused, "CHARACTERS", 16)
    actual = maxima_and_gradients(characters_fused.convolve_and_pool, args, torch.float32)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-4)


def test_mask_character_gets_no_gradient_from_fused_convolutions():
    characters, table, weights, biases = draw(9, 6, 4, [(2, 8)])
    characters[:, 1] = 0
    actual = maxima_and_gradients(
        characters_fused.convolve_and_pool, (characters, table, weights, biases), torch.float32
    )
    assert not actual[1][0].any()
    assert actual[1][1:].any()


def test_fused_convolutions_require_half_precision_gpu_and_supported_shapes():
    characters, table = torch.zeros(1, 5, dtype=torch.long), torch.zeros(3, 2)
    weights = [torch.zeros(4, 2, 3), torch.zeros(4, 2, 1)]
    assert not characters_fused.can_run(characters, table.bfloat16(), weights)
    if not IS_INTERPRETED:
        characters, table = characters.cuda(), table.cuda()
        assert characters_fused.can_run(characters, table.bfloat16(), weights)
        assert not characters_fused.can_run(characters, table, weights)
        # Filters as large as those of ELMoForManyLangs: more than a tile holds.
        wide = [torch.zeros(4, 50, 7)]
        assert not characters_fused.can_run(characters, table.bfloat16(), wide)
        # Filters wider than the words, characters too wide for a tile, and no words.
        assert not characters_fused.can_run(characters[:, :2], table.bfloat16(), weights)
        wide_table = table.bfloat16().expand(-1, 2).repeat(1, 80)
        assert not characters_fused.can_run(characters, wide_table, [torch.zeros(4, 160, 1)])
        assert not characters_fused.can_run(characters[:0], table.bfloat16(), weights)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert characters_fused.can_run(characters, table, weights)


def test_fused_convolutions_accept_int32_and_strided_character_ids():
    characters, table, weights, biases = draw(70, 9, 16, [(2, 20)])
    expected = maxima_and_gradients(
        characters_fused.convolve_and_pool, (characters, table, weights, biases), torch.float32
    )
    other = torch.cat([characters.int(), characters.int()], dim=1)[:, :9]
    actual = maxima_and_gradients(
        characters_fused.convolve_and_pool, (other, table, weights, biases), torch.float32
    )
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_fused_convolutions_propagate_nan():
    characters, table, weights, biases = draw(9, 6, 4, [(2, 8)])
    weights[0][3] = float("nan")
    actual = maxima_and_gradients(
        characters_fused.convolve_and_pool, (characters, table, weights, biases), torch.float32
    )[0]
    assert actual[:, 3].isnan().all()
    assert not actual[:, :3].isnan().any()
