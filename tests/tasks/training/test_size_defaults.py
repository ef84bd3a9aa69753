"""Tests of the batch size and the warm-up for training sets of different sizes."""

from dataclasses import replace

import pytest

from elmo.config.serialization import load_config, presets
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_presets import task_presets
from elmo.tasks.training.size_defaults import with_size_defaults
from elmo.train.run_folder import write_config


def sizes(out, n_examples, source="tagging", **settings):
    """Return the batch size and the number of warm-up steps."""
    known = task_presets() | presets("tasks")
    config = load_config(TaskConfig, source, {"out": str(out), **settings}, known)
    config = with_size_defaults(config, n_examples)
    return config.batch_size, config.optimizer.warmup_steps


@pytest.mark.parametrize(
    ("n_examples", "expected"),
    [(14000, (32, 50)), (1600, (32, 50)), (799, (31, 26)), (54, (2, 27)), (5, (2, 3)), (1, (2, 1))],
)
def test_small_training_sets_have_small_batches_and_short_warm_up(tmp_path, n_examples, expected):
    assert sizes(tmp_path, n_examples) == expected


@pytest.mark.parametrize("name", presets("tasks"))
def test_presets_on_large_data_sets_are_not_changed(tmp_path, name):
    expected = {"sst5": 256, "sst2": 256, "nsmc": 128, "snli": 64}
    expected |= {"litbank": 1, "conll2012-coref": 1}
    assert sizes(tmp_path, 200_000, name) == (expected.get(name, 32), 50)


def test_options_of_the_user_are_kept(tmp_path):
    assert sizes(tmp_path, 54, batch_size=16, warmup_steps=0) == (16, 0)


def test_warm_up_is_a_tenth_of_short_runs(tmp_path):
    assert sizes(tmp_path, 20000, max_steps=60) == (32, 6)
    assert sizes(tmp_path, 270, epochs=3) == (10, 8)
    # These numbers are multiplied by the fraction.
    assert sizes(tmp_path, 200, fraction=0.01) == (8, 50)
    assert sizes(tmp_path, 200, fraction=0.01, keep_steps=True) == (32, 50)


def test_resumed_run_keeps_its_values(tmp_path):
    """They are recorded also by versions with fixed defaults, and the run can be made longer."""
    config = load_config(TaskConfig, None, {"out": str(tmp_path), "batch_size": 32})
    optimizer = replace(config.optimizer, warmup_steps=50)
    write_config(tmp_path, replace(config, optimizer=optimizer))
    assert sizes(tmp_path, 54, epochs=40) == (32, 50)
    (tmp_path / "config.yaml").write_text("unknown: 1")
    assert sizes(tmp_path, 54) == (2, 27)
