"""Tests of `elmo info` for task models."""

import json

import pytest
from small_tasks import LABELED, TAGGED, make_fitted_task, write_elmo

from elmo.config import EmbedConfig, InfoConfig
from elmo.embed import embed
from elmo.errors import ConfigError, FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.fitted.task_description import MAX_LABELS
from elmo.tasks.prediction.task_info import info


def test_info_describes_a_task_model_and_its_training_folder(tmp_path):
    elmo = write_elmo(tmp_path / "elmo")
    fitted = make_fitted_task(tmp_path, TAGGED, task="tagging", model=elmo)
    fitted.facts = {
        "program": "elmo-torch 0",
        "steps": 1234,
        "development": {"span_f1": 0.5},
        "mixes": fitted.built.model.shares(),
    }
    fitted.save(tmp_path / "run" / "model")
    for folder in ("run", "run/model"):
        result = info(InfoConfig(str(tmp_path / folder)))
        text = str(result)
        assert "elmo-torch task model" in text
        assert result.rows["task"] == "tagging"
        assert result.rows["types"] == "2: LOC, PER"
        assert "labels" not in result.rows
        assert result.rows["tag_scheme"] == "IOB2"
        assert result.rows["ELMo"] == f"{elmo} (frozen), layers all"
        assert "ELMo_license" not in result.rows
        assert result.rows["development_span_f1"] == "0.5000"
        assert "mix at input" in text
        assert "1,234" in text
        assert json.loads(json.dumps(result.to_dict()))["config"]["task"] == "tagging"
    with pytest.raises(ConfigError, match="--options does not apply to the task model"):
        info(InfoConfig(str(tmp_path / "run"), options="x"))


def test_info_shows_the_license_of_the_elmo_model(tmp_path):
    expected = info(InfoConfig("small-en")).rows["license"]
    make_fitted_task(tmp_path, LABELED, model="small-en").save(tmp_path / "model")
    result = info(InfoConfig(str(tmp_path)))
    assert result.rows["ELMo_license"] == expected
    assert "ELMo license" in str(result)


def test_info_describes_a_task_model_whose_elmo_model_is_missing(tmp_path):
    elmo = write_elmo(tmp_path / "elmo")
    make_fitted_task(tmp_path, LABELED, model=elmo).save(tmp_path / "model")
    (tmp_path / "elmo").rename(tmp_path / "moved")
    assert info(InfoConfig(str(tmp_path / "model"))).rows["ELMo"].startswith(elmo)


def test_info_shortens_a_long_list_of_labels(tmp_path):
    examples = [Example((("a",),), f"label{n:02}") for n in range(30)]
    make_fitted_task(tmp_path, examples).save(tmp_path / "model")
    labels = info(InfoConfig(str(tmp_path))).rows["labels"]
    assert labels.startswith("30: label00, ")
    assert labels.endswith(f"and {30 - MAX_LABELS} more")


def test_info_asks_for_one_of_several_seeds(tmp_path):
    make_fitted_task(tmp_path, LABELED).save(tmp_path / "run" / "seed-1" / "model")
    with pytest.raises(FormatError, match="contains several models, one per seed"):
        info(InfoConfig(str(tmp_path / "run")))


def test_info_describes_other_models_as_before(tmp_path):
    assert info(InfoConfig(write_elmo(tmp_path / "elmo"))).rows["format"] != "elmo-torch task model"


def test_info_describes_a_prepared_corpus(corpus):
    result = info(InfoConfig(str(corpus)))
    assert result.rows["format"] == "prepared corpus"
    assert "train" in str(result)
    assert result.to_dict()["config"]["version"] == 1
    with pytest.raises(ConfigError, match="--options does not apply to the prepared corpus"):
        info(InfoConfig(str(corpus), options="x"))


def test_info_describes_vectors(tmp_path):
    (tmp_path / "text.txt").write_text("a b\n")
    path = str(tmp_path / "vectors.h5")
    embed(EmbedConfig(str(tmp_path / "text.txt"), path, model=write_elmo(tmp_path / "elmo")))
    assert f'open with       elmo.open_embeddings("{path}")' in str(info(InfoConfig(path)))
    with pytest.raises(ConfigError, match="--options does not apply to the vectors"):
        info(InfoConfig(path, options="x"))
