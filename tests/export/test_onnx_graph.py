"""Tests of the ONNX graph in onnxruntime: configs, batches, clips, int8 and reproducibility."""

import numpy as np
import onnx
import pytest
import torch
from export_models import (
    CONFIGS,
    SENTENCES,
    cosines,
    expected_layers,
    model_of,
    onnx_runner,
    with_lstm,
)

from elmo.export.onnx_graph import graph
from elmo.export.onnx_matmul import PROJECTIONS


def graph_runner(elmo, storage="float32"):
    return onnx_runner(graph(elmo.network.bilm, storage).SerializeToString())


@pytest.mark.parametrize("name", CONFIGS)
def test_onnx_graph_equals_model_for_every_config(capfd, name):
    elmo = model_of(CONFIGS[name])
    model = graph(elmo.network.bilm)
    onnx.checker.check_model(model, full_check=True)
    ids = elmo.character_ids(SENTENCES)
    layers = onnx_runner(model.SerializeToString())(ids)
    np.testing.assert_allclose(layers, expected_layers(elmo, ids), atol=1e-6)
    assert (layers[:, (ids == 0).all(dim=2).numpy()] == 0).all()
    assert not capfd.readouterr().err, "onnxruntime warns about unused values"


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("storage", "min_cosine"), [("float16", 0.99999), ("int8", 0.999)])
def test_float16_and_int8_graphs_are_close_to_model(capfd, name, storage, min_cosine):
    elmo = model_of(CONFIGS[name])
    ids = elmo.character_ids(SENTENCES)
    assert cosines(graph_runner(elmo, storage)(ids), expected_layers(elmo, ids)).min() > min_cosine
    assert not capfd.readouterr().err


@pytest.mark.parametrize("storage", ["float32", "int8"])
def test_onnx_graph_accepts_any_batch_size_and_length(storage):
    """Vectors do not depend on the other sentences or on the amount of padding."""
    elmo = model_of()
    run = graph_runner(elmo, storage)
    together = run(elmo.character_ids(SENTENCES))
    for number, sentence in enumerate(SENTENCES):
        alone = run(elmo.character_ids([sentence]))
        np.testing.assert_allclose(alone[:, 0], together[:, number, : len(sentence) + 2], atol=1e-6)
    long = elmo.character_ids([["bank"] * 70, ["a"]] * 9)
    assert run(long).shape == (3, 18, 72, 16)
    padded = torch.nn.functional.pad(elmo.character_ids([["a"]]), (0, 0, 0, 5))
    assert (run(padded)[:, :, 3:] == 0).all()


def test_onnx_graph_applies_cell_and_projection_clips():
    """The weights are so large that each clip changes the result."""
    config = with_lstm(cell_clip=0.3, projection_clip=0.2)
    elmo = model_of(config, scale=4.0)
    ids = elmo.character_ids(SENTENCES)
    layers = graph_runner(elmo)(ids)
    np.testing.assert_allclose(layers, expected_layers(elmo, ids), atol=1e-5)
    # The first layer has no residual, so its outputs are clipped values.
    assert np.isclose(np.abs(layers[1]).max(), 0.2)
    for other in ({"cell_clip": None}, {"projection_clip": None}):
        unclipped = graph_runner(
            model_of(with_lstm(**{"cell_clip": 0.3, "projection_clip": 0.2} | other), 4.0)
        )
        assert np.abs(unclipped(ids) - layers).max() > 0.01


def test_int8_graph_quantizes_each_word_with_its_own_scale():
    """A word with large values does not reduce the precision of other words."""
    elmo = model_of(CONFIGS["words only, no projection"])
    elmo.network.bilm.encoder.words.weight.data[5] *= 1e4
    ids = elmo.character_ids([["the"], ["bank"]])
    assert cosines(graph_runner(elmo, "int8")(ids), expected_layers(elmo, ids))[:3].min() > 0.995


def test_int8_weights_do_not_saturate_16_bit_sums():
    model = graph(model_of().network.bilm, "int8")
    for tensor in model.graph.initializer:
        if tensor.name.endswith(".int8") and not tensor.name[: -len(".int8")].endswith(PROJECTIONS):
            assert np.abs(onnx.numpy_helper.to_array(tensor).astype(int)).max() <= 64


def test_int8_graph_is_precise_for_small_units_next_to_a_large_unit():
    elmo = model_of()
    bilm = elmo.network.bilm
    for layer in (*bilm.forward_lstm.layers, *bilm.backward_lstm.layers):
        # The gates of the first unit are open, those of all others nearly closed.
        gates = layer.bias.data.view(4, -1)
        gates[3] = -4
        gates[:, 0] = 4
        layer.weight_hr.data[:, 0] = 0
    ids = elmo.character_ids(SENTENCES)
    assert cosines(graph_runner(elmo, "int8")(ids), expected_layers(elmo, ids)).min() > 0.999


def test_weights_that_overflow_float16_are_stored_as_float32():
    elmo = model_of()
    elmo.network.bilm.encoder.projection.weight.data[0, 0] = 1e5
    ids = elmo.character_ids(SENTENCES)
    layers, expected = graph_runner(elmo, "float16")(ids), expected_layers(elmo, ids)
    assert np.isfinite(layers).all()
    assert cosines(layers, expected).min() > 0.999


def test_int8_graph_accepts_weight_rows_of_zeros():
    elmo = model_of()
    elmo.network.bilm.encoder.projection.weight.data[3] = 0
    elmo.network.bilm.forward_lstm.layers[0].weight_hr.data.zero_()
    ids = elmo.character_ids(SENTENCES)
    layers = graph_runner(elmo, "int8")(ids)
    assert np.isfinite(layers).all()
    assert cosines(layers, expected_layers(elmo, ids)).min() > 0.995


@pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
def test_exporting_the_same_model_twice_gives_identical_bytes(storage):
    first, second = (graph(model_of().network.bilm, storage).SerializeToString() for _ in range(2))
    assert first == second


def test_onnx_graph_has_documented_names_and_no_source_paths():
    model = graph(model_of().network.bilm)
    assert [item.name for item in model.graph.input] == ["character_ids"]
    assert [item.name for item in model.graph.output] == ["layers"]
    assert model.producer_name == "elmo-torch"
    assert b".py" not in model.SerializeToString()
