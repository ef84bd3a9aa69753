"""Tests of the graph in onnxruntime: every network, batches, clips, int8, the same bytes."""

import numpy as np
import onnx
import pytest
import torch
from export_models import CONFIGS, SENTENCES, changed, cosines, model_of, opened, ours

from elmo.export.onnx_graph import graph
from elmo.export.onnx_matmul import PROJECTIONS


def run_of(elmo, dtype="float32"):
    return opened(graph(elmo.network.bilm, dtype).SerializeToString())


@pytest.mark.parametrize("name", CONFIGS)
def test_every_network(capfd, name):
    elmo = model_of(CONFIGS[name])
    model = graph(elmo.network.bilm)
    onnx.checker.check_model(model, full_check=True)
    ids = elmo.character_ids(SENTENCES)
    found = opened(model.SerializeToString())(ids)
    np.testing.assert_allclose(found, ours(elmo, ids), atol=1e-6)
    assert (found[:, (ids == 0).all(dim=2).numpy()] == 0).all()
    assert not capfd.readouterr().err, "onnxruntime complains of what is not used"


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("dtype", "least"), [("float16", 0.99999), ("int8", 0.999)])
def test_every_network_in_fewer_bytes(capfd, name, dtype, least):
    elmo = model_of(CONFIGS[name])
    ids = elmo.character_ids(SENTENCES)
    assert cosines(run_of(elmo, dtype)(ids), ours(elmo, ids)).min() > least
    assert not capfd.readouterr().err


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_any_batch_and_length(dtype):
    """A sentence does not depend on those beside it, nor on how far it is padded."""
    elmo = model_of()
    run = run_of(elmo, dtype)
    together = run(elmo.character_ids(SENTENCES))
    for number, sentence in enumerate(SENTENCES):
        alone = run(elmo.character_ids([sentence]))
        np.testing.assert_allclose(alone[:, 0], together[:, number, : len(sentence) + 2], atol=1e-6)
    long = elmo.character_ids([["bank"] * 70, ["a"]] * 9)
    assert run(long).shape == (3, 18, 72, 16)
    padded = torch.nn.functional.pad(elmo.character_ids([["a"]]), (0, 0, 0, 5))
    assert (run(padded)[:, :, 3:] == 0).all()


def test_both_clips_bite():
    """Weights so large that without either of the clips the result is another."""
    config = changed(cell_clip=0.3, projection_clip=0.2)
    elmo = model_of(config, scale=4.0)
    ids = elmo.character_ids(SENTENCES)
    found = run_of(elmo)(ids)
    np.testing.assert_allclose(found, ours(elmo, ids), atol=1e-5)
    # The first layer has no residual: its outputs are what the clip left.
    assert np.isclose(np.abs(found[1]).max(), 0.2)
    for other in ({"cell_clip": None}, {"projection_clip": None}):
        loose = run_of(model_of(changed(**{"cell_clip": 0.3, "projection_clip": 0.2} | other), 4.0))
        assert np.abs(loose(ids) - found).max() > 0.01


def test_one_scale_for_each_word():
    """A word with large values leaves the precision of its neighbours alone."""
    elmo = model_of(CONFIGS["words alone, not projected"])
    elmo.network.bilm.encoder.words.weight.data[5] *= 1e4
    ids = elmo.character_ids([["the"], ["bank"]])
    assert cosines(run_of(elmo, "int8")(ids), ours(elmo, ids))[:3].min() > 0.995


def test_sums_fit_in_the_16_bits_of_older_cpus():
    model = graph(model_of().network.bilm, "int8")
    for tensor in model.graph.initializer:
        if tensor.name.endswith(".int8") and not tensor.name[: -len(".int8")].endswith(PROJECTIONS):
            assert np.abs(onnx.numpy_helper.to_array(tensor).astype(int)).max() <= 64


def test_units_of_which_one_is_much_larger_are_projected_well():
    elmo = model_of()
    bilm = elmo.network.bilm
    for layer in (*bilm.forward_lstm.layers, *bilm.backward_lstm.layers):
        # The first unit is open and large, all others are nearly shut.
        gates = layer.bias.data.view(4, -1)
        gates[3] = -4
        gates[:, 0] = 4
        layer.weight_hr.data[:, 0] = 0
    ids = elmo.character_ids(SENTENCES)
    assert cosines(run_of(elmo, "int8")(ids), ours(elmo, ids)).min() > 0.999


def test_large_values_stay_wide():
    elmo = model_of()
    elmo.network.bilm.encoder.projection.weight.data[0, 0] = 1e5
    ids = elmo.character_ids(SENTENCES)
    found, expected = run_of(elmo, "float16")(ids), ours(elmo, ids)
    assert np.isfinite(found).all()
    assert cosines(found, expected).min() > 0.999


def test_a_row_of_zeros():
    elmo = model_of()
    elmo.network.bilm.encoder.projection.weight.data[3] = 0
    elmo.network.bilm.forward_lstm.layers[0].weight_hr.data.zero_()
    ids = elmo.character_ids(SENTENCES)
    found = run_of(elmo, "int8")(ids)
    assert np.isfinite(found).all()
    assert cosines(found, ours(elmo, ids)).min() > 0.995


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_same_model_same_bytes(dtype):
    first, second = (graph(model_of().network.bilm, dtype).SerializeToString() for _ in range(2))
    assert first == second


def test_names_and_nothing_of_this_machine():
    model = graph(model_of().network.bilm)
    assert [item.name for item in model.graph.input] == ["character_ids"]
    assert [item.name for item in model.graph.output] == ["layers"]
    assert model.producer_name == "elmo-torch"
    assert b".py" not in model.SerializeToString()
