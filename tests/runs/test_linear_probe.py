"""Tests of the linear probe: feature standardization, and training on a single layer."""

import torch
from linear_probe import fit, standardize


def test_standardize_uses_mean_and_deviation_of_training_set():
    train = torch.tensor([[[1.0, 5.0], [3.0, 5.0]], [[0.0, 1.0], [0.0, -1.0]]])
    test = torch.tensor([[[5.0, 7.0]], [[9.0, 4.0]]])
    standardize(train, test)
    # Features that are constant in the training set become 0.
    assert train.tolist() == [[[-1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]]
    assert test.tolist() == [[[3.0, 0.0]], [[0.0, 4.0]]]


def test_probe_on_a_single_layer_does_not_train_the_layer_mix():
    features = torch.randn(1, 50, 3, generator=torch.Generator().manual_seed(0))
    probe = fit(features, (features[0, :, 0] > 0).long(), 2)
    assert not probe.mix.is_trained()
    assert probe.linear.weight[1, 0] > probe.linear.weight[0, 0]
