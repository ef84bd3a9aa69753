"""Tests of `to_onnx`: a file that is right, or none."""

import sys

import numpy as np
import pytest
import torch
from export_models import CONFIGS, SENTENCES, changed, model_of, opened, ours

from elmo.errors import ConfigError, MissingExtra, OutputError
from elmo.export import onnx_file, onnx_verification, to_onnx


def test_a_file(tmp_path):
    elmo = model_of()
    told = to_onnx(elmo, tmp_path / "elmo.onnx")
    assert told.startswith("in onnxruntime no value is off by more than ")
    ids = elmo.character_ids(SENTENCES)
    np.testing.assert_allclose(opened(tmp_path / "elmo.onnx")(ids), ours(elmo, ids), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["elmo.onnx"]


def test_a_model_in_another_precision_is_left_as_it_is(tmp_path):
    elmo = model_of().to(torch.bfloat16)
    to_onnx(elmo, str(tmp_path / "elmo.onnx"))
    assert elmo.network.bilm.encoder.projection.weight.dtype == torch.bfloat16


def test_weights_beside_a_file_that_would_be_too_large(tmp_path, monkeypatch):
    elmo = model_of()
    ids = elmo.character_ids(SENTENCES)
    monkeypatch.setattr(onnx_file, "LARGEST_FILE", 10_000)
    to_onnx(elmo, tmp_path / "elmo.onnx")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["elmo.onnx", "elmo.onnx.data"]
    np.testing.assert_allclose(opened(tmp_path / "elmo.onnx")(ids), ours(elmo, ids), atol=1e-6)
    monkeypatch.undo()
    to_onnx(elmo, tmp_path / "elmo.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["elmo.onnx"]


def test_a_graph_that_computes_something_else_is_not_kept(tmp_path, monkeypatch):
    other = onnx_file.graph(model_of(changed(cell_clip=0.01)).network.bilm)
    monkeypatch.setattr(onnx_file, "graph", lambda *arguments: other)
    (tmp_path / "elmo.onnx").write_text("older")
    with pytest.raises(OutputError, match="computes other vectors"):
        to_onnx(model_of(), tmp_path / "elmo.onnx")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]
    with pytest.raises(OutputError, match="int8 costs this model too much: the vectors of layer"):
        to_onnx(model_of(), tmp_path / "elmo.onnx", "int8")


def test_vectors_of_zeros_are_no_difference(tmp_path):
    elmo = model_of()
    for part in elmo.network.bilm.encoder.projection.parameters():
        part.data.zero_()
    assert "or more in every layer" in to_onnx(elmo, tmp_path / "elmo.onnx", "int8")
    for part in elmo.network.bilm.parameters():
        part.data.zero_()
    assert "more than 0.0e+00" in to_onnx(elmo, tmp_path / "elmo.onnx")


def test_unknown_type(tmp_path):
    with pytest.raises(
        ConfigError, match=r"Unknown storage 'int4'. Expected one of: float32, float16, int8"
    ):
        to_onnx(model_of(), tmp_path / "elmo.onnx", "int4")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_extra(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"elmo-torch\[export\]"):
        to_onnx(model_of(), tmp_path / "elmo.onnx")
    assert not list(tmp_path.iterdir())


def test_made_up_sentences_are_such_as_the_model_takes():
    for config in CONFIGS.values():
        elmo = model_of(config)
        ids = onnx_verification.made_up_ids(elmo.config)
        elmo._check_values(ids, (ids != 0).any(dim=2))
