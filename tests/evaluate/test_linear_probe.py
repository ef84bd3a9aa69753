"""The linear probe alone: what it is given, and what it learns."""

import torch

from elmo.evaluate.linear_probe import fit, standardise


def test_features_are_standardised_by_training():
    train = torch.tensor([[[1.0, 5.0], [3.0, 5.0]], [[0.0, 1.0], [0.0, -1.0]]])
    test = torch.tensor([[[5.0, 7.0]], [[9.0, 4.0]]])
    standardise(train, test)
    # What never changes in training says nothing.
    assert train.tolist() == [[[-1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]]
    assert test.tolist() == [[[3.0, 0.0]], [[0.0, 4.0]]]


def test_one_layer_has_no_mix_to_train():
    features = torch.randn(1, 50, 3, generator=torch.Generator().manual_seed(0))
    probe = fit(features, (features[0, :, 0] > 0).long(), 2)
    assert not probe.mix.is_trained()
    assert probe.linear.weight[1, 0] > probe.linear.weight[0, 0]
