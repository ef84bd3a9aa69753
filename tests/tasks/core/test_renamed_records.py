"""Tests of loading fitted task models and checkpoints from earlier versions."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_tasks import EXAMPLES, fabric, make_fitted_task, weights, write_elmo

from elmo.tasks.core.renamed_records import (
    RENAMED_KEYS,
    RENAMED_SETTINGS,
    RENAMED_WEIGHTS,
    upgrade_record,
    upgrade_weights,
)
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.training.task_trainable import TaskTrainingJob


def with_old_names(tensors):
    """Return the weights under their names in earlier versions."""
    old_names = {}
    for name in tensors:
        old, new = next(
            ((old, new) for old, new in RENAMED_WEIGHTS.items() if name.startswith(new)), ("", "")
        )
        old_names[name] = old + name.removeprefix(new)
    return {old_names[name]: value for name, value in tensors.items()}


def trainable(folder, **settings):
    examples = EXAMPLES["sentence_pairs"]
    fitted = make_fitted_task(folder, examples, task="sentence_pairs", **settings)
    return TaskTrainingJob(fitted, examples, ()).make_trainable(fabric())


@pytest.fixture
def settings(tmp_path):
    """Settings of a model with all input features."""
    (tmp_path / "vectors.txt").write_text("fine 1 2\nfilm 3 4\n")
    return {
        "model": write_elmo(tmp_path / "elmo"),
        "placement": "both",
        "word_vectors": str(tmp_path / "vectors.txt"),
    }


def test_fitted_task_with_old_names_is_loaded(tmp_path, settings):
    fitted = trainable(tmp_path / "run", **settings).fitted
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    old = with_old_names(tensors)
    prefixes = ("tokens.static.", "tokens.letters.", "tokens.marks.", "tokens.mix.", "body.")
    assert all(any(name.startswith(prefix) for name in old) for prefix in prefixes)
    save_file(old, path)
    config = tmp_path / "model" / "config.json"
    record = json.loads(config.read_text())
    record["kind"] = {"measure": record.pop("task_settings")["metric"]}
    config.write_text(json.dumps(record))
    loaded = load_fitted_task(tmp_path / "model")
    expected = weights(fitted)
    assert all(torch.equal(value, expected[name]) for name, value in weights(loaded).items())
    assert vars(loaded.task) == vars(fitted.task)


@pytest.mark.parametrize("use", ["frozen", "tuned"])
def test_checkpoint_with_old_names_is_loaded(tmp_path, settings, use):
    first = trainable(tmp_path / "run", use=use, **settings)
    first.step(next(first.batches(0)), 0)
    state = first.state_dict()
    state["weights"] = with_old_names(state["weights"])
    assert any(name.startswith("tokens.network.") for name in state["weights"]) == (use == "tuned")
    second = trainable(tmp_path / "run", use=use, **settings)
    second.load_state_dict(state)
    expected = weights(first.fitted)
    assert all(torch.equal(value, expected[name]) for name, value in weights(second.fitted).items())


def test_current_names_of_weights_and_settings_are_not_changed():
    names = [*RENAMED_WEIGHTS.values(), "head.out.weight"]
    assert list(upgrade_weights(dict.fromkeys(names))) == names
    record = {**dict.fromkeys(RENAMED_KEYS.values()), "labels": []}
    record["task_settings"] = dict.fromkeys(RENAMED_SETTINGS.values(), 1)
    assert upgrade_record(record) == record
