"""Tests of the training folder: the lock, checkpoints, and the check of changed options."""

import dataclasses
import logging
import os
import signal
from types import SimpleNamespace

import forked
import pytest
import torch

from elmo.config import (
    CorpusConfig,
    ExamplesConfig,
    FinetuneConfig,
    InputConfig,
    LossConfig,
    LSTMConfig,
    OptimizerConfig,
    PretrainConfig,
    RegularizationConfig,
    RunConfig,
    StreamConfig,
    TuneConfig,
)
from elmo.config.language_model_commands import LMTrainConfig
from elmo.errors import ConfigError, OutputError
from elmo.files import LOCK
from elmo.tasks.registry.task_config import TaskConfig
from elmo.train.run_folder import (
    CHANGEABLE_OPTIONS,
    CONFIG,
    RunFolder,
    check_same_run,
    kept_after_interruption,
    locked,
    write_config,
)
from elmo.train.run_state import RunState

RUN = PretrainConfig(("corpus",), "run")


# ------------------------------------------------------------------------------------ lock


def test_locked_training_folder_rejects_a_second_run(tmp_path):
    folder = tmp_path / "deep" / "run"
    with locked(folder):
        assert (folder / LOCK).exists()
        with pytest.raises(OutputError, match="in use by another run"), locked(folder):
            raise AssertionError
        with locked(tmp_path / "other"):
            pass
    with locked(folder):
        pass


def test_training_folder_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="failed"), locked(tmp_path):
        raise ValueError("failed")
    with locked(tmp_path):
        pass


def hold_lock(folder, ready):
    with locked(folder):
        ready.send(True)
        signal.pause()


def test_training_folder_lock_of_a_killed_process_is_released(tmp_path):
    ours, theirs = forked.context.Pipe()
    process = forked.context.Process(target=hold_lock, args=(tmp_path, theirs))
    process.start()
    try:
        assert ours.poll(60)
        with pytest.raises(OutputError, match="another run"), locked(tmp_path):
            raise AssertionError
    finally:
        process.kill()
        process.join()
    with locked(tmp_path):
        pass


