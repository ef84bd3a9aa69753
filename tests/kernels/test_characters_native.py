"""Convolutions with their maximum in C: the reference's values."""

import pytest
import torch

from elmo.kernels import characters_native, characters_reference, dispatch, native_ffi
from elmo.kernels.compute_precision import computing_in

# In every arithmetic: it is float32 in all of them.
TOLERANCE = 1e-6


def draw(n_words, length, dim, filters):
    """Draw words of all lengths, padded with one character, and filters."""
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
def test_it_is_the_reference(arithmetics, n_words, length, dim, filters, n_threads, monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: n_threads)
    given = draw(n_words, length, dim, filters)
    with torch.inference_mode():
        expected = characters_reference.convolve_and_pool(*given)
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                assert characters_native.can_run(*given[:3])
                found = characters_native.convolve_and_pool(*given)
                assert torch.equal(found, dispatch.convolve_and_pool(*given))
            assert found.shape == expected.shape
            assert (found - expected).norm() <= TOLERANCE * expected.norm()


def test_a_word_depends_on_itself_alone(arithmetics):
    characters, *rest = draw(70, 20, 16, [(2, 40), (3, 40)])
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                whole = characters_native.convolve_and_pool(characters, *rest)
                part = characters_native.convolve_and_pool(characters[33:35], *rest)
            assert torch.equal(part, whole[33:35])


def test_what_is_no_number_stays_none(arithmetics):
    characters, table, weights, biases = draw(9, 6, 16, [(2, 8)])
    weights[0][3] = float("nan")
    with torch.inference_mode():
        found = characters_native.convolve_and_pool(characters, table, weights, biases)
    assert found[:, 3].isnan().all()
    assert not found[:, :3].isnan().any()


def test_where_it_runs(arithmetics):
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


def test_characters_of_another_type_or_order(arithmetics):
    characters, *rest = draw(9, 6, 16, [(2, 8)])
    with torch.inference_mode():
        expected = characters_native.convolve_and_pool(characters, *rest)
        assert torch.equal(characters_native.convolve_and_pool(characters.int(), *rest), expected)
        turned = characters.t().contiguous().t()
        assert torch.equal(characters_native.convolve_and_pool(turned, *rest), expected)


def test_a_word_without_padding_and_one_of_a_single_character(arithmetics):
    _, *rest = draw(3, 9, 16, [(1, 3), (4, 70)])
    characters = torch.tensor([[5, 6, 7, 8, 9, 8, 7, 6, 5], [3] * 9, [3] * 8 + [4]])
    with torch.inference_mode():
        expected = characters_reference.convolve_and_pool(characters, *rest)
        found = characters_native.convolve_and_pool(characters, *rest)
    assert (found - expected).norm() <= TOLERANCE * expected.norm()


def test_memory_that_was_used_before(arithmetics):
    """Rows are filled up: what lies there must not be seen."""
    characters, *rest = draw(5, 9, 16, [(1, 32), (3, 32), (5, 32)])
    with torch.inference_mode():
        for arithmetic in arithmetics:
            with computing_in(arithmetic):
                expected = characters_native.convolve_and_pool(characters, *rest)
                assert not expected.isnan().any()
                for memory in native_ffi.room.named.values():
                    memory.fill_(255)
                assert torch.equal(characters_native.convolve_and_pool(characters, *rest), expected)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("which", ["weights", "biases"])
def test_filters_that_change_are_packed_anew(arithmetics, which, number):
    characters, table, weights, biases = draw(9, 6, 16, [(1, 8), (2, 8), (3, 70)])
    given = {"weights": weights, "biases": biases}
    with torch.inference_mode():
        before = characters_native.convolve_and_pool(characters, table, **given)
        given[which][number].mul_(2).add_(1)
        expected = characters_reference.convolve_and_pool(characters, table, **given)
        found = characters_native.convolve_and_pool(characters, table, **given)
    assert not torch.equal(found, before)
    assert (found - expected).norm() <= TOLERANCE * expected.norm()
