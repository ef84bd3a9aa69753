"""Tests of bilm-tf checkpoints as models: names, softmax, what is passed over, what is refused."""

import json
import shutil

import numpy as np
import pytest
from builders import (
    GEOMETRIES,
    VOCABULARY,
    bilm_arrays,
    checkpoint_folder,
    checkpoint_name,
    checkpoint_variables,
    make_options,
    read_hdf5,
)
from sources import refused

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats import bilm_hdf5
from elmo.formats.bilm_tf import hdf5_name
from elmo.formats.load import read


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_names_are_those_of_the_dump(geometry):
    for name in bilm_arrays(make_options(**GEOMETRIES[geometry]), n_softmax=2):
        assert hdf5_name(checkpoint_name(name)) == name


@pytest.mark.parametrize(
    ("variable", "dataset"),
    [
        ("lm/char_embed", "char_embed"),
        ("lm/CNN_high_1/W_carry", "CNN_high_1/W_carry"),
        (
            "lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/projection/kernel",
            "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0",
        ),
        ("lm/RNN_1/rnn/lstm_cell/kernel", "RNN_1/RNN/LSTMCell/W_0"),
        ("lm/softmax/W", "softmax/W"),
    ],
)
def test_some_names(variable, dataset):
    assert hdf5_name(variable) == dataset


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_run_of_every_geometry(tmp_path, geometry):
    options = make_options(**GEOMETRIES[geometry])
    model = read(checkpoint_folder(tmp_path / "run", options))
    assert model.config.n_softmax_words == 8
    assert tuple(model.vocabulary.words) == VOCABULARY
    assert any("261" in note for note in model.notes)
    bilm_hdf5.write(model, tmp_path / "dump")
    found = read_hdf5(tmp_path / "dump" / "weights.hdf5")
    expected = bilm_arrays(options, n_softmax=8)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_golden_dump(golden_path, tmp_path):
    folder = golden_path("generated/bilm-tf")
    bilm_hdf5.write(read(folder / "checkpoint"), tmp_path / "dump")
    found = read_hdf5(tmp_path / "dump" / "weights.hdf5")
    expected = read_hdf5(folder / "checkpoint_dumped_weights.hdf5")
    assert set(found) - set(expected) == {"softmax/W", "softmax/b"}
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_without_a_vocabulary_the_softmax_stays(tmp_path):
    model = read(checkpoint_folder(tmp_path / "run", vocab=None))
    assert model.vocabulary is None
    assert model.config.n_softmax_words == 8


def test_a_vocabulary_of_another_run(tmp_path):
    folder = checkpoint_folder(tmp_path / "run")
    (folder / "vocab.txt").write_text("<S>\n</S>\n")
    refused(lambda: read(folder), "softmax has 8 words, the vocabulary 2", kind=FormatError)


def test_options_may_lie_elsewhere(tmp_path):
    folder = checkpoint_folder(tmp_path / "run")
    shutil.move(folder / "options.json", tmp_path / "mine.json")
    refused(lambda: read(folder), "one options.json", "pass options=", kind=FormatError)
    assert read(folder, options=tmp_path / "mine.json").config.lstm.cell_dim == 16


def test_other_precisions_become_float32(tmp_path):
    variables = checkpoint_variables(bilm_arrays(make_options(), n_softmax=8))
    for name in ("lm/softmax/W", "lm/char_embed"):
        variables[name] = variables[name].astype(np.float64)
    model = read(checkpoint_folder(tmp_path / "run", variables=variables))
    assert {tensor.dtype for tensor in model.weights.values()} == {
        model.weights["softmax.bias"].dtype
    }
    ELMo(model)


def changed_variables(change):
    variables = checkpoint_variables(bilm_arrays(make_options(), n_softmax=8))
    change(variables)
    return variables


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda v: v.update({"dense/kernel": np.zeros(3, np.float32)}),
            ["begin with lm/", "dense/kernel", "another program"],
        ),
        (lambda v: v.clear() or v.update(global_step=np.float32(1)), ["begin with lm/", "none"]),
        (
            lambda v: [v.pop(name) for name in list(v) if name.startswith("lm/RNN_1/")],
            ["no backward LSTM", "unidirectional"],
        ),
        (lambda v: v.pop("lm/char_embed"), ["char_embed is missing"]),
        (
            lambda v: v.update({"lm/char_embed": np.zeros((3, 4), np.float32)}),
            ["char_embed has shape (3, 4)"],
        ),
        (
            lambda v: v.update({"lm/what": np.zeros(3, np.float32)}),
            ["what is not expected"],
        ),
        (lambda v: v.pop("lm/softmax/b"), ["softmax/b is missing"]),
        (
            lambda v: v.update({"lm/CNN_proj/b_proj": np.full(8, np.nan, np.float32)}),
            ["NaN or infinite"],
        ),
    ],
)
def test_what_is_no_bilm(tmp_path, change, words):
    folder = checkpoint_folder(tmp_path / "run", variables=changed_variables(change))
    refused(lambda: read(folder), *words, kind=FormatError)


def test_a_run_in_one_direction(tmp_path):
    folder = checkpoint_folder(tmp_path / "run")
    options = {**make_options(), "bidirectional": False}
    (folder / "options.json").write_text(json.dumps(options))
    refused(lambda: read(folder), "unidirectional", kind=FormatError)
