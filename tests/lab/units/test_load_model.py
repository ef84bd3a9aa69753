"""Tests of the models whose units can be read."""

import shutil

import pytest
from conftest import TINY
from small_networks import small_network
from small_tasks import make_fitted_task, write_elmo

from elmo.errors import ConfigError, FormatError
from elmo.formats.pretrained import Pretrained
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.lab.units.load_model import load_model
from elmo.tasks.fitted.trained_model import TrainedModel


def write_task(folder, **settings):
    """Write a task model with its initial weights."""
    make_fitted_task(folder / "out", **settings).save(folder)


def test_language_model_folder_is_loaded(tmp_path):
    network, symbols = small_network()
    write_model(RecurrentModel(network, symbols, {}), tmp_path / "model")
    assert isinstance(load_model(str(tmp_path), "cpu"), RecurrentModel)


def test_frozen_elmo_of_task_model_is_loaded_by_name(tmp_path):
    write_task(tmp_path, model="small-en")
    model = load_model(str(tmp_path), "cpu")
    assert isinstance(model, Pretrained)
    assert model.config == load_model("small-en", "cpu").config


def test_frozen_elmo_that_was_moved_with_task_model_is_loaded(tmp_path):
    elmo = write_elmo(tmp_path / "first" / "elmo")
    write_task(tmp_path / "first" / "task", model=elmo)
    (tmp_path / "first").rename(tmp_path / "second")
    assert load_model(str(tmp_path / "second" / "task"), "cpu").config.lstm == TINY.lstm


def test_tuned_elmo_of_task_model_is_loaded(tmp_path):
    write_task(tmp_path / "model", model=write_elmo(tmp_path / "elmo"), use="tuned")
    shutil.rmtree(tmp_path / "elmo")
    assert load_model(str(tmp_path), "cpu").config.lstm == TINY.lstm


def test_encoder_of_task_model_is_loaded(tmp_path):
    write_task(tmp_path / "model")
    assert isinstance(load_model(str(tmp_path), "cpu", "encoder"), TrainedModel)


def test_task_model_without_elmo_is_rejected(tmp_path):
    write_task(tmp_path)
    with pytest.raises(ConfigError, match=r"no ELMo in .*network: encoder"):
        load_model(str(tmp_path), "cpu")


def test_task_model_without_lstm_is_rejected(tmp_path):
    write_task(tmp_path, hidden=0)
    with pytest.raises(ConfigError, match=r"has no LSTM \(its option hidden is 0\)"):
        load_model(str(tmp_path), "cpu", "encoder")


@pytest.mark.parametrize("source", ["small-en", "missing"])
def test_encoder_of_other_models_is_rejected(source):
    with pytest.raises(ConfigError, match=f"{source} is not a task model"):
        load_model(source, "cpu", "encoder")


def test_missing_model_is_rejected(tmp_path):
    with pytest.raises(FormatError, match="does not exist"):
        load_model(str(tmp_path / "missing"), "cpu")
