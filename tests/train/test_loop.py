"""Tests of the training loop with a minimal `Trainable` that fits one number to a target."""

import itertools
import json
import math
import os
import signal
import time
from dataclasses import dataclass, replace

import pytest
import torch

from elmo.config import RunConfig
from elmo.errors import ConfigError, TrainingError
from elmo.train import checkpoint
from elmo.train.loop import train
from elmo.train.report import read_log
from elmo.train.trainable import StepResult

TARGET = 3.0


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
    target: float = TARGET
    noise: float = 0.3

    def make_trainable(self, fabric):
        self.trainable = NumberTrainable(self)
        return self.trainable


class NumberTrainable:
    n_steps, steps_per_epoch, tokens_per_step = 20, 5.0, 7
    loss_names = ("loss",)
    loss_unit = "loss"
    chance_loss = 10.0
    warmup_steps = 0

    def __init__(self, job):
        self.job, self.compare_at = job, job.compare_at
        self.number = torch.zeros(1)
        self.saved = []

    def describe(self):
        return "one number"

    def batches(self, first_step):
        while True:
            draw = torch.Generator().manual_seed(first_step)
            yield self.job.target + self.job.noise * torch.randn(1, generator=draw)
            first_step += 1

    def step(self, batch, number, rate_factor):
        difference = self.number - batch
        rate = self.job.config.rate * rate_factor
        self.number = self.number - rate * difference
        return StepResult(difference**2, difference.abs()[0], rate)

    def message(self, step, *, is_evaluated):
        return None

    def memory_advice(self):
        return "take less"

    def shorten(self, batch, n_steps):
        return None

    def measure(self, step, watch):
        if not self.job.has_held_out:
            return None
        errors = [abs(target - float(self.number)) for target in watch([self.job.target] * 3, 3)]
        return [-sum(errors), float(len(errors))]

    def evaluation(self, numbers):
        return Score(numbers[0] / numbers[1])

    def is_finite(self):
        return bool(torch.isfinite(self.number).all())

    def state_dict(self):
        return {"number": self.number, "target": self.job.target}

    def load_state_dict(self, state):
        if state["target"] != self.job.target:
            raise ConfigError("another target")
        self.number = state["number"]

    def save_model(self, folder, step, evaluation):
        folder.mkdir(exist_ok=True)
        (folder / "number.json").write_text(json.dumps(self.number.tolist()))
        self.saved.append((step, evaluation))

    def result(self, state, note):
        return replace(state), note


def make_job(folder, job_options=None, **run):
    run = {"log_every": 1, "evaluate_every": 4, "accelerator": "cpu", **run}
    return NumberJob(NumberConfig(str(folder), RunConfig(**run)), **(job_options or {}))


def events(folder, kind):
    return {
        e["step"]: {n: v for n, v in e.items() if n not in ("time", "tokens_per_second")}
        for e in read_log(folder)
        if e["kind"] == kind
    }


@pytest.mark.usefixtures("curves")
def test_train_logs_steps_and_evaluations(tmp_path, capsys):
    state, note = train(make_job(tmp_path / "run"))
    assert (state.step, note) == (20, "finished")
    steps = events(tmp_path / "run", "step")
    assert list(steps) == list(range(1, 21))
    names = {"kind", "step", "epoch", "loss", "learning_rate", "gradient_norm"}
    assert set(steps[20]) == names
    assert steps[20]["loss"] < steps[1]["loss"]
    evaluations = events(tmp_path / "run", "evaluation")
    assert list(evaluations) == [4, 8, 12, 16, 20]
    assert evaluations[20]["closeness"] > evaluations[4]["closeness"]
    output = capsys.readouterr().err
    assert output.startswith("one number\n")
    assert f"step 4, epoch 0.80: closeness {evaluations[4]['closeness']:.3f}\n" in output
    assert (tmp_path / "run" / "curves.png").exists()
    assert "rate: 0.1" in (tmp_path / "run" / "config.yaml").read_text()


