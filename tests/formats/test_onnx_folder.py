"""Tests for `convert --to onnx`: all readable formats, folder content, errors."""

import json
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from builders import SENTENCES
from conftest import TINY, random_model
from sources import SOURCES, assert_error, model_folder_source, snapshot
from typer.testing import CliRunner

from elmo.cli import application
from elmo.config import ConvertConfig, MixConfig, ModelConfig
from elmo.embed.embedder import ELMo
from elmo.errors import FormatError, MissingExtra, OutputError
from elmo.export import onnx_file
from elmo.formats import model_folder, onnx_folder
from elmo.formats.info_and_convert import convert
from elmo.formats.load import read
from elmo.model.bilm import distinct_rows

RANDOM_MODEL = "elmo-torch folder (first read from random model)"
WORDS = [["the", "cat", "sat"], ["naïve", "the"], []]


def layers_of(folder, ids):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    return session.run(["layers"], {"character_ids": ids.numpy()})[0]


@pytest.mark.parametrize("name", SOURCES)
def test_onnx_graph_matches_model_of_every_readable_format(tmp_path, name):
    arguments = SOURCES[name].make(tmp_path)
    elmo = ELMo.from_pretrained(**arguments)
    onnx_folder.write(read(**arguments), tmp_path / "out")
    ids = elmo.character_ids(SENTENCES if elmo.config.encoder.n_characters else WORDS)
    with torch.no_grad():
        expected = elmo.network.bilm(*distinct_rows(ids), (ids != 0).any(dim=2)).layers.numpy()
    np.testing.assert_allclose(layers_of(tmp_path / "out", ids), expected, atol=2e-5)
    header = json.loads((tmp_path / "out" / "config.json").read_text())
    assert header["origin"] == elmo.origin
    pretrained = elmo.to_pretrained()
    for file, table in (
        ("characters.json", pretrained.characters),
        ("words.json", pretrained.words),
    ):
        path = tmp_path / "out" / file
        entries = None if table is None else list(table)  # all ids here are consecutive from 0
        assert (json.loads(path.read_text("utf-8")) if path.exists() else None) == entries


def test_convert_to_onnx_writes_files_and_notes(tmp_path):
    path = model_folder_source(tmp_path)["source"]
    result = convert(ConvertConfig(str(path), str(tmp_path / "out"), to="onnx"))
    names = sorted(item.name for item in (tmp_path / "out").iterdir())
    assert names == ["README.md", "config.json", "model.onnx"]
    lines = str(result).splitlines()
    assert lines[0] == f"{tmp_path / 'out'}: written as onnx, read from {RANDOM_MODEL}"
    assert lines[1:3] == [
        "note: a correction",
        "note: The softmax of the language model is not written.",
    ]
    assert lines[3].startswith(
        "note: In onnxruntime, the vectors differ from those of the model by"
    )
    header = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (header["format"], header["version"], header["dtype"]) == (
        "elmo-torch onnx",
        1,
        "float32",
    )
    assert list(header["model"]) == ["text", "encoder", "lstm"]
    card = (tmp_path / "out" / "README.md").read_text()
    assert "`layers`, float32, (3, batch, time, 16)" in card
    assert "Weights are float32." in card


def test_write_notes_omitted_mixes(tmp_path):
    config = ModelConfig(TINY.text, TINY.encoder, TINY.lstm, MixConfig(2))
    elmo = ELMo(random_model(config, scale=1.5))
    elmo.network.mixes[1].gamma.data.fill_(2.0)
    notes = onnx_folder.write(elmo.to_pretrained(), tmp_path / "out")
    assert notes[0] == "The trained layer mixes are not written: the graph returns every layer."


def test_convert_to_onnx_records_tokenizer(tmp_path):
    model_folder.write(random_model(scale=1.5), tmp_path / "model")
    config = ConvertConfig(
        str(tmp_path / "model"), str(tmp_path / "out"), to="onnx", tokenizer="english"
    )
    convert(config)
    header = json.loads((tmp_path / "out" / "config.json").read_text())
    assert header["model"]["text"]["tokenizer"] == "english"


