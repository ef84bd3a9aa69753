"""Tests that frozen weights use kernels without gradients in a training loop, on CPU and GPU.

The layer mixes and partly frozen weights must still get their gradients.
"""

import pytest
import torch
from conftest import random_model

from elmo.compat.allennlp import Elmo, batch_to_ids
from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.embed.embedder import ELMo
from elmo.formats import bilm_hdf5
from elmo.inference.engine_slot import EngineSlot
from elmo.kernels import (
    characters_native,
    linear_native,
    lstm_fused,
    lstm_native,
    lstm_reference,
)
from elmo.kernels.device import can_fuse
from elmo.kernels.native_ffi import can_compute
from elmo.kernels.torch_kernels import REFERENCE_KERNELS
from elmo.model.lstm import LSTMState

# Widths that the native kernels support.
CONFIG = ModelConfig(
    TextConfig(max_characters=50),
    EncoderConfig(character_dim=16, filters=((1, 64), (2, 64)), n_highway=1),
    LSTMConfig(cell_dim=128, projection_dim=64),
)
SENTENCES = [["He", "sat", "on", "the", "river", "bank", "."], ["A", "bank", "."], ["Money"]]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ],
    ),
]
NATIVE = {
    (lstm_native, "lstm"): 2,
    (characters_native, "convolve_and_pool"): 1,
    (linear_native, "highway"): 1,
    (linear_native, "linear"): 1,
}


@pytest.fixture
def calls(monkeypatch):
    """Return a dict that counts the calls of the native kernels and of the reference LSTM."""
    if not can_compute("float32"):
        pytest.skip("needs the native kernels")
    counts = dict.fromkeys([*NATIVE, (lstm_reference, "lstm")], 0)

    def count(module, name):
        inner = getattr(module, name)

        def call(*arguments):
            counts[module, name] += 1
            return inner(*arguments)

        monkeypatch.setattr(module, name, call)

    for module, name in counts:
        count(module, name)
    return counts


def make_elmo(device="cpu", **arguments):
    """Return a model in training mode; its mix has unequal weights."""
    elmo = ELMo(random_model(CONFIG, scale=1.5), **arguments).to(device).train()
    elmo.network.mixes[0].weights.data = torch.tensor([0.5, -1.0, 0.2], device=device)
    return elmo


def gradients(elmo, ids, **arguments):
    """Return the representation and the gradients of all parameters that require one, by name."""
    elmo.zero_grad()
    (output,) = elmo(ids, **arguments).representations
    output.square().sum().backward()
    return output.detach(), {
        name: value.grad for name, value in elmo.named_parameters() if value.grad is not None
    }


def run_reference(elmo):
    """Select the kernels that need no particular hardware."""
    elmo._engines = EngineSlot(REFERENCE_KERNELS)
    return elmo


def test_frozen_model_in_grad_mode_runs_the_native_kernels(calls):
    elmo = make_elmo()
    ids = elmo.character_ids(SENTENCES)
    elmo(ids).representations[0].sum().backward()
    assert calls == {**NATIVE, (lstm_reference, "lstm"): 0}
    elmo.network.bilm.requires_grad_(True)
    elmo(ids)
    assert calls == {**NATIVE, (lstm_reference, "lstm"): 2}


def test_frozen_allennlp_module_in_grad_mode_runs_the_native_kernels(calls, tmp_path):
    bilm_hdf5.write(random_model(CONFIG, scale=1.5), tmp_path)
    files = (tmp_path / "options.json", tmp_path / "weights.hdf5")
    elmo = Elmo(*files, 1, dropout=0.0)
    ids = batch_to_ids(SENTENCES)
    # The state of the first call is carried to the second.
    outputs = [elmo(ids)["elmo_representations"][0] for _ in range(2)]
    sum(outputs).sum().backward()
    assert calls[lstm_native, "lstm"] == 4
    assert calls[lstm_reference, "lstm"] == 0
    assert all(value.grad.any() for value in elmo._scalar_mixes[0].parameters())
    with torch.no_grad():
        elmo._elmo_lstm._elmo_lstm.reset_states()
        for output in outputs:
            assert torch.equal(elmo(ids)["elmo_representations"][0], output)
    trained = Elmo(*files, 1, dropout=0.0, requires_grad=True)
    trained(ids)["elmo_representations"][0].sum().backward()
    assert all(value.grad is not None for value in trained.parameters())


def test_trained_upper_layer_gets_gradients_while_frozen_layers_run_the_native_kernels(calls):
    elmo = make_elmo()
    for stack in (elmo.network.bilm.forward_lstm, elmo.network.bilm.backward_lstm):
        stack.layers[1].requires_grad_(True)
    ids = elmo.character_ids(SENTENCES)
    output, partly = gradients(elmo, ids)
    assert calls == {**NATIVE, (lstm_native, "lstm"): 1, (lstm_reference, "lstm"): 1}
    expected_output, expected = gradients(run_reference(make_elmo(requires_grad=True)), ids)
    torch.testing.assert_close(output, expected_output, rtol=0, atol=1e-5)
    assert len(partly) == 2 + 8
    for name, gradient in partly.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_frozen_model_has_outputs_of_no_grad_and_gradients_of_trained_model(device, dropout):
    elmo = make_elmo(device, dropout=dropout)
    ids = elmo.character_ids(SENTENCES)
    torch.manual_seed(1)
    output, mixes = gradients(elmo, ids)
    torch.manual_seed(1)
    with torch.no_grad():
        assert torch.equal(elmo(ids).representations[0], output)
    trained = run_reference(make_elmo(device, dropout=dropout, requires_grad=True))
    torch.manual_seed(1)
    expected_output, expected = gradients(trained, ids)
    torch.testing.assert_close(output, expected_output, rtol=0, atol=1e-4)
    assert mixes.keys() == {"network.mixes.0.weights", "network.mixes.0.gamma"}
    for name, gradient in mixes.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_learned_initial_state_of_a_frozen_model_gets_a_gradient(device):
    elmo = make_elmo(device)
    ids = elmo.character_ids(SENTENCES)
    found = []
    for model in (elmo, run_reference(make_elmo(device, requires_grad=True))):
        zeros = LSTMState.zeros(CONFIG.lstm, len(SENTENCES), device=ids.device)
        h = zeros.h.requires_grad_()
        gradients(model, ids, state=LSTMState(h, zeros.c))
        found.append(h.grad)
    assert found[0].any()
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_frozen_model_on_gpu_saves_nothing_for_a_backward_pass_of_the_lstm(monkeypatch, dtype):
    elmo = make_elmo("cuda").to(dtype)
    ids = elmo.character_ids(SENTENCES)
    if not can_fuse(elmo.network.mixes[0].gamma):
        pytest.skip("needs Triton")
    shapes = []

    class Recording(lstm_fused.Forward):
        def __init__(self, shape, *rest):
            shapes.append((shape.training, torch.is_grad_enabled()))
            super().__init__(shape, *rest)

    monkeypatch.setattr(lstm_fused, "Forward", Recording)
    elmo(ids).representations[0].float().sum().backward()
    assert shapes == [(False, False)] * 2
    elmo.network.bilm.requires_grad_(True)
    elmo(ids)
    assert [training for training, _ in shapes[2:]] == [True] * 2