def test_train_saves_the_best_model_and_stops_early(tmp_path, capsys):
    job = make_job(tmp_path / "run", evaluate_every=1, patience=4)
    job.config = replace(job.config, rate=1.0)
    state, note = train(job)
    scores = {s: e["closeness"] for s, e in events(tmp_path / "run", "evaluation").items()}
    best = max(scores, key=scores.get)
    assert job.trainable.saved[-1] == (best, Score(scores[best]))
    assert job.trainable.evaluation(state.best) == Score(scores[best])
    assert note == "stopped early after 4 evaluations without improvement"
    assert state.step == best + 4 < 20
    assert capsys.readouterr().err.count("(no improvement)") == state.step - len(
        job.trainable.saved
    )


def test_early_stopping_counts_evaluations_only_after_the_score_first_changes(
    tmp_path, monkeypatch
):
    """A model trained on few examples can make constant predictions before it starts to learn."""
    scores = [-3.0] * 6 + [-2.0] * 14
    monkeypatch.setattr(
        NumberTrainable, "measure", lambda self, step, watch: [scores[step - 1], 1.0]
    )
    state, note = train(make_job(tmp_path / "run", evaluate_every=1, patience=2))
    assert note == "stopped early after 2 evaluations without improvement"
    assert (state.step, state.best) == (9, [-2.0, 1.0])
    monkeypatch.setattr(NumberTrainable, "measure", lambda self, step, watch: [-3.0, 1.0])
    state, note = train(make_job(tmp_path / "still", evaluate_every=1, patience=2))
    assert (state.step, note) == (20, "finished")


def test_run_that_stopped_early_says_how_to_train_longer(tmp_path):
    job = make_job(tmp_path / "run", evaluate_every=1, patience=4)
    job.config = replace(job.config, rate=1.0)
    first, _ = train(job)
    before = (tmp_path / "run" / "config.yaml").read_text()
    job.config = replace(job.config, run=replace(job.config.run, epochs=30))
    state, note = train(job)
    assert state.step == first.step
    assert note.startswith("nothing to do, because the run has stopped early; to train longer, set")
    assert "--patience above 4 or train again with another --out" in note
    assert (tmp_path / "run" / "config.yaml").read_text() == before
    job.config = replace(job.config, run=replace(job.config.run, patience=6))
    state, note = train(job)
    assert state.step > first.step
    assert "patience: 6" in (tmp_path / "run" / "config.yaml").read_text()


def test_early_stopping_does_not_count_evaluations_during_warm_up(tmp_path, monkeypatch):
    scores = [-3.0, -2.0] + [-4.0] * 18
    monkeypatch.setattr(NumberTrainable, "warmup_steps", 6)
    monkeypatch.setattr(
        NumberTrainable, "measure", lambda self, step, watch: [scores[step - 1], 1.0]
    )
    state, note = train(make_job(tmp_path / "run", evaluate_every=1, patience=2))
    assert note == "stopped early after 2 evaluations without improvement"
    assert state.step == 8


def test_resumed_run_equals_uninterrupted_run(tmp_path, monkeypatch):
    train(make_job(tmp_path / "whole", log_every=3))
    step = NumberTrainable.step

    def dying(self, batch, number, rate_factor):
        if number == 13:
            raise ZeroDivisionError
        return step(self, batch, number, rate_factor)

    monkeypatch.setattr(NumberTrainable, "step", dying)
    with pytest.raises(ZeroDivisionError):
        train(make_job(tmp_path / "parts", log_every=3, checkpoint_every=5))
    monkeypatch.undo()
    train(make_job(tmp_path / "parts", log_every=3, checkpoint_every=5))
    for kind in ("step", "evaluation"):
        assert events(tmp_path / "parts", kind) == events(tmp_path / "whole", kind)
    with pytest.raises(ConfigError, match="another target"):
        train(make_job(tmp_path / "parts", {"target": 5.0}, log_every=3))


