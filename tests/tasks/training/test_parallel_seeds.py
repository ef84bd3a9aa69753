"""Tests of training with several seeds in parallel processes."""

import os

import pytest
import torch
from parallel_fits import fail_if_bad, kill_process, report_process
from safetensors.torch import load_file
from small_tasks import LABELED, task_config, write_elmo, write_jsonl

from elmo.errors import ElmoError, OutputError
from elmo.tasks.training import fit as fit_module
from elmo.tasks.training.fit import fit
from elmo.tasks.training.parallel_seeds import OUTPUT, run_in_parallel


def test_parallel_seeds_give_the_same_results_as_sequential_seeds(tmp_path, monkeypatch):
    settings = {
        "train": write_jsonl(tmp_path / "labels.jsonl", LABELED),
        "model": write_elmo(tmp_path),
        "max_steps": 3,
        "seeds": 2,
    }
    monkeypatch.setattr(fit_module, "draw_mixes", lambda *arguments: None)
    sequential = fit(task_config(tmp_path / "sequential", **settings))
    parallel = fit(task_config(tmp_path / "parallel", **settings, parallel_seeds=2))
    parallel_scores, sequential_scores = (
        [run["development"] for run in result.runs] for result in (parallel, sequential)
    )
    assert parallel_scores == sequential_scores
    assert parallel.metric == sequential.metric == "accuracy"
    for name in ("seed-1", "seed-2"):
        weights = [
            load_file(tmp_path / mode / name / "model" / "model.safetensors")
            for mode in ("sequential", "parallel")
        ]
        torch.testing.assert_close(*weights, rtol=0, atol=0)


def configs(tmp_path, *names):
    return [task_config(tmp_path / name, train="x") for name in names]


def test_parallel_runs_use_separate_processes_and_return_results_in_order(tmp_path):
    results = run_in_parallel(report_process, configs(tmp_path, *"ab"), 2)
    assert [result["out"] for result in results] == [str(tmp_path / name) for name in "ab"]
    assert len({os.getpid(), *(result["process"] for result in results)}) == 3
    assert (tmp_path / "b" / OUTPUT).read_text() == "output\n"


def test_error_in_a_parallel_run_is_raised_unchanged(tmp_path):
    with pytest.raises(ElmoError, match=r"^example error$"):
        run_in_parallel(fail_if_bad, configs(tmp_path, "bad", "never"), 1)


def test_killed_parallel_run_raises_output_error(tmp_path):
    with pytest.raises(OutputError, match=r"ended early \(exit status -9\)"):
        run_in_parallel(kill_process, configs(tmp_path, "a"), 1)