def test_locking_raises_an_error_if_the_training_folder_is_a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    for name in ("file", "file/run"):
        with pytest.raises(OutputError, match="Cannot write to"), locked(tmp_path / name):
            raise AssertionError
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_locking_raises_an_error_without_write_permission(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(OutputError, match="Permission denied"), locked(tmp_path / "run"):
            raise AssertionError
    finally:
        tmp_path.chmod(0o700)


# ------------------------------------------------------------------------------------ options


def test_check_same_run_accepts_a_new_folder(tmp_path):
    check_same_run(tmp_path, RUN)


@pytest.mark.parametrize(
    "config",
    [
        RUN,
        FinetuneConfig("model", ("corpus",), "run"),
        PretrainConfig(
            ("a", "b"),
            "run",
            input=InputConfig(filters=((1, 2), (3, 4))),
            optimizer=OptimizerConfig(learning_rate=1e-5, loss_scale=3.0),
            loss=LossConfig("adaptive", cutoffs=(1, 2)),
            lstm=LSTMConfig(cell_clip=None),
        ),
    ],
    ids=["plain", "finetune", "rich"],
)
def test_check_same_run_accepts_equal_options(tmp_path, config):
    write_config(tmp_path, config)
    check_same_run(tmp_path, config)


CHANGED_SECTIONS = {
    "input": (InputConfig(n_highway=1), "n_highway was 2, now 1"),
    "lstm": (LSTMConfig(cell_dim=8), "cell_dim was 4096, now 8"),
    "stream": (StreamConfig(batch_size=3), "batch_size was 128, now 3"),
    "loss": (LossConfig("sampled"), "softmax was full, now sampled"),
    "optimizer": (OptimizerConfig(learning_rate=0.5), "learning_rate was 0.2, now 0.5"),
    "regularization": (
        RegularizationConfig(output_dropout=0.1),
        "output_dropout was None, now 0.1",
    ),
    "run": (RunConfig(seed=5), "seed was 1, now 5"),
}


@pytest.mark.parametrize("section", CHANGED_SECTIONS)
def test_check_same_run_rejects_changed_options(tmp_path, section):
    write_config(tmp_path, RUN)
    value, message = CHANGED_SECTIONS[section]
    with pytest.raises(ConfigError) as caught:
        check_same_run(tmp_path, dataclasses.replace(RUN, **{section: value}))
    assert str(caught.value) == (
        f"{tmp_path} contains a run with other settings: {message}. Use the same settings, or "
        "choose another --out."
    )


def test_check_same_run_error_lists_the_changed_options(tmp_path):
    write_config(tmp_path, RUN)
    other = dataclasses.replace(
        RUN,
        lstm=LSTMConfig(cell_dim=8, n_layers=1),
        input=InputConfig(filters=((1, 2),)),
        run=RunConfig(seed=2, epochs=3.0),
    )
    with pytest.raises(ConfigError) as caught:
        check_same_run(tmp_path, other)
    for part in (
        "cell_dim was 4096, now 8",
        "n_layers was 2, now 1",
        "now [[1, 2]]",
        "seed was 1, now 2",
    ):
        assert part in str(caught.value)
    assert "epochs" not in str(caught.value)


def test_check_same_run_accepts_changes_to_changeable_options(tmp_path):
    write_config(tmp_path, RUN)
    run = RunConfig(
        epochs=99.0,
        max_steps=7,
        precision="bfloat16",
        kernel="reference",
        accelerator="cpu",
        devices=2,
        num_nodes=3,
        accumulate=4,
        log_every=5,
        evaluate_every=6,
        checkpoint_every=7,
        patience=8,
        mlflow=True,
        dry_run=True,
    )
    moved = PretrainConfig(
        ("elsewhere",), "moved", ("valid",), corpus=CorpusConfig(workers=3), run=run
    )
    check_same_run(tmp_path, moved)
    # All options of the section `run` except the seed are changeable.
    names = {item.name for item in dataclasses.fields(RunConfig)}
    assert names - CHANGEABLE_OPTIONS == {"seed"}


def test_check_same_run_takes_the_default_of_an_option_that_is_not_recorded(tmp_path):
    write_config(tmp_path, RUN)
    path = tmp_path / CONFIG
    lines = path.read_text().splitlines()
    kept = [line for line in lines if line.strip() != f"n_highway: {RUN.input.n_highway}"]
    assert len(kept) == len(lines) - 1
    path.write_text("\n".join(kept))
    check_same_run(tmp_path, RUN)
    with pytest.raises(ConfigError, match="n_highway was 2, now 1"):
        check_same_run(tmp_path, dataclasses.replace(RUN, input=InputConfig(n_highway=1)))


def test_recorded_fraction_without_keep_steps_requires_keep_steps_to_resume(tmp_path):
    config = TaskConfig("run", examples=ExamplesConfig(fraction=0.1, keep_steps=True))
    write_config(tmp_path, config)
    path = tmp_path / CONFIG
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "keep_steps" not in line))
    check_same_run(tmp_path, config)
    with pytest.raises(ConfigError, match="keep_steps was True, now False"):
        check_same_run(tmp_path, TaskConfig("run", examples=ExamplesConfig(fraction=0.1)))


def test_check_same_run_accepts_moved_data_in_finetuning(tmp_path):
    config = FinetuneConfig("model", ("corpus",), "run")
    write_config(tmp_path, config)
    check_same_run(tmp_path, dataclasses.replace(config, data=("moved",)))
    with pytest.raises(ConfigError, match="model was model, now other"):
        check_same_run(tmp_path, dataclasses.replace(config, model="other"))
    with pytest.raises(ConfigError, match="new_words was 2, now 5"):
        check_same_run(tmp_path, dataclasses.replace(config, tune=TuneConfig(new_words=5)))


def test_check_same_run_rejects_a_run_of_another_command(tmp_path):
    write_config(tmp_path, RUN)
    with pytest.raises(ConfigError, match="other settings"):
        check_same_run(tmp_path, FinetuneConfig("model", ("corpus",), "run"))


@pytest.mark.parametrize("content", ["", "- 1\n", "optimizer: [1", "a: b: c", "\0"])
def test_check_same_run_raises_an_error_for_an_invalid_config_file(tmp_path, content):
    (tmp_path / CONFIG).write_text(content)
    with pytest.raises(ConfigError, match=str(tmp_path)):
        check_same_run(tmp_path, RUN)