def test_checkpoint_from_older_version_with_old_run_state_key_is_resumed(tmp_path, monkeypatch):
    train(make_job(tmp_path / "whole"))
    monkeypatch.setattr(NumberTrainable, "n_steps", 8)
    train(make_job(tmp_path / "parts"))
    monkeypatch.undo()
    folder = tmp_path / "parts" / "checkpoints"
    content = checkpoint.load_newest(folder)
    content["standing"] = content.pop("run_state")
    checkpoint.save(folder, 8, content)
    state, _ = train(make_job(tmp_path / "parts"))
    assert state.step == 20
    assert events(tmp_path / "parts", "evaluation") == events(tmp_path / "whole", "evaluation")


def test_compare_at_evaluates_the_baseline_before_the_given_step(tmp_path):
    job = make_job(tmp_path / "run", {"compare_at": 3})
    state, _ = train(job)
    first, *_ = job.trainable.saved
    assert first == (3, job.trainable.evaluation(state.before))
    assert state.best != state.before
    assert min(events(tmp_path / "run", "evaluation")) == 3


def test_train_without_held_out_data_saves_the_last_model(tmp_path):
    job = make_job(tmp_path / "run", {"has_held_out": False})
    state, _ = train(job)
    assert not state.best
    assert job.trainable.saved == [(20, None)]
    assert not events(tmp_path / "run", "evaluation")


def test_dry_run_measures_speed_without_writing_files(tmp_path):
    state, note = train(make_job(tmp_path / "run", dry_run=True))
    assert state.step == 0
    assert "tokens/s" in note
    assert not (tmp_path / "run").exists()


