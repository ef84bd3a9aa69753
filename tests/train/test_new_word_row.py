"""Tests of the softmax row that new words share."""

import dataclasses

import numpy as np
import pytest
import torch
from conftest import TINY, random_model

from elmo.corpus.shards import DistinctWords, Split
from elmo.evaluate.perplexity import model_tables
from elmo.model.network import ELMoNetwork
from elmo.text.vocabulary import Vocabulary
from elmo.train import new_word_row
from elmo.train.new_word_row import fit_new_word_row

KNOWN = ["<S>", "</S>", "<UNK>", "a", "b"]


def fitted(unknown_bias=-30.0, keep_weight=False):
    """Fit the row to a text in which every second word is unknown."""
    config = dataclasses.replace(TINY, n_softmax_words=len(KNOWN))
    model = random_model(config, scale=1.0, vocabulary=Vocabulary(KNOWN))
    model.weights["softmax.bias"][2] = unknown_bias
    network = ELMoNetwork(config=config)
    network.load_state_dict(model.weights)
    rng = np.random.default_rng(0)
    split = Split.of(rng.integers(0, 4, (200, 9)).tolist())
    tables = model_tables(model, DistinctWords.of(["a", "b", "x", "y"]))
    row = fit_new_word_row(network, tables, split, unknown=2, keep_weight=keep_weight)
    hidden, is_unknown = new_word_row._sample(network, tables, split, 2)
    log_known = new_word_row._log_known(network.softmax, hidden, 2)
    probability = (hidden @ row.weight + row.bias - log_known).sigmoid()
    return row, network, probability.detach(), is_unknown


@pytest.mark.parametrize("keep_weight", [False, True])
def test_mean_probability_is_fraction_of_unknown_words(keep_weight):
    row, network, probability, is_unknown = fitted(keep_weight=keep_weight)
    assert float(probability.mean()) == pytest.approx(float(is_unknown.float().mean()), abs=0.01)
    if keep_weight:
        assert torch.allclose(row.weight, network.softmax.weight[2])


def test_fitted_row_predicts_no_worse_than_the_row_of_unk():
    def loss(probability, is_unknown):
        return float(torch.nn.functional.binary_cross_entropy(probability, is_unknown.float()))

    assert loss(*fitted()[2:]) <= loss(*fitted(keep_weight=True)[2:]) + 1e-6


def test_row_does_not_depend_on_the_bias_of_unk():
    assert torch.allclose(fitted(-30.0)[0].bias, fitted(3.0)[0].bias, atol=1e-4)


def test_sample_is_limited_for_large_vocabularies(monkeypatch):
    n_before = len(fitted()[2])
    monkeypatch.setattr(new_word_row, "MAX_LOGITS", 500)
    assert len(fitted()[2]) <= 100 < n_before
