"""Tests of logging to log.jsonl and TensorBoard, including killed and resumed runs."""

import json
import math
import os
import signal
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from elmo.config import PretrainConfig
from elmo.errors import MissingExtra, OutputError
from elmo.train.report import LOG, Report, read_log

CONFIG = PretrainConfig(("corpus",), "run")


def logged(folder):
    """Return the type, step and loss of all logged events."""
    return [(event["kind"], event["step"], event.get("loss")) for event in read_log(folder)]


def fill(folder, steps=3, resume_step=None):
    with Report(folder, CONFIG, resume_step) as report:
        for step in range((resume_step or 0) + 1, steps + 1):
            report.step(step, {"loss": 1.0 / step})


def test_log_file_contains_all_events_in_order(tmp_path):
    with Report(tmp_path, CONFIG) as report:
        report.step(1, {"loss": 2.5, "learning_rate": 0.1})
        report.evaluation(1, {"forward": 90.0})
        report.event("note", 1, {"text": "stopped early", "is_best": True})
    first, second, third = read_log(tmp_path)
    assert first.pop("time") > 0
    assert first == {"kind": "step", "step": 1, "loss": 2.5, "learning_rate": 0.1}
    assert second["forward"] == 90.0
    assert third["text"] == "stopped early"


def test_nan_and_infinity_are_logged_as_null(tmp_path):
    with Report(tmp_path, CONFIG) as report:
        report.step(1, {"loss": math.nan, "norm": math.inf})
    line = json.loads((tmp_path / LOG).read_text(), parse_constant=pytest.fail)
    assert line["loss"] is None
    assert line["norm"] is None


def test_resuming_removes_logged_events_of_later_steps(tmp_path):
    fill(tmp_path, 5)
    with (tmp_path / LOG).open("a") as file:
        file.write('{"kind": "step", "st')
    fill(tmp_path, 4, resume_step=2)
    assert [step for _, step, _ in logged(tmp_path)] == [1, 2, 3, 4]
    assert (tmp_path / LOG).read_text().count("\n") == 4


def test_new_run_replaces_an_existing_log(tmp_path):
    fill(tmp_path, 5)
    fill(tmp_path, 1)
    assert logged(tmp_path) == [("step", 1, 1.0)]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_read_log_skips_invalid_lines(tmp_path):
    fill(tmp_path, 2)
    with (tmp_path / LOG).open("ab") as file:
        file.write(b'\x00\xff\n3\n{"step": "x"}\n')
    assert [step for _, step, _ in logged(tmp_path)] == [1, 2]


def test_log_of_a_killed_process_contains_all_events(tmp_path):
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from elmo.config import PretrainConfig\nfrom elmo.train.report import Report\n"
        "report = Report(Path(sys.argv[1]), PretrainConfig(('x',), 'y'))\n"
        "for step in range(100): report.step(step, {'loss': 1.0})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(logged(tmp_path)) == 100


def test_resuming_hides_later_steps_in_tensorboard(tmp_path, monkeypatch):
    # Files of the same second are sorted by number as text, so that 10 would precede 9.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))
    fill(tmp_path, 5)
    with Report(tmp_path, CONFIG, resume_step=2) as report:
        report.step(3, {"loss": 7.0})
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in board.Scalars("step/loss")] == [
        (1, 1.0),
        (2, 0.5),
        (3, 7.0),
    ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full does not exist")
def test_report_raises_output_error_if_the_disk_is_full(tmp_path):
    report = Report(tmp_path, CONFIG)
    report._file.close()
    report._file = open("/dev/full", "a")
    with pytest.raises(OutputError, match=r"Cannot write .*log.jsonl: No space left"):
        report.step(1, {"loss": 1.0})
    report.close(finished=False)


def test_report_raises_missing_extra_if_tensorboard_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match="train"):
        Report(tmp_path, CONFIG)
