"""End-to-end tests of pretraining: output files, stopping, resuming killed runs, errors."""

import json
import math
import os
import random
import shutil
import signal
import sys
import time

import forked
import pytest
import torch
import yaml
from train_text import SMALL, write_text

from elmo.config import PrepareConfig, PretrainConfig
from elmo.config.serialization import load_config
from elmo.corpus.bptt_segments import read_once
from elmo.corpus.prepare_corpus import prepare
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, MissingExtra, OutputError, TrainingError
from elmo.formats.load import read
from elmo.formats.training_record import HELDOUT_PERPLEXITY
from elmo.train import checkpoint, dry_run, text_sample
from elmo.train.loop import Loop
from elmo.train.pretrain_model import pretrain
from elmo.train.report import read_log


def config_of(corpus, out, **flags):
    values = {name.replace("-", "_"): yaml.safe_load(text) for name, text in SMALL.items()}
    values |= {**flags, "data": [str(corpus)], "out": str(out)}
    return load_config(PretrainConfig, None, values)


def arguments_of(corpus, out, **flags):
    """Return the command-line arguments for a run."""
    values = {**SMALL, **{name.replace("_", "-"): str(value) for name, value in flags.items()}}
    options = [word for name, value in values.items() for word in (f"--{name}", value)]
    return ["pretrain", "--data", str(corpus), "--out", str(out), *options]


# The held-out loss rises and falls between steps.
UNSTABLE = {"optimizer": "adamw", "learning_rate": 0.1, "max_steps": 50, "evaluate_every": 1}


def losses(folder):
    return {
        event["step"]: (event["forward_loss"], event["backward_loss"], event["gradient_norm"])
        for event in read_log(folder)
        if event["kind"] == "step"
    }


def evaluations(folder):
    return {
        e["step"]: (e["forward"], e["backward"])
        for e in read_log(folder)
        if e["kind"] == "evaluation"
    }


@pytest.mark.usefixtures("curves")
def test_pretrain_reduces_perplexity_and_writes_all_files(corpus, tmp_path):
    out = tmp_path / "run"
    result = pretrain(config_of(corpus, out, optimizer="adamw", learning_rate=0.01, max_steps=150))
    assert result.step == 150
    assert result.best.mean < 6
    assert {"config.yaml", "log.jsonl", "curves.png", "checkpoints", "model", "tensorboard"} <= set(
        os.listdir(out)
    )
    steps = losses(out)
    assert sorted(steps) == list(range(1, 151))
    assert steps[150][0] < 0.7 * steps[1][0]
    assert (out / "curves.png").read_bytes()[:4] == b"\x89PNG"
    card = (out / "model" / "README.md").read_text()
    assert "held-out perplexity" in card
    assert "perplexity" in str(result)
    for source in (out, out / "model"):
        assert ELMo.from_pretrained(source).encode("anna sees cats .").shape == (4, 16)


def test_pretrain_saves_the_model_with_the_best_perplexity(corpus, tmp_path):
    out = tmp_path / "run"
    flags = {"learning_rate": 0.5, "max_steps": 40, "evaluate_every": 4}
    result = pretrain(config_of(corpus, out, **flags))
    every = evaluations(out)
    best = min(every.values(), key=lambda pair: pair[0] * pair[1])
    assert (result.best.forward, result.best.backward) == pytest.approx(best)
    record = read(out).training[HELDOUT_PERPLEXITY]
    assert f"forward {best[0]:.2f}" in record


def test_pretrain_stops_early_with_patience(corpus, tmp_path):
    config = config_of(corpus, tmp_path / "run", **UNSTABLE, patience=2)
    result = pretrain(config)
    assert 2 < result.step < 50
    assert "stopped early" in result.note