def test_all_options_listed_as_changeable_exist():
    """This fails if an option is renamed but still listed under its old name."""
    known = set()

    def collect(config_type):
        for item in dataclasses.fields(config_type):
            known.add(item.name)
            if dataclasses.is_dataclass(item.type):
                collect(item.type)

    collect(PretrainConfig)
    collect(FinetuneConfig)
    collect(TaskConfig)
    collect(LMTrainConfig)
    assert known >= CHANGEABLE_OPTIONS


def test_locking_the_training_folder_deletes_partial_files(tmp_path):
    (tmp_path / "model" / ".77.partial").mkdir(parents=True)
    (tmp_path / "model" / ".77.partial" / "model.safetensors").write_text("half")
    (tmp_path / ".log.jsonl.77.partial").write_text("half")
    (tmp_path / "model" / "config.json").write_text("{}")
    with locked(tmp_path):
        assert not list(tmp_path.rglob("*.partial"))
        assert (tmp_path / "model" / "config.json").exists()


@pytest.mark.parametrize("folder", ["run", "run/seed-2"])
def test_interrupted_run_reports_whether_a_checkpoint_is_kept(tmp_path, folder):
    config = TaskConfig(str(tmp_path / "run"))
    assert "no checkpoint yet" in kept_after_interruption(config)
    checkpoints = tmp_path / folder / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "step-000000001-00000000.pt").touch()
    assert f"checkpoint in {tmp_path / 'run'} is kept" in kept_after_interruption(config)
    dry = dataclasses.replace(config, run=dataclasses.replace(config.run, dry_run=True))
    assert kept_after_interruption(dry) is None


# ------------------------------------------------------------------------------------ run folder


class Counter:
    """A minimal trainable, whose state is one number."""

    def __init__(self, number):
        self.number = number

    def load_state_dict(self, state):
        self.number = state["number"]

    def save_model(self, folder, step, evaluation):
        folder.mkdir()
        (folder / "model.txt").write_text(f"{step} {evaluation}")


def make_folder(path, *, is_first=True, **run):
    config = dataclasses.replace(RUN, out=str(path), run=RunConfig(**run))
    fabric = SimpleNamespace(
        is_global_zero=is_first, world_size=1, device=torch.device("cpu"), barrier=lambda: None
    )
    return RunFolder(config, fabric)


def test_resume_loads_the_saved_states_of_loop_and_trainable(tmp_path):
    folder, state = make_folder(tmp_path), RunState(step=7, sums=[1.5], best=[0.5])
    assert folder.resume(Counter(0)) is None
    folder.save_checkpoint(state, {"number": 42})
    for load in (folder.resume, folder.roll_back):
        trainable = Counter(0)
        assert load(trainable) == state
        assert trainable.number == 42


def test_resume_rejects_changed_options_before_a_checkpoint_is_loaded(tmp_path):
    make_folder(tmp_path).save_config()
    make_folder(tmp_path).save_checkpoint(RunState(), {"number": 42})
    trainable = Counter(0)
    with pytest.raises(ConfigError, match="seed was 1, now 2"):
        make_folder(tmp_path, seed=2).resume(trainable)
    assert trainable.number == 0


def test_resume_warns_about_another_number_of_threads(tmp_path, monkeypatch, caplog):
    folder = make_folder(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 1000)
        folder.save_checkpoint(RunState(), {"number": 42})
    with caplog.at_level(logging.WARNING):
        folder.roll_back(Counter(0))
        assert not caplog.records
        folder.resume(Counter(0))
    message = f"started with 1000 threads and resumes with {torch.get_num_threads()}."
    assert message in caplog.text


def test_only_the_first_process_locks_and_writes(tmp_path):
    other, first = (make_folder(tmp_path / "run", is_first=value) for value in (False, True))
    with other.locked():
        other.save_config()
        other.save_checkpoint(RunState(), {})
        other.save_model(Counter(0), 3, None)
        assert not (tmp_path / "run").exists()
    with first.locked():
        first.save_config()
        first.save_checkpoint(RunState(), {})
        first.save_model(Counter(0), 3, None)
        assert {"config.yaml", "checkpoints", "model", LOCK} <= set(os.listdir(tmp_path / "run"))
        with pytest.raises(OutputError, match="in use by another run"), first.locked():
            raise AssertionError


def test_dry_run_does_not_lock_the_folder(tmp_path):
    with make_folder(tmp_path / "run", dry_run=True).locked():
        assert not (tmp_path / "run").exists()
