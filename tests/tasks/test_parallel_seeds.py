"""Seeds in processes of their own come to what they come to one after another."""

import os

import pytest
import torch
from parallel_fits import ended, failing, named
from safetensors.torch import load_file
from small_tasks import LABELED, task_config, write_elmo, write_jsonl

from elmo.errors import ElmoError, OutputError
from elmo.tasks import fit as fit_module
from elmo.tasks.fit import fit
from elmo.tasks.parallel_seeds import OUTPUT, run_in_parallel
from elmo.train import loop


def test_seeds_side_by_side_equal_those_one_after_another(tmp_path, monkeypatch):
    given = {
        "train": write_jsonl(tmp_path / "labels.jsonl", LABELED),
        "model": write_elmo(tmp_path),
        "max_steps": 3,
        "seeds": 2,
    }
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)
    monkeypatch.setattr(fit_module, "draw_mixes", lambda *given: None)
    one = fit(task_config(tmp_path / "one", **given))
    both = fit(task_config(tmp_path / "both", **given, parallel_seeds=2))
    assert [run["development"] for run in both.runs] == [run["development"] for run in one.runs]
    assert both.metric == one.metric == "accuracy"
    for name in ("seed-1", "seed-2"):
        weights = [
            load_file(tmp_path / way / name / "model" / "model.safetensors")
            for way in ("one", "both")
        ]
        torch.testing.assert_close(*weights, rtol=0, atol=0)


def configs(tmp_path, *names):
    return [task_config(tmp_path / name, train="x") for name in names]


def test_results_are_in_order_each_from_a_process_of_its_own(tmp_path):
    found = run_in_parallel(named, configs(tmp_path, *"ab"), 2)
    assert [one["out"] for one in found] == [str(tmp_path / name) for name in "ab"]
    assert len({os.getpid(), *(one["process"] for one in found)}) == 3
    assert (tmp_path / "b" / OUTPUT).read_text() == "said\n"


def test_an_error_is_the_one_of_the_run(tmp_path):
    with pytest.raises(ElmoError, match=r"^no such thing$"):
        run_in_parallel(failing, configs(tmp_path, "bad", "never"), 1)


def test_a_process_that_was_killed_is_told(tmp_path):
    with pytest.raises(OutputError, match=r"ended too early \(exit status -9\)"):
        run_in_parallel(ended, configs(tmp_path, "a"), 1)
