"""The loop with a work that is no language model: one number, drawn to the mean of a few others."""

import json
import math
import os
import signal
from dataclasses import dataclass, replace

import pytest
import torch

from elmo.config import RunConfig
from elmo.errors import ConfigError, TrainingError
from elmo.train import checkpoint
from elmo.train.loop import train
from elmo.train.report import read_log
from elmo.train.trainable import StepResult

AIM = 3.0


@dataclass(frozen=True)
class NumberConfig:
    out: str
    run: RunConfig
    rate: float = 0.1


@dataclass(frozen=True)
class Score:
    score: float

    @property
    def rank(self):
        return -self.score

    def values(self):
        return {"loss": -self.score, "closeness": self.score}

    def line(self):
        return f"closeness {self.score:.3f}"


@dataclass
class NumberJob:
    config: NumberConfig
    compare_at: int | None = None
    has_held_out: bool = True
    aim: float = AIM

    def make_trainable(self, fabric):
        self.made = NumberWork(self)
        return self.made


class NumberWork:
    n_steps, steps_per_epoch, tokens_per_step = 20, 5.0, 7
    loss_names = ("loss",)
    chance_loss = 10.0

    def __init__(self, job):
        self.job, self.compare_at = job, job.compare_at
        self.number = torch.zeros(1)
        self.saved = []

    def describe(self):
        return "one number"

    def batches(self, first_step):
        while True:
            draw = torch.Generator().manual_seed(first_step)
            yield self.job.aim + 0.3 * torch.randn(1, generator=draw)
            first_step += 1

    def step(self, batch, number):
        difference = self.number - batch
        rate = self.job.config.rate
        self.number = self.number - rate * difference
        return StepResult(difference**2, difference.abs()[0], rate)

    def memory_advice(self):
        return "take less"

    def measure(self, step, watch):
        if not self.job.has_held_out:
            return None
        near = [abs(aim - float(self.number)) for aim in watch([self.job.aim] * 3)]
        return [-sum(near), float(len(near))]

    def evaluation(self, numbers):
        return Score(numbers[0] / numbers[1])

    def is_finite(self):
        return bool(torch.isfinite(self.number).all())

    def state_dict(self):
        return {"number": self.number, "aim": self.job.aim}

    def load_state_dict(self, state):
        if state["aim"] != self.job.aim:
            raise ConfigError("another aim")
        self.number = state["number"]

    def save_model(self, folder, step, found):
        folder.mkdir(exist_ok=True)
        (folder / "number.json").write_text(json.dumps(self.number.tolist()))
        self.saved.append((step, found))

    def result(self, standing, note):
        return replace(standing), note


def job_of(folder, given=None, **run):
    run = {"log_every": 1, "evaluate_every": 4, "accelerator": "cpu", **run}
    return NumberJob(NumberConfig(str(folder), RunConfig(**run)), **(given or {}))


def events(folder, kind):
    return {
        e["step"]: {n: v for n, v in e.items() if n not in ("time", "tokens_per_second")}
        for e in read_log(folder)
        if e["kind"] == kind
    }


def test_a_run_of_one_loss(tmp_path, capsys):
    standing, note = train(job_of(tmp_path / "run"))
    assert (standing.step, note) == (20, "finished")
    steps = events(tmp_path / "run", "step")
    assert list(steps) == list(range(1, 21))
    names = {"kind", "step", "epoch", "loss", "learning_rate", "gradient_norm"}
    assert set(steps[20]) == names
    assert steps[20]["loss"] < steps[1]["loss"]
    evaluations = events(tmp_path / "run", "evaluation")
    assert list(evaluations) == [4, 8, 12, 16, 20]
    assert evaluations[20]["closeness"] > evaluations[4]["closeness"]
    told = capsys.readouterr().err
    assert told.startswith("one number\n")
    assert f"step 4, epoch 0.80: closeness {evaluations[4]['closeness']:.3f}\n" in told
    assert (tmp_path / "run" / "curves.png").exists()
    assert "rate: 0.1" in (tmp_path / "run" / "config.yaml").read_text()


