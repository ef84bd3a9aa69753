"""Tests of the layer mix: weights, gamma, layer normalization and penalty."""

import numpy as np
import pytest
import torch
from reference import normalized

from elmo.model.layer_mix import LayerMix, layer_norm, mix_layers


def draw_layers(shape=(3, 4, 6, 5), seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 2 + 1


MASK = torch.arange(6) < torch.tensor([6, 2, 4, 3])[:, None]


def test_untrained_mix_is_mean_of_layers():
    layers = draw_layers()
    mix = LayerMix(n_layers=3)
    torch.testing.assert_close(mix(layers), layers.mean(dim=0))
    assert not mix.is_trained()


def test_mix_applies_softmax_and_gamma():
    layers = draw_layers()
    mix = LayerMix(n_layers=3, initial=[0.1, 0.3, 0.5])
    mix.gamma.data.fill_(1.1)
    softmax_weights = np.exp([0.1, 0.3, 0.5]) / np.exp([0.1, 0.3, 0.5]).sum()
    expected = 1.1 * np.tensordot(softmax_weights, layers.double().numpy(), axes=1)
    np.testing.assert_allclose(mix(layers).detach().numpy(), expected, rtol=0, atol=1e-6)
    assert mix.is_trained()


def test_mix_with_changed_gamma_counts_as_trained():
    mix = LayerMix(n_layers=3)
    mix.gamma.data.fill_(0.5)
    assert mix.is_trained()


@pytest.mark.parametrize("selected", [0, 1, 2])
def test_large_negative_mix_weights_select_one_layer(selected):
    layers = draw_layers()
    initial = [-9e10] * 3
    initial[selected] = 1.0
    assert torch.equal(LayerMix(n_layers=3, initial=initial)(layers), layers[selected])


def test_top_only_mix_scales_top_layer_and_trains_only_gamma():
    layers = draw_layers()
    mix = LayerMix(n_layers=3, initial=[5.0, 1.0, 0.0], top_only=True)
    mix.gamma.data.fill_(2.0)
    torch.testing.assert_close(mix(layers), 2 * layers[-1])
    assert mix.l2().item() == 0
    mix(layers).sum().backward()
    assert mix.weights.grad is None
    assert mix.gamma.grad.item() == pytest.approx(layers[-1].sum().item(), rel=1e-5)
    assert not mix.weights.requires_grad


def test_fixed_mix_weights_are_not_trainable():
    mix = LayerMix(n_layers=2, initial=[1.0, 2.0], trainable=False)
    assert not mix.weights.requires_grad
    assert not mix.gamma.requires_grad


def test_mix_penalty_is_sum_of_squared_weights():
    mix = LayerMix(n_layers=3, initial=[0.5, -1.0, 2.0])
    assert mix.l2().item() == pytest.approx(5.25)
    mix.l2().backward()
    assert mix.weights.grad.tolist() == [1.0, -2.0, 4.0]
    assert mix.gamma.grad is None


def test_mix_layers_passes_gradcheck():
    weights = torch.tensor([0.3, -0.2, 1.0]).double().requires_grad_()
    gamma = torch.tensor([0.7]).double().requires_grad_()
    layers = draw_layers((3, 2, 2, 3)).double().requires_grad_()
    assert torch.autograd.gradcheck(mix_layers, (layers, weights, gamma))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_layer_norm_uses_one_mean_and_variance_per_layer(dtype):
    layers = draw_layers().to(dtype)
    normed = layer_norm(layers, MASK, 1e-13)
    assert normed.dtype == dtype
    expected = normalized(layers.double().numpy(), MASK.numpy(), 1e-13)
    np.testing.assert_allclose(normed.numpy(), expected, rtol=0, atol=1e-5)
    real = normed.double()[:, MASK]
    np.testing.assert_allclose(real.mean(dim=(1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(real.var(dim=(1, 2), correction=0), 1, atol=1e-6)
    # Padding is normalized with the same statistics but does not contribute to them.
    assert normed[:, ~MASK].any()
    other = torch.where(MASK[None, :, :, None], layers, torch.full_like(layers, 1e3))
    assert torch.equal(layer_norm(other, MASK, 1e-13)[:, MASK], normed[:, MASK])


def test_layer_norm_does_not_normalize_each_token():
    normed = layer_norm(draw_layers(), MASK, 1e-13)
    assert normed[0, 0].mean(dim=1).abs().max() > 0.1


def test_layer_norm_adds_epsilon_to_variance():
    layers = torch.tensor([1.0, -1.0]).double().view(1, 1, 1, 2)
    normed = layer_norm(layers, torch.ones(1, 1, dtype=torch.bool), 3.0)
    assert normed.flatten().tolist() == pytest.approx([0.5, -0.5])


def test_layer_norm_of_float16_does_not_overflow():
    layers = draw_layers((2, 10, 20, 512))
    mask = torch.ones(10, 20, dtype=torch.bool)
    normed = layer_norm(layers.half(), mask, 1e-13)
    assert normed.dtype == torch.float16
    expected = layer_norm(layers, mask, 1e-13)
    torch.testing.assert_close(normed.float(), expected, rtol=0, atol=5e-3)


def test_layer_norm_without_real_positions_is_finite():
    layers = draw_layers().requires_grad_()
    normed = layer_norm(layers, torch.zeros(4, 6, dtype=torch.bool), 1e-12)
    assert normed.isfinite().all()
    (gradient,) = torch.autograd.grad((normed * 0).sum(), layers)
    assert not gradient.any()