@pytest.mark.parametrize(
    "flags",
    [
        {"softmax": "sampled", "n_samples": 8, "dropout": 0.2},
        {"softmax": "adaptive", "cutoffs": [5], "optimizer": "adamw", "learning_rate": 0.01},
        {"characters": "none", "word_dim": 8, "tied": True, "locked": True, "dropout": 0.1},
        {"characters": "codepoints", "word_dim": 3, "max_characters": None, "reset": 0.5},
        {"optimizer": "muon", "learning_rate": 0.01, "weight_decay": 0.1, "schedule": "wsd"},
        {"characters": "jamo", "directions": "independent", "weight_drop": 0.3},
        {"order": "text", "embedding_dropout": 0.2, "accumulate": 2, "reset": 1.0},
    ],
)
def test_resumed_pretraining_equals_uninterrupted_run_bitwise(corpus, tmp_path, flags):
    flags = {"max_steps": 12, "checkpoint_every": 5, "evaluate_every": 4, **flags}
    pretrain(config_of(corpus, tmp_path / "whole", **flags))
    with pytest.MonkeyPatch.context() as patch:
        step = Loop._step

        def dying(self, *arguments):
            if self.state.step == 8:
                raise ZeroDivisionError
            return step(self, *arguments)

        patch.setattr(Loop, "_step", dying)
        with pytest.raises(ZeroDivisionError):
            pretrain(config_of(corpus, tmp_path / "parts", **flags))
    pretrain(config_of(corpus, tmp_path / "parts", **flags))
    assert losses(tmp_path / "parts") == losses(tmp_path / "whole")
    assert evaluations(tmp_path / "parts") == evaluations(tmp_path / "whole")
    one, other = (read(tmp_path / name).weights for name in ("parts", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert ELMo.from_pretrained(tmp_path / "parts").encode("anna sees cats .").shape == (4, 16)


@pytest.mark.long
def test_pretraining_killed_at_random_times_equals_uninterrupted_run(corpus, tmp_path):
    """The log of a run that was killed at least five times equals that of an uninterrupted run."""
    flags = {"max_steps": 200, "checkpoint_every": 8, "evaluate_every": 40, "dropout": 0.1}
    pretrain(config_of(corpus, tmp_path / "whole", **flags))
    expected = losses(tmp_path / "whole")
    draw = random.Random(5)
    out = tmp_path / "parts"
    kills = 0
    for _ in range(60):
        process = forked.start(arguments_of(corpus, out, **flags), tmp_path / "output")
        before = checkpoint_steps(out)
        deadline = time.monotonic() + 120
        # Wait for the next checkpoint, then for a random time.
        while process.is_alive() and checkpoint_steps(out) == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(draw.random() * 0.3)
        if not process.is_alive() or kills >= 5:
            break
        process.kill()
        process.join()
        kills += 1
    process.join()
    assert kills >= 5
    assert process.exitcode == 0, (tmp_path / "output").read_text()
    assert losses(out) == expected
    assert evaluations(out) == evaluations(tmp_path / "whole")
    assert not list(out.rglob("*.partial"))


def checkpoint_steps(out):
    return sorted(path.name for path in (out / "checkpoints").glob("step-*.pt"))


def test_resumed_pretraining_skips_a_damaged_checkpoint(corpus, tmp_path, caplog):
    out = tmp_path / "run"
    pretrain(config_of(corpus, out, max_steps=10, checkpoint_every=5))
    newest = max((out / "checkpoints").glob("*.pt"))
    newest.write_bytes(newest.read_bytes()[:-100])
    result = pretrain(config_of(corpus, out, max_steps=20, checkpoint_every=5))
    assert result.step == 20
    assert "truncated or damaged" in caplog.text
    pretrain(config_of(corpus, tmp_path / "whole", max_steps=20, checkpoint_every=5))
    assert losses(out) == losses(tmp_path / "whole")


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "Interrupted"), (signal.SIGTERM, "Terminated")]
)
def test_pretrain_writes_a_checkpoint_after_a_signal(corpus, tmp_path, number, word):
    out = tmp_path / "run"
    flags = {"max_steps": 100000, "checkpoint_every": 100000}
    process = forked.start(arguments_of(corpus, out, **flags), tmp_path / "output")
    deadline = time.monotonic() + 120
    while len(losses(out) if (out / "log.jsonl").exists() else {}) < 5:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, number)
    process.join(120)
    assert process.exitcode == 128 + number
    errors = (tmp_path / "output").read_text()
    assert "A checkpoint was written" in errors
    note = f"The last checkpoint in {out} is kept; run the same command again to resume."
    assert errors.splitlines()[-1] == f"elmo: {word}. {note}"
    step = checkpoint.load_newest(out / "checkpoints")["run_state"]["step"]
    assert step >= 5
    assert step == max(losses(out))


