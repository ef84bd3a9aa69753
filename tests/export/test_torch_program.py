"""Tests of the program of `torch.export`: saved, loaded, any batch and length, ours to rounding."""

import builtins
import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from export_models import CONFIGS, SENTENCES, changed, model_of, ours

from elmo.errors import ConfigError
from elmo.export import exported
from elmo.export.torch_program import InferenceNetwork

BATCHES = [SENTENCES, [["a"]], [[]], [["the", "bank"] * 20] * 7]


def test_round_trip(tmp_path):
    """Clips bite, and the loaded program gives the same numbers in a process without ours."""
    elmo = model_of(changed(cell_clip=0.3, projection_clip=0.2), scale=4.0)
    elmo.network.bilm.use_kernel("auto")  # whatever it would be, no kernel gets into the program
    program = exported(elmo)
    elmo.network.bilm.use_kernel("reference")
    torch.export.save(program, tmp_path / "elmo.pt2")
    for number, sentences in enumerate(BATCHES):
        ids = elmo.character_ids(sentences)
        found = program.module()(ids).numpy()
        np.testing.assert_allclose(found, ours(elmo, ids), atol=2e-5)
        np.save(tmp_path / f"ids{number}.npy", ids.numpy())
        np.save(tmp_path / f"layers{number}.npy", found)
    code = (
        "import sys; sys.modules['elmo'] = None\n"
        "import numpy as np, torch\n"
        "torch.set_num_threads(1)\n"
        "run = torch.export.load('elmo.pt2').module()\n"
        f"for n in range({len(BATCHES)}):\n"
        "    found = run(torch.from_numpy(np.load(f'ids{n}.npy'))).numpy()\n"
        "    assert (found == np.load(f'layers{n}.npy')).all()\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize("name", ["words computed beforehand", "words alone"])
def test_words(name):
    config = CONFIGS[name]
    elmo = model_of(dataclasses.replace(config, lstm=changed(n_layers=1).lstm))
    ids = elmo.character_ids(SENTENCES)
    found = exported(elmo).module()(ids)
    np.testing.assert_allclose(found.numpy(), ours(elmo, ids), atol=1e-6)
    assert not found.requires_grad


def test_weights_are_shared():
    bilm = model_of().network.bilm
    network = InferenceNetwork(bilm)
    assert network.bilm.forward_lstm.layers[0].weight_hh is bilm.forward_lstm.layers[0].weight_hh


def test_a_pytorch_without_scans(monkeypatch):
    known = builtins.__import__

    def without(name, *arguments, **named):
        if name == "torch._higher_order_ops":
            raise ImportError(name)
        return known(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="cannot export a recurrence: install a newer one"):
        exported(model_of())
