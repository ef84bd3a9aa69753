"""Tests of the models whose units can be read."""

import json

import pytest
from conftest import TINY, random_model
from small_networks import small_network

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.formats.pretrained import Pretrained
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.lab.units.load_model import TASK_FORMAT, TUNED, load_model
from elmo.tasks.fitted import fitted_task


def write_record(folder, elmo):
    record = {"format": TASK_FORMAT, "config": {"elmo": {"model": elmo}}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(record), encoding="utf-8")


def test_names_of_task_models_are_those_of_task_package():
    assert (TASK_FORMAT, TUNED) == (fitted_task.FORMAT, fitted_task.TUNED)


def test_language_model_folder_is_loaded(tmp_path):
    network, symbols = small_network()
    write_model(RecurrentModel(network, symbols, {}), tmp_path / "model")
    assert isinstance(load_model(str(tmp_path), "cpu"), RecurrentModel)


def test_frozen_elmo_of_task_model_is_loaded_by_name(tmp_path):
    write_record(tmp_path, "small-en")
    model = load_model(str(tmp_path), "cpu")
    assert isinstance(model, Pretrained)
    assert model.config == load_model("small-en", "cpu").config


def test_tuned_elmo_of_task_model_is_loaded(tmp_path):
    write_record(tmp_path / "model", "small-en")
    ELMo(random_model(TINY)).save_pretrained(tmp_path / "model" / TUNED)
    assert load_model(str(tmp_path), "cpu").config.lstm == TINY.lstm


def test_task_model_without_elmo_is_rejected(tmp_path):
    write_record(tmp_path, None)
    with pytest.raises(ConfigError, match="has no ELMo model"):
        load_model(str(tmp_path), "cpu")


def test_missing_model_is_rejected(tmp_path):
    with pytest.raises(FormatError, match="does not exist"):
        load_model(str(tmp_path / "missing"), "cpu")
