"""Tests for the model cards of task models."""

from dataclasses import replace

import pytest
import yaml
from small_tasks import task_config

import elmo.tasks
from elmo.tasks.fitted.fitted_task import ModelRecord
from elmo.tasks.fitted.task_card import task_card
from elmo.tasks.registry.task_rows import TASKS

ATTRIBUTION = {"language": "en", "license": "cc-by-sa-4.0", "derived_from": "small-en"}


@pytest.fixture
def record():
    facts = {"steps": 30, "program": "elmo-torch 1", "development": {"accuracy": 0.5}}
    return ModelRecord(task_config("", model="small-en"), ["a|b", "c"], {}, facts, "0")


def test_card_describes_model_and_scores(record):
    card = task_card(record, "ada/task", ATTRIBUTION, includes_elmo=False)
    header = yaml.safe_load(card.split("---\n")[1])
    assert header == {
        "library_name": "elmo-torch",
        "language": "en",
        "pipeline_tag": "text-classification",
        "tags": ["elmo", "classification"],
    }
    assert 'Classifier.load("ada/task")' in card
    for row in (
        "| labels | 2: a\\|b, c |",
        "| development accuracy | 0.5000 |",
        "| ELMo | small-en (frozen), layers all |",
        "| ELMo license | cc-by-sa-4.0 |",
        "| steps | 30 |",
    ):
        assert row in card.splitlines()


def test_license_of_an_included_elmo_holds_for_the_repository(record):
    tuned = replace(record.config, elmo=replace(record.config.elmo, use="tuned"))
    card = task_card(replace(record, config=tuned), "ada/task", ATTRIBUTION, includes_elmo=True)
    assert yaml.safe_load(card.split("---\n")[1])["license"] == "cc-by-sa-4.0"
    assert "| ELMo | included (fine-tuned, derived from small-en), layers all |" in card


@pytest.mark.parametrize("task", TASKS)
def test_example_names_the_estimator_of_the_task(record, task):
    example = TASKS[task].example
    config = record.config if example is None else task_config("", task=task)
    if example is None:
        config = replace(config, task=task, options=None)
    card = task_card(replace(record, config=config), "ada/task", {}, includes_elmo=False)
    if example is not None:
        name, texts = example
        assert getattr(elmo.tasks, name).task == task
        assert f"model.predict({texts})" in card
    else:
        assert "elmo task predict ada/task texts.txt" in card
