"""Mixing layers: weights, gamma, both programs' normalisation, the regulariser."""

import numpy as np
import pytest
import torch
from reference import normalized

from elmo.model.layer_mix import LayerMix, layer_norm, mix_layers


def draw_layers(shape=(3, 4, 6, 5), seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 2 + 1


MASK = torch.arange(6) < torch.tensor([6, 2, 4, 3])[:, None]


def test_untrained_mix_is_the_mean():
    layers = draw_layers()
    mix = LayerMix(n_layers=3)
    torch.testing.assert_close(mix(layers), layers.mean(dim=0))
    assert not mix.is_trained()


def test_weights_go_through_a_softmax_and_gamma_scales():
    layers = draw_layers()
    mix = LayerMix(n_layers=3, initial=[0.1, 0.3, 0.5])
    mix.gamma.data.fill_(1.1)
    shares = np.exp([0.1, 0.3, 0.5]) / np.exp([0.1, 0.3, 0.5]).sum()
    expected = 1.1 * np.tensordot(shares, layers.double().numpy(), axes=1)
    np.testing.assert_allclose(mix(layers).detach().numpy(), expected, rtol=0, atol=1e-6)
    assert mix.is_trained()


def test_gamma_alone_counts_as_trained():
    mix = LayerMix(n_layers=3)
    mix.gamma.data.fill_(0.5)
    assert mix.is_trained()


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_allennlp_s_way_to_choose_a_layer(chosen):
    layers = draw_layers()
    initial = [-9e10] * 3
    initial[chosen] = 1.0
    assert torch.equal(LayerMix(n_layers=3, initial=initial)(layers), layers[chosen])


def test_top_only():
    layers = draw_layers()
    mix = LayerMix(n_layers=3, initial=[5.0, 1.0, 0.0], top_only=True)
    mix.gamma.data.fill_(2.0)
    torch.testing.assert_close(mix(layers), 2 * layers[-1])
    assert mix.l2().item() == 0
    mix(layers).sum().backward()
    assert mix.weights.grad is None
    assert mix.gamma.grad.item() == pytest.approx(layers[-1].sum().item(), rel=1e-5)
    assert not mix.weights.requires_grad


def test_fixed_weights_are_not_trained():
    mix = LayerMix(n_layers=2, initial=[1.0, 2.0], trainable=False)
    assert not mix.weights.requires_grad
    assert not mix.gamma.requires_grad


def test_penalty_is_the_sum_of_squares():
    mix = LayerMix(n_layers=3, initial=[0.5, -1.0, 2.0])
    assert mix.l2().item() == pytest.approx(5.25)
    mix.l2().backward()
    assert mix.weights.grad.tolist() == [1.0, -2.0, 4.0]
    assert mix.gamma.grad is None


def test_gradients_of_a_mix():
    weights = torch.tensor([0.3, -0.2, 1.0]).double().requires_grad_()
    gamma = torch.tensor([0.7]).double().requires_grad_()
    layers = draw_layers((3, 2, 2, 3)).double().requires_grad_()
    assert torch.autograd.gradcheck(mix_layers, (layers, weights, gamma))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_layer_norm_has_one_mean_and_variance_a_layer(dtype):
    layers = draw_layers().to(dtype)
    found = layer_norm(layers, MASK, 1e-13)
    assert found.dtype == dtype
    expected = normalized(layers.double().numpy(), MASK.numpy(), 1e-13)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-5)
    real = found.double()[:, MASK]
    np.testing.assert_allclose(real.mean(dim=(1, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(real.var(dim=(1, 2), correction=0), 1, atol=1e-6)
    # Padding is normalized too, by the same numbers, and has no say in them.
    assert found[:, ~MASK].any()
    other = torch.where(MASK[None, :, :, None], layers, torch.full_like(layers, 1e3))
    assert torch.equal(layer_norm(other, MASK, 1e-13)[:, MASK], found[:, MASK])


def test_layer_norm_is_not_a_norm_of_tokens():
    found = layer_norm(draw_layers(), MASK, 1e-13)
    assert found[0, 0].mean(dim=1).abs().max() > 0.1


def test_epsilon_stands_under_the_root():
    layers = torch.tensor([1.0, -1.0]).double().view(1, 1, 1, 2)
    found = layer_norm(layers, torch.ones(1, 1, dtype=torch.bool), 3.0)
    assert found.flatten().tolist() == pytest.approx([0.5, -0.5])


def test_layer_norm_of_half_precision_does_not_overflow():
    layers = draw_layers((2, 10, 20, 512))
    mask = torch.ones(10, 20, dtype=torch.bool)
    found = layer_norm(layers.half(), mask, 1e-13)
    assert found.dtype == torch.float16
    expected = layer_norm(layers, mask, 1e-13)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=5e-3)


def test_layer_norm_without_a_real_position_is_finite():
    layers = draw_layers().requires_grad_()
    found = layer_norm(layers, torch.zeros(4, 6, dtype=torch.bool), 1e-12)
    assert found.isfinite().all()
    (gradient,) = torch.autograd.grad((found * 0).sum(), layers)
    assert not gradient.any()