def test_pretraining_can_be_resumed_after_a_full_disk(corpus, tmp_path, monkeypatch):
    out = tmp_path / "run"
    pretrain(config_of(corpus, out, max_steps=5, checkpoint_every=5))
    before = checkpoint_steps(out)

    def full(content, file):
        file.write(b"some of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OutputError, match="No space left"):
        pretrain(config_of(corpus, out, max_steps=10, checkpoint_every=5))
    assert checkpoint_steps(out) == before
    monkeypatch.undo()
    assert pretrain(config_of(corpus, out, max_steps=10, checkpoint_every=5)).step == 10


@pytest.mark.parametrize(
    "flags",
    [
        {"optimizer": "adamw", "clip_norm": 0, "log_every": 1},
        # Diverges before the first log entry and before any evaluation.
        {"optimizer": "adamw", "clip_norm": 0, "log_every": 10},
        # Detected by the evaluation only.
        {"optimizer": "adamw", "clip_norm": 0, "log_every": 1000, "max_steps": 1},
        {"softmax": "sampled", "n_samples": 8, "clip_norm": 0, "log_every": 3},
        {"optimizer": "muon", "clip_norm": 0, "log_every": 1},
    ],
)
def test_error_for_diverged_training_contains_advice(corpus, tmp_path, flags):
    out = tmp_path / "run"
    flags = {"max_steps": 60, "checkpoint_every": 5, "learning_rate": 1e5, **flags}
    with pytest.raises(TrainingError, match="lower --learning-rate"):
        pretrain(config_of(corpus, out, **flags))
    assert not (out / "model").exists()
    content = checkpoint.load_newest(out / "checkpoints")
    if content is not None:
        assert all(torch.isfinite(v).all() for v in content["learner"]["weights"].values())


def test_pretrain_does_not_save_nan_weights(corpus, tmp_path, monkeypatch):
    save = Loop._save

    def spoiled(self):
        self.trainable.job.network.softmax.bias.data[0] = math.nan
        save(self)

    monkeypatch.setattr(Loop, "_save", spoiled)
    with pytest.raises(TrainingError, match="diverged"):
        pretrain(config_of(corpus, tmp_path / "run", max_steps=3, checkpoint_every=3))
    assert not list((tmp_path / "run").rglob("*.pt"))


def test_rerunning_a_run_that_stopped_early_trains_no_further_steps(corpus, tmp_path):
    config = config_of(corpus, tmp_path / "run", **UNSTABLE, patience=2)
    first = pretrain(config)
    again = pretrain(config)
    assert again.step == first.step
    assert "has stopped early" in again.note


def test_ctrl_c_interrupts_an_evaluation_of_pretrain(corpus, tmp_path, monkeypatch):
    def segments(*arguments, **settings):
        os.kill(os.getpid(), signal.SIGINT)
        yield from read_once(*arguments, **settings)

    monkeypatch.setattr("elmo.train.lm_trainable.read_once", segments)
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        pretrain(config_of(corpus, out, max_steps=6, evaluate_every=3))
    assert checkpoint.load_newest(out / "checkpoints")["run_state"]["step"] == 3
    monkeypatch.undo()
    pretrain(config_of(corpus, out, max_steps=6, evaluate_every=3))
    pretrain(config_of(corpus, tmp_path / "whole", max_steps=6, evaluate_every=3))
    assert losses(out) == losses(tmp_path / "whole")


def test_pretrain_rejects_more_processes_than_configured(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="--devices"):
        pretrain(config_of(corpus, tmp_path / "run"))


def test_pretrain_rejects_corpus_options_with_a_prepared_corpus(corpus, tmp_path):
    with pytest.raises(ConfigError, match="vocab_size"):
        pretrain(config_of(corpus, tmp_path / "run", vocab_size=100))
    with pytest.raises(ConfigError, match="--input-format"):
        pretrain(config_of(corpus, tmp_path / "run", input_format="jsonl"))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_out_of_memory_error_suggests_a_batch_size(corpus, tmp_path, monkeypatch, error):
    def step(*_):
        raise error

    monkeypatch.setattr("elmo.train.learner.Learner.step", step)
    with pytest.raises(TrainingError, match="Use --batch-size 2,"):
        pretrain(config_of(corpus, tmp_path / "run"))


def test_dry_run_of_pretrain_writes_no_files(corpus, tmp_path, capsys):
    result = pretrain(config_of(corpus, tmp_path / "run", dry_run=True))
    assert "tokens/s" in str(result)
    assert " step " not in str(result)
    assert "memory" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_plan_counts_the_bilm_parameters_that_info_reports(corpus, tmp_path):
    out = tmp_path / "run"
    planned = pretrain(config_of(corpus, out, dry_run=True)).plan.n_bilm
    pretrain(config_of(corpus, out, max_steps=1))
    assert planned == read(out).n_parameters


def test_dry_run_estimates_the_plan_from_a_sample_of_the_text(tmp_path, monkeypatch, capsys):
    text = write_text(tmp_path / "text.txt")
    whole = pretrain(config_of(text, tmp_path / "run", dry_run=True)).plan
    assert "estimated" not in capsys.readouterr().err
    monkeypatch.setattr(text_sample, "SAMPLE_BYTES", text.stat().st_size // 2)
    plan = pretrain(config_of(text, tmp_path / "run", dry_run=True)).plan
    assert "estimated from the first 51." in capsys.readouterr().err
    assert plan.n_pairs == pytest.approx(whole.n_pairs, rel=0.1)
    assert plan.n_softmax >= whole.n_softmax
    assert not (tmp_path / "run").exists()


def test_dry_run_of_a_slow_model_times_parts_of_a_step(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(dry_run, "MAX_SECONDS", 0.0)
    result = pretrain(config_of(corpus, tmp_path / "run", dry_run=True))
    assert "tokens/s (estimated from parts of a step)" in str(result)


def test_pretrain_prepares_text_files(tmp_path):
    text = write_text(tmp_path / "text.txt")
    config = config_of(text, tmp_path / "run", max_steps=3)
    assert pretrain(config).step == 3
    assert (tmp_path / "run" / "corpus" / "corpus.json").exists()
    assert pretrain(config_of(text, tmp_path / "run", max_steps=4)).step == 4
    with pytest.raises(ConfigError, match="tokenizer was None, now english"):
        pretrain(config_of(text, tmp_path / "run", max_steps=5, tokenizer="english"))
    other = write_text(tmp_path / "other.txt", seed=9)
    with pytest.raises(ConfigError, match="data was"):
        pretrain(config_of(other, tmp_path / "run", max_steps=5))


@pytest.mark.parametrize("package", ["lightning", "tensorboard", "mlflow"])
def test_pretrain_without_its_packages_writes_nothing(tmp_path, monkeypatch, package):
    text = write_text(tmp_path / "text.txt")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra):
        pretrain(config_of(text, tmp_path / "run", max_steps=1, mlflow=True))
    assert not (tmp_path / "run").exists()


def test_pretrain_rejects_a_folder_with_a_different_run(corpus, tmp_path):
    out = tmp_path / "run"
    pretrain(config_of(corpus, out, max_steps=2))
    with pytest.raises(ConfigError, match=r"learning_rate was 0\.2, now 0\.1"):
        pretrain(config_of(corpus, out, max_steps=2, learning_rate=0.1))
    text, other = write_text(tmp_path / "other.txt", 300), tmp_path / "other"
    prepare(PrepareConfig((str(text),), str(other)))
    with pytest.raises(ConfigError, match="another corpus"):
        pretrain(config_of(other, out, max_steps=2))


def test_from_pretrained_rejects_a_training_folder_without_model(tmp_path):
    (tmp_path / "config.yaml").write_text("data: []\n")
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(FormatError, match="has not written a model yet"):
        ELMo.from_pretrained(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("loss", [{"softmax": "full"}, {"softmax": "sampled", "n_samples": 8}])
def test_pretraining_with_two_processes_equals_a_single_process(corpus, tmp_path, loss):
    flags = {"max_steps": 20, "accelerator": "cpu", "batch_size": 8, **loss}
    outs = {devices: tmp_path / f"run{devices}" for devices in (1, 2)}
    if loss["softmax"] == "full":
        # Two processes resume a run of one process.
        pretrain(config_of(corpus, outs[1], **{**flags, "max_steps": 8}))
        shutil.copytree(outs[1], outs[2])
    pretrain(config_of(corpus, outs[1], **flags))
    process = forked.start(arguments_of(corpus, outs[2], **flags, devices=2), tmp_path / "output")
    process.join()
    output = (tmp_path / "output").read_text()
    assert process.exitcode == 0, output
    assert ("Resuming from step 8" in output) == (loss["softmax"] == "full")
    one, two = (checkpoint.load_newest(outs[n] / "checkpoints")["learner"] for n in (1, 2))
    for name, value in one["weights"].items():
        torch.testing.assert_close(two["weights"][name], value, rtol=0, atol=1e-5)
    for name in ("h", "c"):
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=1e-4)
    for step, values in losses(outs[1]).items():
        assert losses(outs[2])[step] == pytest.approx(values, abs=1e-4)


def test_pretrain_rejects_indivisible_batch_size(corpus, tmp_path):
    with pytest.raises(ConfigError, match="must be a multiple of 3"):
        pretrain(config_of(corpus, tmp_path / "run", accumulate=3))


def test_all_lines_in_the_training_log_are_valid_json(corpus, tmp_path):
    pretrain(config_of(corpus, tmp_path / "run", max_steps=3))
    for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines():
        assert {"kind", "step", "time"} <= set(json.loads(line))
