"""Tests of the `torch.export` program: saving, loading, batch sizes, lengths and equal vectors."""

import builtins
import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from export_models import CONFIGS, SENTENCES, expected_layers, model_of, with_lstm

from elmo.errors import ConfigError
from elmo.export import exported
from elmo.export.torch_program import InferenceNetwork

BATCHES = [SENTENCES, [["a"]], [[]], [["the", "bank"] * 20] * 7]


def test_saved_torch_program_runs_without_this_package(tmp_path):
    """The program computes the same vectors in a process that cannot import `elmo`."""
    elmo = model_of(with_lstm(cell_clip=0.3, projection_clip=0.2), scale=4.0)
    program = exported(elmo)
    torch.export.save(program, tmp_path / "elmo.pt2")
    for number, sentences in enumerate(BATCHES):
        ids = elmo.character_ids(sentences)
        layers = program.module()(ids).numpy()
        np.testing.assert_allclose(layers, expected_layers(elmo, ids), atol=2e-5)
        np.save(tmp_path / f"ids{number}.npy", ids.numpy())
        np.save(tmp_path / f"layers{number}.npy", layers)
    code = (
        "import sys; sys.modules['elmo'] = None\n"
        "import numpy as np, torch\n"
        "torch.set_num_threads(1)\n"
        "run = torch.export.load('elmo.pt2').module()\n"
        f"for n in range({len(BATCHES)}):\n"
        "    layers = run(torch.from_numpy(np.load(f'ids{n}.npy'))).numpy()\n"
        "    assert (layers == np.load(f'layers{n}.npy')).all()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", ["cached words", "words only"])
def test_torch_program_with_word_table_equals_model(name):
    config = CONFIGS[name]
    elmo = model_of(dataclasses.replace(config, lstm=with_lstm(n_layers=1).lstm))
    ids = elmo.character_ids(SENTENCES)
    layers = exported(elmo).module()(ids)
    np.testing.assert_allclose(layers.numpy(), expected_layers(elmo, ids), atol=1e-6)
    assert not layers.requires_grad


def test_inference_network_shares_weights_with_model():
    bilm = model_of().network.bilm
    network = InferenceNetwork(bilm)
    assert network.bilm.forward_lstm.layers[0].weight_hh is bilm.forward_lstm.layers[0].weight_hh


def test_exported_rejects_pytorch_without_scan(monkeypatch):
    original = builtins.__import__

    def import_without_scan(name, *args, **kwargs):
        if name == "torch._higher_order_ops":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", import_without_scan)
    with pytest.raises(ConfigError, match=r"cannot export recurrent networks\. Install a newer"):
        exported(model_of())
