"""Tests that `to_onnx` writes a verified file, or nothing if verification fails."""

import sys

import numpy as np
import pytest
import torch
from export_models import CONFIGS, SENTENCES, expected_layers, model_of, onnx_runner, with_lstm

from elmo.embed.forward_input import check_values
from elmo.errors import ConfigError, MissingExtra, OutputError
from elmo.export import onnx_file, onnx_verification, to_onnx


def test_to_onnx_writes_graph_that_returns_the_model_vectors(tmp_path):
    elmo = model_of()
    summary = to_onnx(elmo, tmp_path / "elmo.onnx")
    assert summary.startswith("In onnxruntime, the vectors differ from those of the model by at")
    ids = elmo.character_ids(SENTENCES)
    np.testing.assert_allclose(
        onnx_runner(tmp_path / "elmo.onnx")(ids), expected_layers(elmo, ids), atol=1e-6
    )
    assert [path.name for path in tmp_path.iterdir()] == ["elmo.onnx"]


def test_to_onnx_does_not_change_bfloat16_model(tmp_path):
    elmo = model_of().to(torch.bfloat16)
    to_onnx(elmo, str(tmp_path / "elmo.onnx"))
    assert elmo.network.bilm.encoder.projection.weight.dtype == torch.bfloat16


def test_to_onnx_writes_large_weights_to_second_file(tmp_path, monkeypatch):
    elmo = model_of()
    ids = elmo.character_ids(SENTENCES)
    monkeypatch.setattr(onnx_file, "MAX_FILE_BYTES", 10_000)
    to_onnx(elmo, tmp_path / "elmo.onnx")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["elmo.onnx", "elmo.onnx.data"]
    np.testing.assert_allclose(
        onnx_runner(tmp_path / "elmo.onnx")(ids), expected_layers(elmo, ids), atol=1e-6
    )
    monkeypatch.undo()
    to_onnx(elmo, tmp_path / "elmo.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["elmo.onnx"]


def test_to_onnx_writes_nothing_if_graph_vectors_differ_from_model(tmp_path, monkeypatch):
    other = onnx_file.graph(model_of(with_lstm(cell_clip=0.01)).network.bilm)
    monkeypatch.setattr(onnx_file, "graph", lambda *arguments: other)
    (tmp_path / "elmo.onnx").write_text("previous")
    with pytest.raises(OutputError, match="vectors of the ONNX graph in onnxruntime differ"):
        to_onnx(model_of(), tmp_path / "elmo.onnx")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["previous"]
    with pytest.raises(
        OutputError, match="loses too much precision with int8: the vectors of layer"
    ):
        to_onnx(model_of(), tmp_path / "elmo.onnx", "int8")


def test_to_onnx_accepts_model_with_zero_vectors(tmp_path):
    elmo = model_of()
    for parameter in elmo.network.bilm.encoder.projection.parameters():
        parameter.data.zero_()
    assert "in every layer" in to_onnx(elmo, tmp_path / "elmo.onnx", "int8")
    for parameter in elmo.network.bilm.parameters():
        parameter.data.zero_()
    assert "at most 0.0e+00" in to_onnx(elmo, tmp_path / "elmo.onnx")


def test_to_onnx_rejects_unknown_storage(tmp_path):
    with pytest.raises(
        ConfigError, match=r"Unknown storage 'int4'. Expected one of: float32, float16, int8"
    ):
        to_onnx(model_of(), tmp_path / "elmo.onnx", "int4")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_missing_onnx_package_error_names_the_export_extra(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"\[export\]"):
        to_onnx(model_of(), tmp_path / "elmo.onnx")
    assert not list(tmp_path.iterdir())


def test_random_verification_ids_are_valid_for_every_config():
    for config in CONFIGS.values():
        elmo = model_of(config)
        ids = onnx_verification.random_ids(elmo.config)
        check_values(ids, (ids != 0).any(dim=2), elmo.config.encoder)
