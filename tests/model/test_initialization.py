"""Tests that initial weights have the distributions of bilm-tf and depend only on the seed."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from elmo.config import EncoderConfig, LSTMConfig, MixConfig, ModelConfig, TextConfig
from elmo.model.initialization import bias_from_counts, initialize, initialize_softmax
from elmo.model.network import ELMoNetwork

CONFIG = ModelConfig(
    TextConfig(max_characters=12),
    EncoderConfig(character_dim=16, filters=((1, 32), (2, 32), (5, 64)), n_highway=2),
    LSTMConfig(cell_dim=96, projection_dim=40),
    MixConfig(n_mixes=2),
    n_softmax_words=300,
)


def initialized(config=CONFIG, seed=0):
    network = ELMoNetwork(config=config)
    initialize(network, seed)
    return network


def is_uniform(values, bound):
    """Whether values are uniformly distributed in [-bound, bound]."""
    values = values.detach().flatten()
    assert values.abs().max() <= bound
    assert values.abs().max() > 0.98 * bound
    assert abs(values.mean()) < 4 * bound / math.sqrt(3 * len(values))
    assert values.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.06)
    return True


def is_normal(values, deviation):
    """Whether values are normally distributed with mean 0 and this deviation, not truncated."""
    values = values.detach().flatten()
    assert values.std().item() == pytest.approx(deviation, rel=0.05)
    assert abs(values.mean()) < 4 * deviation / math.sqrt(len(values))
    assert values.abs().max() > 2.5 * deviation
    return True


def test_character_table_init_is_uniform_with_zero_padding_row():
    table = initialized().bilm.encoder.characters.embedding.weight
    assert is_uniform(table[1:], 1.0)
    assert not table[0].any()


def test_convolution_init_before_relu_is_uniform():
    for convolution in initialized().bilm.encoder.characters.convolutions:
        assert is_uniform(convolution.weight, 0.05)
        assert not convolution.bias.any()


def test_convolution_init_before_tanh_is_normal():
    encoder = dataclasses.replace(CONFIG.encoder, activation="tanh")
    network = initialized(dataclasses.replace(CONFIG, encoder=encoder))
    for width, convolution in zip(
        (1, 2, 5), network.bilm.encoder.characters.convolutions, strict=True
    ):
        assert is_normal(convolution.weight, 1 / math.sqrt(width * 16))
        assert not convolution.bias.any()


def test_highway_gates_initially_pass_input_through():
    for highway in initialized().bilm.encoder.characters.highway:
        assert is_normal(highway.linear.weight, 1 / math.sqrt(128))
        transform, gate = highway.linear.bias.chunk(2)
        assert not transform.any()
        assert (gate == -2).all()


def test_projection_and_softmax_init_is_normally_distributed():
    network = initialized()
    assert is_normal(network.bilm.encoder.projection.weight, 1 / math.sqrt(128))
    assert not network.bilm.encoder.projection.bias.any()
    assert is_normal(network.softmax.weight, 1 / math.sqrt(40))
    assert not network.softmax.bias.any()


def test_adaptive_softmax_init_is_normally_distributed_and_reproducible():
    config = dataclasses.replace(
        CONFIG,
        lstm=LSTMConfig(cell_dim=96, projection_dim=256),
        n_softmax_words=900,
        softmax_cutoffs=(300, 600),
    )
    network = initialized(config)
    assert is_normal(network.softmax.head.weight, 1 / math.sqrt(256))
    for tail, width in zip(network.softmax.tail, (64, 16), strict=True):
        assert is_normal(tail[0].weight, 1 / math.sqrt(256))
        assert is_normal(tail[1].weight, 1 / math.sqrt(width))
    again = initialized(config).softmax.state_dict()
    for name, value in network.softmax.state_dict().items():
        assert torch.equal(value, again[name]), name


def test_initialize_softmax_resets_weight_and_bias():
    softmax = torch.nn.Linear(40, 300)
    torch.nn.init.ones_(softmax.bias)
    initialize_softmax(softmax, torch.Generator().manual_seed(1))
    assert is_normal(softmax.weight, 1 / math.sqrt(40))
    assert not softmax.bias.any()


def test_lstm_init_uses_glorot_bound_of_joint_weight_matrix():
    bilm = initialized().bilm
    for layer in (*bilm.forward_lstm.layers, *bilm.backward_lstm.layers):
        # The bound is that of the joint (2P, 4C) matrix.
        assert is_uniform(layer.weight_ih, math.sqrt(6 / (80 + 384)))
        assert is_uniform(layer.weight_hh, math.sqrt(6 / (80 + 384)))
        assert is_uniform(layer.weight_hr, math.sqrt(6 / (96 + 40)))
        assert not layer.bias.any()


def test_word_table_init_bound_ignores_padding_row():
    encoder = EncoderConfig(n_characters=0, project=False, n_words=3, word_dim=3)
    config = ModelConfig(
        TextConfig(characters="none"), encoder, LSTMConfig(cell_dim=2, projection_dim=3)
    )
    tables = [initialized(config, seed).bilm.encoder.words.weight for seed in range(100)]
    assert is_uniform(torch.stack(tables)[:, 1:], math.sqrt(6 / (2 + 3)))
    assert not any(table[0].any() for table in tables)


def test_lstm_init_bound_without_projection():
    lstm = LSTMConfig(cell_dim=128, projection_dim=128)
    encoder = dataclasses.replace(CONFIG.encoder, project=False)
    bilm = initialized(dataclasses.replace(CONFIG, lstm=lstm, encoder=encoder)).bilm
    assert is_uniform(bilm.forward_lstm.layers[0].weight_ih, math.sqrt(6 / (256 + 512)))


def test_initialize_sets_every_weight_except_mixes():
    network = ELMoNetwork(config=CONFIG)
    for parameter in network.parameters():
        parameter.data.fill_(1000.0)
    initialize(network, 0)
    for name, parameter in network.named_parameters():
        touched = parameter.abs().max() < 1000
        assert touched != name.startswith("mixes."), name


def test_initial_weights_of_different_tensors_are_independent():
    weights = [value for value in initialized().state_dict().values() if value.any()]
    large = [value.flatten()[64:164] for value in weights if value.numel() > 200]
    large = [value for value in large if value.unique().numel() > 50]
    assert len(large) > 15
    for number, first in enumerate(large):
        assert not any(
            torch.corrcoef(torch.stack([first, second]))[0, 1].abs() > 0.6
            for second in large[number + 1 :]
        )


def test_same_seed_gives_same_initial_weights():
    torch.manual_seed(1)
    first = initialized(seed=7).state_dict()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again = initialized(seed=7)
    other = initialized(seed=8).state_dict()
    for name, value in again.state_dict().items():
        assert torch.equal(value, first[name]), name
    name = "bilm.backward_lstm.layers.1.weight_hh"
    assert not torch.equal(first[name], other[name])
    # `initialize` does not use the global generator.
    torch.set_rng_state(before)
    initialize(again, 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_bias_from_counts_is_smoothed_log_word_frequency():
    softmax = nn.Linear(3, 4)
    bias_from_counts(softmax, torch.tensor([10, 5, 0, 1]))
    probabilities = softmax.bias.detach().exp()
    assert probabilities.sum().item() == pytest.approx(1.0)
    torch.testing.assert_close(probabilities, torch.tensor([10.5, 5.5, 0.5, 1.5]) / 18)
    adaptive = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5])
    before = adaptive.state_dict()
    bias_from_counts(adaptive, torch.ones(20))
    assert all(torch.equal(before[name], value) for name, value in adaptive.state_dict().items())
