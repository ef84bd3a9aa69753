"""Tests that the softmax is in the state dict of an `ELMo` only on request, but always saved."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from torch import nn

from elmo.embed.embedder import ELMo
from elmo.embed.fingerprint import fingerprint
from elmo.text.vocabulary import Vocabulary

WORDS = Vocabulary(["</S>", "<S>", "<UNK>", *(f"word{n}" for n in range(9))])
FULL = dataclasses.replace(TINY, n_softmax_words=len(WORDS))
ADAPTIVE = dataclasses.replace(FULL, softmax_cutoffs=(4,))


@pytest.fixture(params=[FULL, ADAPTIVE], ids=["full", "adaptive"])
def pretrained(request):
    """Return a model with a softmax."""
    return random_model(request.param, vocabulary=WORDS)


def softmax_names(names):
    return [name for name in names if "softmax" in name]


def test_state_dict_and_parameters_contain_softmax_only_on_request(pretrained):
    elmo = ELMo(pretrained)
    expected = {f"network.{name}" for name in pretrained.weights}
    without = expected - set(softmax_names(expected))
    assert set(elmo.state_dict()) == without == {name for name, _ in elmo.named_parameters()}
    complete = ELMo(pretrained, include_softmax=True)
    assert (
        set(complete.state_dict()) == expected == {name for name, _ in complete.named_parameters()}
    )
    assert np.array_equal(elmo.encode("a b"), complete.encode("a b"))


def test_trained_model_has_no_parameters_without_gradient(pretrained):
    """Otherwise DistributedDataParallel reports unused parameters."""
    elmo = ELMo(pretrained, requires_grad=True)
    elmo(elmo.character_ids(["a b"])).representations[0].sum().backward()
    assert all(value.grad is not None for value in elmo.parameters())


@pytest.mark.parametrize("included", [False, True])
def test_save_pretrained_keeps_the_softmax(tmp_path, pretrained, included):
    elmo = ELMo(pretrained, include_softmax=included)
    assert fingerprint(elmo.to_pretrained()) == fingerprint(pretrained)
    elmo.save_pretrained(tmp_path)
    loaded = ELMo.from_pretrained(tmp_path)
    assert fingerprint(loaded.to_pretrained()) == fingerprint(pretrained)
    assert loaded.config == pretrained.config
    complete = ELMo.from_pretrained(tmp_path, include_softmax=True)
    assert softmax_names(complete.state_dict())


@pytest.mark.parametrize(
    ("saved", "loaded"), [(False, False), (False, True), (True, False), (True, True)]
)
def test_checkpoints_of_a_parent_module_load_with_and_without_softmax(pretrained, saved, loaded):
    other = random_model(pretrained.config, seed=7, vocabulary=WORDS)
    parent = nn.ModuleDict(
        {"elmo": ELMo(pretrained, include_softmax=saved), "head": nn.Linear(2, 2)}
    )
    state = parent.state_dict()
    assert bool(softmax_names(state)) == saved
    n_items = len(state)
    target = nn.ModuleDict({"elmo": ELMo(other, include_softmax=loaded), "head": nn.Linear(2, 2)})
    target.load_state_dict(state)
    assert len(state) == n_items
    expected = {
        name: (pretrained if saved or "softmax" not in name else other).weights[name]
        for name in pretrained.weights
    }
    actual = target["elmo"].to_pretrained().weights
    assert actual.keys() == expected.keys()
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_loaded_softmax_does_not_share_memory_with_the_state_dict(pretrained):
    state = ELMo(pretrained, include_softmax=True).state_dict()
    elmo = ELMo(random_model(pretrained.config, seed=7, vocabulary=WORDS))
    elmo.load_state_dict(state)
    before = fingerprint(elmo.to_pretrained())
    for value in state.values():
        value.zero_()
    assert fingerprint(elmo.to_pretrained()) == before


def test_load_state_dict_rejects_a_softmax_of_another_shape():
    elmo = ELMo(random_model(FULL))
    state = ELMo(random_model(FULL), include_softmax=True).state_dict()
    state["network.softmax.bias"] = torch.zeros(5)
    with pytest.raises(RuntimeError, match=r"size mismatch for network.softmax.bias: .*\(5,\)"):
        elmo.load_state_dict(state)
    del state["network.softmax.bias"]
    with pytest.raises(RuntimeError, match=r"Missing key\(s\).*network.softmax.bias"):
        elmo.load_state_dict(state)
    without = ELMo(random_model(TINY))
    with pytest.raises(RuntimeError, match="Unexpected key"):
        without.load_state_dict(state)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))]
)
def test_copies_have_their_own_softmax(pretrained, duplicate):
    elmo = ELMo(pretrained)
    copied = duplicate(elmo)
    assert fingerprint(copied.to_pretrained()) == fingerprint(pretrained)
    other = random_model(pretrained.config, seed=7, vocabulary=WORDS)
    copied.load_state_dict(ELMo(other, include_softmax=True).state_dict())
    assert fingerprint(copied.to_pretrained()) == fingerprint(other)
    assert fingerprint(elmo.to_pretrained()) == fingerprint(pretrained)


def test_softmax_is_saved_in_the_dtype_of_the_model(tmp_path, pretrained):
    half = ELMo(pretrained).half()
    assert {value.dtype for value in half.to_pretrained().weights.values()} == {torch.float16}
    half.save_pretrained(tmp_path)
    expected = ELMo(pretrained, include_softmax=True).half()
    assert fingerprint(half.to_pretrained()) == fingerprint(expected.to_pretrained())
    assert ELMo.from_pretrained(tmp_path).float().to_pretrained().weights.keys() == (
        pretrained.weights.keys()
    )


def test_data_parallel_replica_shares_the_softmax(pretrained):
    elmo = ELMo(pretrained)
    replica = elmo._replicate_for_data_parallel()
    assert replica._softmax is elmo._softmax


def test_moved_model_leaves_the_softmax_on_the_cpu(pretrained):
    elmo = ELMo(pretrained)
    elmo.to("meta")
    assert all(value.device.type == "cpu" for value in elmo._softmax.weights.values())