def test_lower_ranks_are_kept(tmp_path, capsys):
    job = job_of(tmp_path / "run", evaluate_every=1, patience=4)
    job.config = replace(job.config, rate=1.0)
    standing, note = train(job)
    scores = {s: e["closeness"] for s, e in events(tmp_path / "run", "evaluation").items()}
    best = max(scores, key=scores.get)
    assert job.made.saved[-1] == (best, Score(scores[best]))
    assert job.made.evaluation(standing.best) == Score(scores[best])
    assert note == "stopped early, 4 evaluations without a better one"
    assert standing.step == best + 4 < 20
    assert capsys.readouterr().err.count("(not the best)") == standing.step - len(job.made.saved)


def test_patience_begins_when_scores_move(tmp_path, monkeypatch):
    """A model of few examples answers the same for a while before it learns anything."""
    scores = [-3.0] * 6 + [-2.0] * 14
    monkeypatch.setattr(NumberWork, "measure", lambda self, step, watch: [scores[step - 1], 1.0])
    standing, note = train(job_of(tmp_path / "run", evaluate_every=1, patience=2))
    assert note == "stopped early, 2 evaluations without a better one"
    assert (standing.step, standing.best) == (9, [-2.0, 1.0])
    monkeypatch.setattr(NumberWork, "measure", lambda self, step, watch: [-3.0, 1.0])
    standing, note = train(job_of(tmp_path / "still", evaluate_every=1, patience=2))
    assert (standing.step, note) == (20, "finished")


def test_killed_and_gone_on(tmp_path, monkeypatch):
    train(job_of(tmp_path / "whole", log_every=3))
    step = NumberWork.step

    def dying(self, batch, number):
        if number == 13:
            raise ZeroDivisionError
        return step(self, batch, number)

    monkeypatch.setattr(NumberWork, "step", dying)
    with pytest.raises(ZeroDivisionError):
        train(job_of(tmp_path / "parts", log_every=3, checkpoint_every=5))
    monkeypatch.undo()
    train(job_of(tmp_path / "parts", log_every=3, checkpoint_every=5))
    for kind in ("step", "evaluation"):
        assert events(tmp_path / "parts", kind) == events(tmp_path / "whole", kind)
    with pytest.raises(ConfigError, match="another aim"):
        train(job_of(tmp_path / "parts", {"aim": 5.0}, log_every=3))


def test_the_first_evaluation_is_kept_to_compare_with(tmp_path):
    job = job_of(tmp_path / "run", {"compare_at": 3})
    standing, _ = train(job)
    first, *_ = job.made.saved
    assert first == (3, job.made.evaluation(standing.before))
    assert standing.best != standing.before
    assert min(events(tmp_path / "run", "evaluation")) == 3


def test_nothing_held_out(tmp_path):
    job = job_of(tmp_path / "run", {"has_held_out": False})
    standing, _ = train(job)
    assert not standing.best
    assert job.made.saved == [(20, None)]
    assert not events(tmp_path / "run", "evaluation")


def test_a_dry_run(tmp_path):
    standing, note = train(job_of(tmp_path / "run", dry_run=True))
    assert standing.step == 0
    assert "tokens/s" in note
    assert not (tmp_path / "run").exists()


def test_a_signal_while_measuring(tmp_path, monkeypatch):
    measure = NumberWork.measure

    def interrupted(self, step, watch):
        os.kill(os.getpid(), signal.SIGINT)
        return measure(self, step, watch)

    monkeypatch.setattr(NumberWork, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(job_of(tmp_path / "run"))
    found = checkpoint.load_newest(tmp_path / "run" / "checkpoints")
    assert found["standing"]["step"] == 4
    assert set(found) == {"version", "standing", "threads", "number", "aim"}
    # What was cut short is made up for, and all is as if nothing had happened.
    monkeypatch.setattr(NumberWork, "measure", measure)
    train(job_of(tmp_path / "run"))
    train(job_of(tmp_path / "whole"))
    assert events(tmp_path / "run", "evaluation") == events(tmp_path / "whole", "evaluation")


@pytest.mark.parametrize(
    ("error", "message"),
    [(MemoryError(), "take less"), (None, "diverged before step 1: loss nan")],
)
def test_what_stops_a_run(tmp_path, monkeypatch, error, message):
    def step(self, batch, number):
        if error is not None:
            raise error
        self.number = self.number * math.nan
        return StepResult(torch.zeros(1), torch.zeros(()), 0.1)

    monkeypatch.setattr(NumberWork, "step", step)
    with pytest.raises(TrainingError, match=message):
        train(job_of(tmp_path / "run", checkpoint_every=1))
    assert not list((tmp_path / "run").rglob("*.pt"))
