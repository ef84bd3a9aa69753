"""Tests that compare the native character convolutions with the reference."""

import pytest
import torch

from elmo.kernels import characters_native, characters_reference, native_ffi
from elmo.kernels.native_kernels import NativeKernels
from elmo.kernels.weight_snapshot import WeightSnapshot

# In every precision: the convolutions are computed in float32 in all of them.
TOLERANCE = 1e-6


def convolve_and_pool(characters, table, weights, biases):
    snapshot = WeightSnapshot([*weights, *biases])
    return characters_native.convolve_and_pool(characters, table, weights, biases, snapshot)


def draw(n_words, length, dim, filters):
    """Return random words of all lengths, padded with the same character, and random filters."""
    generator = torch.Generator().manual_seed(n_words)
    characters = torch.randint(1, 30, (n_words, length), generator=generator)
    lengths = torch.randint(0, length + 1, (n_words, 1), generator=generator)
    characters[torch.arange(length) >= lengths] = 7
    table = torch.randn(30, dim, generator=generator)
    weights = [torch.randn(n, dim, width, generator=generator) for width, n in filters]
    biases = [torch.randn(n, generator=generator) for _, n in filters]
    return characters, table, weights, biases


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    ("n_words", "length", "dim", "filters"),
    [
        (1, 3, 16, [(1, 2), (3, 5)]),
        (70, 50, 16, [(1, 32), (2, 32), (3, 64), (7, 33)]),
        (33, 12, 48, [(4, 129)]),
        (2, 300, 16, [(5, 40)]),
    ],
)
def test_native_character_convolutions_match_reference(
    precisions, n_words, length, dim, filters, n_threads, monkeypatch
):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: n_threads)
    args = draw(n_words, length, dim, filters)
    with torch.inference_mode():
        expected = characters_reference.convolve_and_pool(*args)
        assert characters_native.can_run(*args[:3])
        actual = convolve_and_pool(*args)
        assert actual.shape == expected.shape
        assert (actual - expected).norm() <= TOLERANCE * expected.norm()
        for precision in precisions:
            kernels = NativeKernels(WeightSnapshot([*args[2], *args[3]]), precision)
            assert torch.equal(actual, kernels.convolve_and_pool(*args))


def test_character_vector_of_a_word_does_not_depend_on_other_words(precisions):
    characters, *rest = draw(70, 20, 16, [(2, 40), (3, 40)])
    with torch.inference_mode():
        whole = convolve_and_pool(characters, *rest)
        assert torch.equal(convolve_and_pool(characters[33:35], *rest), whole[33:35])


def test_native_convolutions_propagate_nan(precisions):
    characters, table, weights, biases = draw(9, 6, 16, [(2, 8)])
    weights[0][3] = float("nan")
    with torch.inference_mode():
        actual = convolve_and_pool(characters, table, weights, biases)
    assert actual[:, 3].isnan().all()
    assert not actual[:, :3].isnan().any()


def test_native_convolutions_require_inference_mode_and_supported_shapes(precisions):
    characters, table, weights, _ = draw(9, 6, 16, [(2, 8)])
    assert not characters_native.can_run(characters, table, weights)
    with torch.inference_mode():
        assert characters_native.can_run(characters, table, weights)
        assert not characters_native.can_run(characters[:0], table, weights)
        assert not characters_native.can_run(characters[:, :1], table, weights)
        assert not characters_native.can_run(characters, table[:, :5], weights)
        assert not characters_native.can_run(characters, table.double(), weights)
        assert not characters_native.can_run(characters + 30, table, weights)
        assert not characters_native.can_run(characters - 30, table, weights)


def test_native_convolutions_accept_int32_and_transposed_character_ids(precisions):
    characters, *rest = draw(9, 6, 16, [(2, 8)])
    with torch.inference_mode():
        expected = convolve_and_pool(characters, *rest)
        assert torch.equal(convolve_and_pool(characters.int(), *rest), expected)
        transposed = characters.t().contiguous().t()
        assert torch.equal(convolve_and_pool(transposed, *rest), expected)


def test_unpadded_and_single_character_words_match_reference(precisions):
    _, *rest = draw(3, 9, 16, [(1, 3), (4, 70)])
    characters = torch.tensor([[5, 6, 7, 8, 9, 8, 7, 6, 5], [3] * 9, [3] * 8 + [4]])
    with torch.inference_mode():
        expected = characters_reference.convolve_and_pool(characters, *rest)
        actual = convolve_and_pool(characters, *rest)
    assert (actual - expected).norm() <= TOLERANCE * expected.norm()


def test_native_convolutions_ignore_previous_contents_of_scratch_memory(precisions):
    """The padding of rows in scratch memory must not affect the result."""
    characters, *rest = draw(5, 9, 16, [(1, 32), (3, 32), (5, 32)])
    with torch.inference_mode():
        expected = convolve_and_pool(characters, *rest)
        assert not expected.isnan().any()
        for memory in native_ffi.scratch.buffers.values():
            memory.fill_(255)
        assert torch.equal(convolve_and_pool(characters, *rest), expected)


@pytest.mark.parametrize("width", [0, 1, 2])
@pytest.mark.parametrize("parameter", ["weights", "biases"])
def test_native_convolutions_repack_filters_after_a_change(precisions, parameter, width):
    characters, table, weights, biases = draw(9, 6, 16, [(1, 8), (2, 8), (3, 70)])
    filters = {"weights": weights, "biases": biases}
    snapshot = WeightSnapshot([*weights, *biases])
    with torch.inference_mode():
        NativeKernels(snapshot, "float32").convolve_and_pool(characters, table, **filters)
        filters[parameter][width].mul_(2).add_(1)
        expected = characters_reference.convolve_and_pool(characters, table, **filters)
        kernels = NativeKernels(snapshot.updated([*weights, *biases]), "float32")
        actual = kernels.convolve_and_pool(characters, table, **filters)
    assert (actual - expected).norm() <= TOLERANCE * expected.norm()
