"""Tests of the biLM: distinct rows, sentence order, boundary tokens and direction of context."""

import dataclasses
import itertools

import pytest
import torch
from conftest import TINY, random_model

from elmo.embed.embedder import ELMo
from elmo.model.bilm import BiLM, BiLMOutput, distinct_rows, without_boundaries
from elmo.model.initialization import initialize
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork


@pytest.fixture
def bilm():
    """Return a tiny biLM with random, nonzero biases."""
    network = ELMoNetwork(config=TINY)
    initialize(network, 0)
    generator = torch.Generator().manual_seed(1)
    for name, parameter in network.bilm.named_parameters():
        if "lstm" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) / 2
    return network.bilm.eval()


def draw_batch(lengths, n_distinct=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(1, 262, (n_distinct, 12), generator=generator)
    index = torch.randint(n_distinct, (len(lengths), max(lengths)), generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return rows, index, mask


def draw_state(batch, seed=3):
    generator = torch.Generator().manual_seed(seed)
    zeros = LSTMState.zeros(TINY.lstm, batch)
    return LSTMState(
        torch.randn(zeros.h.shape, generator=generator),
        torch.randn(zeros.c.shape, generator=generator),
    )


def test_distinct_rows_lists_each_row_once():
    ids = torch.tensor([[[3, 1], [2, 2], [3, 1]], [[2, 2], [0, 0], [0, 0]]])
    rows, index = distinct_rows(ids)
    assert len(rows) == 3
    assert len(set(map(tuple, rows.tolist()))) == 3
    assert index.shape == (2, 3)
    assert torch.equal(rows[index], ids)


def test_distinct_rows_accepts_empty_batch():
    rows, index = distinct_rows(torch.zeros(0, 2, 5, dtype=torch.long))
    assert rows.shape == (0, 5)
    assert index.shape == (0, 2)


def test_without_boundaries_drops_first_and_last_real_position():
    # The value at each position is sentence * 10 + position.
    layers = torch.tensor([[1.0, 2, 3, 4, 5], [11, 12, 13, 14, 15], [21, 22, 23, 24, 25]])
    mask = torch.arange(5) < torch.tensor([5, 3, 2])[:, None]
    layers = layers[None, :, :, None].expand(2, 3, 5, 4)
    words, words_mask = without_boundaries(layers, mask)
    assert words.shape == (2, 3, 3, 4)
    assert words[1, :, :, 3].tolist() == [[2, 3, 4], [12, 0, 0], [0, 0, 0]]
    assert words_mask.tolist() == [[True] * 3, [True, False, False], [False] * 3]


def test_without_boundaries_of_empty_sentences_returns_no_position():
    words, mask = without_boundaries(torch.ones(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    assert words.shape == (2, 0, 4)
    assert mask.shape == (2, 0)


@pytest.mark.parametrize("lengths", [*itertools.permutations((2, 4, 7)), (3, 3, 3, 3)])
def test_bilm_accepts_lengths_in_any_order(bilm, lengths):
    rows, index, mask = draw_batch(lengths)
    state = draw_state(len(lengths))
    by_mask = bilm(rows, index, mask, state)
    by_lengths = bilm(rows, index, mask, state, lengths)
    torch.testing.assert_close(by_lengths.layers, by_mask.layers, rtol=0, atol=1e-5)
    torch.testing.assert_close(by_lengths.state.h, by_mask.state.h, rtol=0, atol=1e-5)
    torch.testing.assert_close(by_lengths.state.c, by_mask.state.c, rtol=0, atol=1e-5)
    assert torch.equal(by_lengths.mask, mask)
    assert not by_lengths.layers[:, ~mask].any()


@pytest.mark.parametrize("lengths", [None, (6, 3), (3, 6), (0, 6)])
def test_extra_padding_beyond_longest_row_does_not_change_layers(bilm, lengths):
    real = lengths or (6, 3)
    rows, index, mask = draw_batch(real)
    narrow = bilm(rows, index, mask)
    wide = bilm(
        rows,
        torch.nn.functional.pad(index, (0, 3)),
        torch.nn.functional.pad(mask, (0, 3)),
        lengths=lengths,
    )
    torch.testing.assert_close(wide.layers[:, :, :6], narrow.layers, rtol=0, atol=1e-5)
    torch.testing.assert_close(wide.state.h, narrow.state.h, rtol=0, atol=1e-5)
    torch.testing.assert_close(wide.state.c, narrow.state.c, rtol=0, atol=1e-5)
    assert not wide.layers[:, :, 6:].any()


def test_rows_of_equal_length_can_have_extra_padding(bilm):
    rows, index, mask = draw_batch((4, 4))
    narrow = bilm(rows, index, mask, lengths=[4, 4])
    pad = torch.nn.functional.pad
    wide = bilm(rows, pad(index, (0, 2)), pad(mask, (0, 2)), lengths=[4, 4])
    torch.testing.assert_close(wide.layers[:, :, :4], narrow.layers, rtol=0, atol=1e-5)
    torch.testing.assert_close(wide.state.c, narrow.state.c, rtol=0, atol=1e-5)


def test_bilm_without_mask_assumes_no_padding(bilm):
    rows, index, mask = draw_batch((5, 5, 5))
    assert torch.equal(bilm(rows, index).mask, mask)
    torch.testing.assert_close(bilm(rows, index).layers, bilm(rows, index, mask).layers)


def test_row_without_tokens_leaves_its_state_unchanged(bilm):
    rows, index, mask = draw_batch((4, 4, 4))
    mask[1] = False
    state = draw_state(3)
    for lengths in (None, [4, 0, 4]):
        output = bilm(rows, index, mask, state, lengths)
        assert torch.equal(output.state.h[:, :, 1], state.h[:, :, 1])
        assert torch.equal(output.state.c[:, :, 1], state.c[:, :, 1])
        assert not output.layers[:, 1].any()


@pytest.mark.parametrize("lengths", [None, []])
def test_bilm_accepts_empty_batch(bilm, lengths):
    rows, _, _ = draw_batch((3,))
    index = torch.zeros(0, 2, dtype=torch.long)
    output = bilm(rows, index, torch.ones(0, 2, dtype=torch.bool), lengths=lengths)
    assert output.layers.shape == (3, 0, 2, 16)
    assert output.state.batch == 0


def test_contextualize_accepts_precomputed_token_vectors(bilm):
    rows, index, mask = draw_batch((3, 6))
    state = draw_state(2)
    whole = bilm(rows, index, mask, state, [3, 6])
    parts = bilm.contextualize(bilm.encoder(rows), index, mask, state, [3, 6])
    assert torch.equal(whole.layers, parts.layers)
    assert torch.equal(whole.state.c, parts.state.c)


def test_layer_0_repeats_token_vector_for_both_directions(bilm):
    rows, index, mask = draw_batch((5, 5))
    layers = bilm(rows, index, mask).layers
    tokens = bilm.encoder(rows)[index]
    torch.testing.assert_close(layers[0], torch.cat([tokens, tokens], dim=2))


def test_each_direction_depends_only_on_tokens_it_has_read(bilm):
    rows, index, _ = draw_batch((6, 6), n_distinct=12)
    index = torch.arange(12).view(2, 6)
    before = bilm(rows, index).layers
    changed = rows.clone()
    changed[2] = (changed[2] % 200) + 5  # sentence 0, position 2
    after = bilm(changed, index).layers
    same = (before == after).all(dim=3)
    forward_same = (before[..., :8] == after[..., :8]).all(dim=3)
    backward_same = (before[..., 8:] == after[..., 8:]).all(dim=3)
    assert same[:, 1].all()
    for layer in (1, 2):
        assert forward_same[layer, 0].tolist() == [True, True, False, False, False, False]
        assert backward_same[layer, 0].tolist() == [False, False, False, True, True, True]
    assert same[0, 0].tolist() == [True, True, False, True, True, True]


def test_bilm_state_dict_round_trip_and_missing_key_error():
    bilm = ELMo(random_model()).network.bilm
    other = BiLM(config=TINY)
    other.load_state_dict({name: value.clone() for name, value in bilm.state_dict().items()})
    rows, index, mask = draw_batch((4, 2))
    with torch.no_grad():
        assert torch.equal(other(rows, index, mask).layers, bilm(rows, index, mask).layers)
    weights = {n: v for n, v in bilm.state_dict().items() if "backward_lstm.layers.1" not in n}
    with pytest.raises(RuntimeError, match=r"Missing key.*backward_lstm\.layers\.1"):
        other.load_state_dict(weights)


def test_bilm_keeps_no_state_between_calls(bilm):
    rows, index, mask = draw_batch((4, 2))
    first = bilm(rows, index, mask).layers
    bilm(rows, index, mask, draw_state(2))
    assert torch.equal(bilm(rows, index, mask).layers, first)


def test_bilm_without_residual_option_has_no_residual_connection(bilm):
    lstm = dataclasses.replace(TINY.lstm, residual=False)
    plain = BiLM(config=dataclasses.replace(TINY, lstm=lstm))
    plain.load_state_dict(bilm.state_dict())
    rows, index, mask = draw_batch((4, 4))
    with_residual, without = bilm(rows, index, mask).layers, plain(rows, index, mask).layers
    assert torch.equal(with_residual[:2], without[:2])
    torch.testing.assert_close(with_residual[2] - without[2], with_residual[1])


@pytest.mark.parametrize("lengths", [[6, 5, 3, 2], [3, 6, 2, 5], [2, 2]])
@pytest.mark.parametrize("lengths_known", [False, True])
def test_words_only_output_equals_full_output_without_boundaries(bilm, lengths, lengths_known):
    """No word vector depends on the boundary token that a direction would read last."""
    rows, index, mask = draw_batch(lengths)
    host_lengths = lengths if lengths_known else None
    with torch.no_grad():
        whole = bilm(rows, index, mask, None, host_lengths)
        words = bilm(rows, index, mask, None, host_lengths, None, True)
        average, average_mask = without_boundaries(whole.average(), whole.mask)
        layers, _ = without_boundaries(whole.layers, whole.mask)
    assert torch.equal(words.mask, average_mask)
    inside = words.mask
    torch.testing.assert_close(words.average()[inside], average[inside])
    torch.testing.assert_close(words.layers[:, inside], layers[:, inside])
    assert bool((words.direction_pairs[0][0].transpose(0, 1)[~inside] == 0).all())


def test_layer_average_has_gradients():
    tensors = [torch.randn(4, 3, 8, requires_grad=True) for _ in range(5)]
    tokens, *outputs = tensors
    pairs = [(tokens, tokens), *zip(outputs[::2], outputs[1::2], strict=True)]
    average = BiLMOutput(
        pairs, torch.ones(3, 4, dtype=torch.bool), LSTMState(tokens, tokens)
    ).average()
    expected = torch.stack([torch.cat(pair, dim=2) for pair in pairs]).mean(dim=0).transpose(0, 1)
    torch.testing.assert_close(average, expected)
    weights = torch.randn_like(average)
    gradients = torch.autograd.grad((average * weights).sum(), tensors)
    expected_gradients = torch.autograd.grad((expected * weights).sum(), tensors)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)
