"""Tests of logging to an MLflow store in a folder: new runs, resumed runs, errors."""

import dataclasses
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from elmo.config import PretrainConfig, RunConfig
from elmo.errors import ConfigError, MissingExtra
from elmo.train.mlflow_tracking import EXPERIMENT, flatten
from elmo.train.report import Report


@pytest.fixture
def config(tmp_path):
    return PretrainConfig(
        ("corpus",), "run", run=RunConfig(mlflow=True, mlflow_store=str(tmp_path / "store"))
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def runs(config):
    client = MlflowClient(tracking_uri=Path(config.run.mlflow_store).as_uri())
    experiment = client.get_experiment_by_name(EXPERIMENT)
    return client, client.search_runs([experiment.experiment_id])


def test_resumed_training_continues_the_same_mlflow_run(folder, config):
    report = Report(folder, config)
    report.step(1, {"loss": 3.0})
    report.close(finished=False)
    client, (run,) = runs(config)
    assert run.info.status == "KILLED"
    with Report(folder, config, resume_step=1) as report:
        assert runs(config)[1][0].info.status == "RUNNING"
        report.step(2, {"loss": 2.0})
        report.evaluation(2, {"forward": 80.0})
    client, (run,) = runs(config)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "run"
    history = client.get_metric_history(run.info.run_id, "step/loss")
    assert [(metric.step, metric.value) for metric in history] == [(1, 3.0), (2, 2.0)]
    assert run.data.metrics["evaluation/forward"] == 80.0
    assert run.data.params["lstm.cell_dim"] == "4096"
    assert set(run.data.params) == set(flatten(config))


def test_new_training_creates_a_new_mlflow_run(folder, config):
    for _ in range(2):
        Report(folder, config).close()
    assert len(runs(config)[1]) == 2


def test_resumed_training_creates_a_new_mlflow_run_if_the_id_is_unknown(folder, config):
    Report(folder, config).close()
    (folder / "mlflow.json").write_text('{"run_id": "0123456789abcdef0123456789abcdef"}')
    Report(folder, config, resume_step=3).close()
    assert len(runs(config)[1]) == 2


def test_training_continues_with_a_warning_if_the_mlflow_store_fails(
    folder, config, monkeypatch, caplog
):
    def fail(*_, **__):
        raise OSError("store\nis gone")

    with Report(folder, config) as report:
        monkeypatch.setattr(report._tracking._client, "log_batch", fail)
        report.step(1, {"loss": 1.0})
        report.step(2, {"loss": 1.0})
    assert caplog.text.count("disabled for the rest of this run: OSError: store is gone") == 1
    report = Report(folder, config)
    monkeypatch.setattr(report._tracking._client, "set_terminated", fail)
    report.close()
    assert "status of the MLflow run could not be updated" in caplog.text


def test_report_rejects_unusable_mlflow_stores(folder, config, tmp_path):
    database = dataclasses.replace(config.run, mlflow_store=f"nonsense://{tmp_path}")
    with pytest.raises(ConfigError, match="cannot be opened"):
        Report(folder, dataclasses.replace(config, run=database))
    (tmp_path / "file").write_text("")
    file = dataclasses.replace(config.run, mlflow_store=str(tmp_path / "file" / "store"))
    with pytest.raises(ConfigError, match="cannot be"):
        Report(folder, dataclasses.replace(config, run=file))
    assert list(folder.iterdir()) == []


def test_report_raises_missing_extra_if_mlflow_is_not_installed(folder, config, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match="mlflow"):
        Report(folder, config)