def test_signal_during_evaluation_writes_a_checkpoint(tmp_path, monkeypatch):
    measure = NumberTrainable.measure

    def interrupted(self, step, watch):
        os.kill(os.getpid(), signal.SIGINT)
        return measure(self, step, watch)

    monkeypatch.setattr(NumberTrainable, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(make_job(tmp_path / "run"))
    content = checkpoint.load_newest(tmp_path / "run" / "checkpoints")
    assert content["run_state"]["step"] == 4
    assert set(content) == {"version", "run_state", "threads", "number", "target"}
    # The resumed run repeats the interrupted evaluation.
    monkeypatch.setattr(NumberTrainable, "measure", measure)
    train(make_job(tmp_path / "run"))
    train(make_job(tmp_path / "whole"))
    assert events(tmp_path / "run", "evaluation") == events(tmp_path / "whole", "evaluation")


@pytest.mark.parametrize(
    ("error", "message"),
    [(MemoryError(), "take less"), (None, "diverged before step 1: loss nan")],
)
def test_train_raises_an_error_on_out_of_memory_and_nan_weights(
    tmp_path, monkeypatch, error, message
):
    def step(self, batch, number, rate_factor):
        if error is not None:
            raise error
        self.number = self.number * math.nan
        return StepResult(torch.zeros(1), torch.zeros(()), 0.1)

    monkeypatch.setattr(NumberTrainable, "step", step)
    with pytest.raises(TrainingError, match=message):
        train(make_job(tmp_path / "run", checkpoint_every=1))
    assert not list((tmp_path / "run").rglob("*.pt"))


def test_time_limit_stops_with_a_checkpoint_and_the_run_can_be_resumed(tmp_path, monkeypatch):
    train(make_job(tmp_path / "whole", log_every=3))
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    step = NumberTrainable.step

    def slow(self, batch, number, rate_factor):
        clock[0] += 60.0
        return step(self, batch, number, rate_factor)

    monkeypatch.setattr(NumberTrainable, "step", slow)
    notes = []
    for _ in range(3):
        job = make_job(tmp_path / "parts", log_every=3, max_minutes=7)
        state, note = train(job)
        notes.append((state.step, note))
        # The model at the limit is evaluated, and the best one is saved.
        assert job.trainable.saved
        assert state.evaluated == state.step
    limit = "stopped at the time limit of 7 minutes"
    assert notes == [(7, limit), (14, limit), (20, "finished")]
    assert state.seconds == 20 * 60
    assert events(tmp_path / "parts", "step") == events(tmp_path / "whole", "step")
    found = events(tmp_path / "parts", "evaluation")
    expected = events(tmp_path / "whole", "evaluation")
    assert set(found) == {*expected, 7, 14}
    assert {step: found[step] for step in expected} == expected


@pytest.mark.parametrize("best_step", [3, 7])
def test_model_of_a_time_limit_is_discarded_by_the_resumed_run(tmp_path, monkeypatch, best_step):
    """The best evaluation is that at the limit; the best scheduled one is that of step 4."""
    monkeypatch.setattr(
        NumberTrainable,
        "measure",
        lambda self, step, watch: [{best_step: 0.0, 4: -1.0}.get(step, -2.0), 1.0],
    )
    train(make_job(tmp_path / "whole"))

    def saved_number(name):
        return json.loads((tmp_path / name / "model" / "number.json").read_text())

    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    step, numbers = NumberTrainable.step, {}

    def slow(self, batch, number, rate_factor):
        clock[0] += 60.0
        result = step(self, batch, number, rate_factor)
        numbers[number + 1] = self.number.tolist()
        return result

    monkeypatch.setattr(NumberTrainable, "step", slow)
    state, _ = train(make_job(tmp_path / "parts", max_minutes=best_step))
    assert (state.step, state.best) == (best_step, [0.0, 1.0])
    assert saved_number("parts") == numbers[best_step]
    state, note = train(make_job(tmp_path / "parts"))
    assert (note, state.best) == ("finished", [-1.0, 1.0])
    assert saved_number("parts") == saved_number("whole") == numbers[4]
    assert not (tmp_path / "parts" / "scheduled-model").exists()


def test_time_limit_does_not_count_as_an_evaluation_for_early_stopping(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)
    worse = itertools.count()
    monkeypatch.setattr(
        NumberTrainable, "measure", lambda self, step, watch: [-float(next(worse)), 1.0]
    )
    state, _ = train(make_job(tmp_path / "run", evaluate_every=100, max_minutes=1e-3))
    content = checkpoint.load_newest(tmp_path / "run" / "checkpoints")
    assert (state.evaluated, content["run_state"]["evaluated"]) == (state.step, -1)
    assert content["run_state"]["best"] == []


# ------------------------------------------------------------------------------------ rollbacks


QUIET = {"noise": 0.01}


def diverging_step(highest_rate, from_step, value):
    """A step that returns a wrong loss after a given step if the rate is above the given one."""
    step = NumberTrainable.step

    def diverging(self, batch, number, rate_factor):
        result = step(self, batch, number, rate_factor)
        if number >= from_step and result.rate > highest_rate:
            self.number = self.number * value
            return replace(result, losses=torch.full((1,), value))
        return result

    return diverging


@pytest.mark.parametrize("value", [math.nan, 9.5])
def test_diverged_run_returns_to_its_last_checkpoint_with_a_lower_rate(
    tmp_path, monkeypatch, capsys, value
):
    monkeypatch.setattr(NumberTrainable, "step", diverging_step(0.06, 9, value))
    options = {"max_rollbacks": 3, "checkpoint_every": 4}
    state, note = train(make_job(tmp_path / "run", QUIET, **options))
    assert (state.step, note, state.n_rollbacks) == (20, "finished", 2)
    steps = events(tmp_path / "run", "step")
    assert list(steps) == list(range(1, 21))
    assert steps[8]["learning_rate"] == 0.1
    assert steps[9]["learning_rate"] == pytest.approx(0.1 * 0.7**2)
    (rollback,) = events(tmp_path / "run", "rollback").values()
    assert (rollback["step"], rollback["diverged_step"]) == (8, 10)
    assert rollback["rate_factor"] == pytest.approx(0.49)
    assert "diverged before step 10" in rollback["reason"]
    assert "Returning to step 8 with 0.49 times the learning rate." in capsys.readouterr().err
    assert math.isfinite(events(tmp_path / "run", "evaluation")[20]["loss"])


def test_rollback_is_part_of_the_checkpoint(tmp_path, monkeypatch):
    diverging = diverging_step(0.08, 9, 9.5)
    monkeypatch.setattr(NumberTrainable, "step", diverging)
    options = {"max_rollbacks": 1, "checkpoint_every": 4}
    train(make_job(tmp_path / "whole", QUIET, **options))

    def dying(self, batch, number, rate_factor):
        if number == 10 and rate_factor < 1:
            raise ZeroDivisionError
        return diverging(self, batch, number, rate_factor)

    monkeypatch.setattr(NumberTrainable, "step", dying)
    with pytest.raises(ZeroDivisionError):
        train(make_job(tmp_path / "parts", QUIET, **options))
    content = checkpoint.load_newest(tmp_path / "parts" / "checkpoints")
    assert (content["run_state"]["step"], content["run_state"]["n_rollbacks"]) == (8, 1)
    monkeypatch.setattr(NumberTrainable, "step", diverging)
    train(make_job(tmp_path / "parts", QUIET, **options))
    for kind in ("step", "evaluation", "rollback"):
        assert events(tmp_path / "parts", kind) == events(tmp_path / "whole", kind)


def test_divergence_is_an_error_without_rollbacks_or_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(NumberTrainable, "step", diverging_step(0.0, 9, math.nan))
    with pytest.raises(TrainingError, match="diverged before step 10"):
        train(make_job(tmp_path / "few", QUIET, max_rollbacks=2, checkpoint_every=4))
    content = checkpoint.load_newest(tmp_path / "few" / "checkpoints")
    assert content["run_state"]["n_rollbacks"] == 2
    with pytest.raises(TrainingError, match="diverged before step 10"):
        train(make_job(tmp_path / "early", QUIET, max_rollbacks=2, checkpoint_every=100))
    # A rise of the loss alone is not an error.
    monkeypatch.undo()
    monkeypatch.setattr(NumberTrainable, "step", diverging_step(0.0, 19, 2.0))
    state, _ = train(make_job(tmp_path / "rise", QUIET))
    assert (state.step, state.n_rollbacks) == (20, 0)


def test_model_without_a_defined_score_is_not_saved(tmp_path, monkeypatch):
    measure = NumberTrainable.measure

    def undefined_at_first(self, step, watch):
        return [math.nan, 1.0] if step == 4 else measure(self, step, watch)

    monkeypatch.setattr(NumberTrainable, "measure", undefined_at_first)
    job = make_job(tmp_path / "run", QUIET)
    state, _ = train(job)
    assert [step for step, _ in job.trainable.saved] == [8, 12, 16, 20]
    assert math.isfinite(state.best[0])


def test_run_whose_evaluations_are_all_nan_ends_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(NumberTrainable, "measure", lambda self, step, watch: [math.nan, 1.0])
    for _ in range(2):  # also if the finished run is started again
        job = make_job(tmp_path / "run", QUIET)
        with pytest.raises(TrainingError, match="All evaluations were NaN"):
            train(job)
        assert not job.trainable.saved
    assert not (tmp_path / "run" / "model").exists()


def test_diverged_model_is_not_saved_before_the_first_log_entry(tmp_path, monkeypatch):
    monkeypatch.setattr(NumberTrainable, "step", diverging_step(0.0, 2, math.nan))
    monkeypatch.setattr(NumberTrainable, "measure", lambda self, step, watch: [math.nan, 1.0])
    with pytest.raises(TrainingError, match="The diverged model was not saved"):
        train(make_job(tmp_path / "run", QUIET, log_every=10))
    assert not (tmp_path / "run" / "model").exists()
