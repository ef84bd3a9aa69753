"""Tests for reading bilm-tf checkpoints as models."""

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
from sources import assert_error

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats import bilm_hdf5
from elmo.formats.bilm_tf import hdf5_name
from elmo.formats.load import read


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_hdf5_name_returns_dataset_name_for_every_variable(geometry):
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
def test_hdf5_name_returns_expected_name_for_known_variables(variable, dataset):
    assert hdf5_name(variable) == dataset


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_read_is_bit_identical_for_every_architecture(tmp_path, geometry):
    options = make_options(**GEOMETRIES[geometry])
    model = read(checkpoint_folder(tmp_path / "run", options))
    assert model.config.n_softmax_words == 8
    assert tuple(model.vocabulary.words) == VOCABULARY
    assert any("261" in note for note in model.notes)
    bilm_hdf5.write(model, tmp_path / "dump")
    actual = read_hdf5(tmp_path / "dump" / "weights.hdf5")
    expected = bilm_arrays(options, n_softmax=8)
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert actual[name].tobytes() == array.tobytes(), name


def test_golden_checkpoint_matches_its_hdf5_dump(golden_path, tmp_path):
    folder = golden_path("generated/bilm-tf")
    bilm_hdf5.write(read(folder / "checkpoint"), tmp_path / "dump")
    actual = read_hdf5(tmp_path / "dump" / "weights.hdf5")
    expected = read_hdf5(folder / "checkpoint_dumped_weights.hdf5")
    assert set(actual) - set(expected) == {"softmax/W", "softmax/b"}
    for name, array in expected.items():
        assert actual[name].tobytes() == array.tobytes(), name


def test_read_without_vocabulary_still_returns_softmax(tmp_path):
    model = read(checkpoint_folder(tmp_path / "run", vocab=None))
    assert model.vocabulary is None
    assert model.config.n_softmax_words == 8


def test_read_rejects_vocabulary_from_another_training_run(tmp_path):
    folder = checkpoint_folder(tmp_path / "run")
    (folder / "vocab.txt").write_text("<S>\n</S>\n")
    assert_error(
        lambda: read(folder), "softmax has 8 words but the vocabulary has 2", error_type=FormatError
    )


def test_read_accepts_options_file_in_another_folder(tmp_path):
    folder = checkpoint_folder(tmp_path / "run")
    shutil.move(folder / "options.json", tmp_path / "mine.json")
    assert_error(lambda: read(folder), "one options.json", "Pass options=", error_type=FormatError)
    assert read(folder, options=tmp_path / "mine.json").config.lstm.cell_dim == 16


def test_variables_of_other_dtypes_are_converted_to_float32(tmp_path):
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
    ("change", "phrases"),
    [
        (
            lambda v: v.update({"dense/kernel": np.zeros(3, np.float32)}),
            ["start with lm/", "dense/kernel", "not a bilm-tf checkpoint"],
        ),
        (
            lambda v: v.clear() or v.update(global_step=np.float32(1)),
            ["start with lm/", "no variables"],
        ),
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
            lambda v: v.update({"lm/extra": np.zeros(3, np.float32)}),
            ["unexpected array extra"],
        ),
        (lambda v: v.pop("lm/softmax/b"), ["softmax/b is missing"]),
        (
            lambda v: v.update({"lm/CNN_proj/b_proj": np.full(8, np.nan, np.float32)}),
            ["NaN or infinite"],
        ),
    ],
)
def test_read_rejects_checkpoint_with_invalid_variables(tmp_path, change, phrases):
    folder = checkpoint_folder(tmp_path / "run", variables=changed_variables(change))
    assert_error(lambda: read(folder), *phrases, error_type=FormatError)


def test_read_rejects_checkpoint_of_unidirectional_model(tmp_path):
    folder = checkpoint_folder(tmp_path / "run")
    options = {**make_options(), "bidirectional": False}
    (folder / "options.json").write_text(json.dumps(options))
    assert_error(lambda: read(folder), "unidirectional", error_type=FormatError)