@pytest.mark.parametrize(("storage", "phrase"), [("float16", "as float16"), ("int8", "as int8")])
def test_convert_to_onnx_writes_compact_storage(tmp_path, storage, phrase):
    model_folder.write(random_model(scale=1.5), tmp_path / "model")
    output = str(tmp_path / "out")
    result = convert(ConvertConfig(str(tmp_path / "model"), output, to="onnx", storage=storage))
    assert str(result).startswith(f"{output}: written as onnx in {storage}, read from ")
    assert "In onnxruntime, the mean cosine to the vectors of the model is at least " in str(result)
    assert phrase in (tmp_path / "out" / "README.md").read_text()


def test_write_replaces_previous_export_and_keeps_other_files(tmp_path):
    model = random_model(scale=1.5)
    onnx_folder.write(model, tmp_path / "out")
    before = snapshot(tmp_path / "out")
    (tmp_path / "out" / "mine.txt").write_text("kept")
    onnx_folder.write(model, tmp_path / "out", "int8")
    assert snapshot(tmp_path / "out")["model.onnx"] != before["model.onnx"]
    onnx_folder.write(model, tmp_path / "out")
    assert snapshot(tmp_path / "out") == {**before, "mine.txt": b"kept"}


def test_onnx_and_model_folder_do_not_overwrite_each_other(tmp_path):
    model = random_model(scale=1.5)
    model_folder.write(model, tmp_path / "model")
    onnx_folder.write(model, tmp_path / "onnx")
    before = snapshot(tmp_path)
    phrase = "do not belong to an elmo-torch model in this format"
    assert_error(
        lambda: onnx_folder.write(model, tmp_path / "model"), phrase, error_type=OutputError
    )
    assert_error(
        lambda: model_folder.write(model, tmp_path / "onnx"), phrase, error_type=OutputError
    )
    assert snapshot(tmp_path) == before


def test_read_rejects_onnx_folder(tmp_path):
    onnx_folder.write(random_model(scale=1.5), tmp_path / "out")
    assert_error(lambda: read(tmp_path / "out"), "is an ONNX export", error_type=FormatError)


def test_failed_onnx_verification_writes_no_files(tmp_path, monkeypatch):
    other = onnx_file.graph(ELMo(random_model(seed=1)).network.bilm)
    monkeypatch.setattr(onnx_file, "graph", lambda *arguments: other)
    model = random_model(scale=1.5)
    assert_error(
        lambda: onnx_folder.write(model, tmp_path / "out"),
        "Nothing was written",
        error_type=OutputError,
    )
    assert not list(tmp_path.iterdir())


def test_write_error_names_missing_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    model = random_model(scale=1.5)
    assert_error(
        lambda: onnx_folder.write(model, tmp_path / "out"), "[export]", error_type=MissingExtra
    )
    assert not list(tmp_path.iterdir())


def test_command_line_writes_graph_and_rejects_lossy_int8(tmp_path):
    """A model whose weights are too large for int8 is rejected."""
    model_folder.write(random_model(scale=16.0), tmp_path / "large-weights")
    model_folder.write(random_model(scale=1.0), tmp_path / "model")
    output = tmp_path / "out"
    rejected_command = ["convert", str(tmp_path / "large-weights"), str(output), "--to", "onnx"]
    done = CliRunner().invoke(application(), [*rejected_command, "--storage", "int8"])
    assert done.exit_code == 1
    assert done.stderr.startswith("elmo: This model loses too much precision with int8")
    assert not output.exists()
    command = ["convert", str(tmp_path / "model"), str(output), "--to", "onnx"]
    done = CliRunner().invoke(application(), command)
    assert done.exit_code == 0
    first, second = done.stdout.splitlines()
    assert first == f"{output}: written as onnx, read from {RANDOM_MODEL}"
    assert second.startswith("note: In onnxruntime, ")
    assert not done.stderr
