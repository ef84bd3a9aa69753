"""Tests that a call with converted weights does not change the model for other threads."""

import threading

import pytest
import torch
from conftest import TINY, random_model
from torch import nn

from elmo.compat.allennlp_bilm import ElmoCharacterEncoder
from elmo.compat.allennlp_indexer import batch_to_ids
from elmo.embed.embedder import ELMo
from elmo.formats import bilm_hdf5

SENTENCES = [["He", "sat", "on", "the", "bank", "."], ["A", "bank", "."]]


class PausedThread:
    """Runs a function in a thread that waits in a forward hook of a module until it is resumed."""

    def __init__(self, module, function):
        self._is_waiting, self._may_continue = threading.Event(), threading.Event()
        self._results = []
        self._hook = module.register_forward_pre_hook(self._wait)
        self._thread = threading.Thread(target=lambda: self._results.append(function()))
        self._thread.start()
        assert self._is_waiting.wait(10)

    def _wait(self, *args):
        if threading.current_thread() is self._thread:
            self._is_waiting.set()
            assert self._may_continue.wait(10)

    def resume(self):
        """Return the result of the function."""
        self._may_continue.set()
        self._thread.join(10)
        self._hook.remove()
        (result,) = self._results
        return result


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_call_with_converted_weights_does_not_change_calls_of_other_threads(precision):
    elmo = ELMo(random_model(TINY))
    ids = elmo.character_ids(SENTENCES)
    own = dict(elmo.named_parameters())
    with torch.no_grad():
        layers = elmo(ids).layers
    native, other = elmo.encode(SENTENCES), elmo.encode(SENTENCES, precision="float16")
    converted = elmo.encode(SENTENCES, precision=precision)

    paused = PausedThread(
        elmo.network.bilm.encoder, lambda: elmo.encode(SENTENCES, precision=precision)
    )
    try:
        with torch.no_grad():
            assert torch.equal(elmo(ids).layers, layers)
        assert_same(elmo.encode(SENTENCES), native)
        assert_same(elmo.encode(SENTENCES, precision="float16"), other)
        assert all(value is own[name] for name, value in elmo.named_parameters())
    finally:
        results = paused.resume()
    assert_same(results, converted)
    assert all(value is own[name] for name, value in elmo.named_parameters())


def assert_same(actual, expected):
    for ours, true in zip(actual, expected, strict=True):
        assert ours.dtype == true.dtype
        assert (ours == true).all()


def test_allennlp_encoder_computes_in_several_threads(tmp_path):
    bilm_hdf5.write(random_model(TINY), tmp_path)
    encoder = ElmoCharacterEncoder(tmp_path / "options.json", tmp_path / "weights.hdf5")
    ids = batch_to_ids(SENTENCES)
    expected = encoder(ids)["token_embedding"]
    bilm = encoder._bilm._bilm
    first = PausedThread(bilm.encoder, lambda: encoder(ids)["token_embedding"])
    second = PausedThread(bilm.encoder, lambda: encoder(ids)["token_embedding"])
    assert torch.equal(first.resume(), expected)
    assert torch.equal(second.resume(), expected)


@pytest.mark.parametrize("precision", [None, "float64"])
def test_tied_weights_are_converted_everywhere(precision):
    elmo = ELMo(random_model(TINY))
    bilm = elmo.network.bilm
    bilm.backward_lstm.layers[0].weight_hh = bilm.forward_lstm.layers[0].weight_hh
    untied = ELMo(elmo.to_pretrained())
    assert_same(
        elmo.encode(SENTENCES, precision=precision), untied.encode(SENTENCES, precision=precision)
    )


def test_parametrized_weights_are_converted():
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    elmo = ELMo(random_model(TINY))
    layer = elmo.network.bilm.forward_lstm.layers[0]
    nn.utils.parametrize.register_parametrization(layer, "weight_hh", Doubled())
    actual = elmo.encode(SENTENCES, precision="float64")
    nn.utils.parametrize.remove_parametrizations(layer, "weight_hh")
    assert_same(actual, elmo.encode(SENTENCES, precision="float64"))
