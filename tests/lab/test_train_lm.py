"""Tests of training recurrent language models."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch
from small_language_models import TEXT, small_config

from elmo.config import LossConfig, OptimizerConfig, RunConfig
from elmo.config.language_models import (
    AveragingConfig,
    RecurrentConfig,
    RecurrentDropoutConfig,
    SegmentConfig,
    SymbolConfig,
    TextSampleConfig,
)
from elmo.errors import ConfigError
from elmo.lab.loss_comparison import read_comparison
from elmo.lab.recurrent_folder import read_model, write_model
from elmo.lab.recurrent_trainable import RecurrentTrainable
from elmo.lab.symbol_text import read_training_text
from elmo.lab.text_loss import text_loss
from elmo.lab.train_lm import train_lm

ALL_DROPOUTS = RecurrentDropoutConfig(
    dropout=0.1,
    state_dropout=0.1,
    embedding_dropout=0.1,
    weight_drop=0.1,
    activation_penalty=0.1,
    slowness_penalty=0.1,
)


def weights(folder):
    return read_model(folder).network.state_dict()


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "lstmp"])
def test_training_lowers_the_loss_below_unigrams(tmp_path, cell):
    config = small_config(
        tmp_path,
        network=RecurrentConfig(cell=cell, n_layers=1, hidden_dim=32),
        run=RunConfig(epochs=12, log_every=20),
    )
    result = train_lm(config)
    comparison = read_comparison(Path(config.out) / "model")
    assert result.best.nats < comparison.ngrams[0] - 0.5


def test_saved_model_has_the_reported_loss(tmp_path):
    config = small_config(tmp_path)
    result = train_lm(config)
    model = read_model(config.out)
    part = read_training_text(config).parts["valid"]
    assert text_loss(model.network, model.symbols, part).nats == pytest.approx(result.best.nats)


@pytest.mark.parametrize(
    "sections",
    [
        {"averaging": AveragingConfig(average="ema"), "regularization": ALL_DROPOUTS},
        {"averaging": AveragingConfig(average="triggered", average_patience=1)},
        {"segments": SegmentConfig(batch_size=4, unroll=8, state="reset")},
        {
            "symbols": SymbolConfig(unit="words"),
            "network": RecurrentConfig(
                n_layers=1,
                hidden_dim=16,
                word_input="characters",
                filters=((1, 4), (2, 4)),
                n_highway=1,
                tied=True,
            ),
        },
        {"loss": LossConfig(softmax="sampled", n_samples=8)},
        {"label_smoothing": 0.1, "symbols": SymbolConfig(unit="bytes")},
        {
            "network": RecurrentConfig(
                n_layers=1, hidden_dim=16, mogrifier_rounds=2, mogrifier_rank=4
            )
        },
        {"optimizer": OptimizerConfig(optimizer="muon", learning_rate=0.01, weight_decay=0.1)},
    ],
    ids=[
        "ema",
        "triggered",
        "reset",
        "characters of words",
        "sampled",
        "bytes",
        "mogrifier",
        "muon",
    ],
)
def test_resumed_run_equals_uninterrupted_run(tmp_path, sections):
    run = RunConfig(epochs=4, max_steps=24, log_every=5, evaluate_every=5, checkpoint_every=4)
    whole = small_config(tmp_path, run=run, **sections)
    train_lm(whole)
    parts = dataclasses.replace(whole, out=str(tmp_path / "parts"))
    for max_steps in (7, 15, 24):
        # The learning rate depends on the planned number of steps, so the run is stopped otherwise.
        with stopped_after(max_steps):
            train_lm(parts)
    expected = weights(whole.out)
    for name, value in weights(parts.out).items():
        assert torch.equal(value, expected[name]), name


class stopped_after:
    """Context in which training stops at its time limit after a number of steps."""

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def __enter__(self):
        from elmo.train.stop_request import StopRequest

        self.cls, self.original = StopRequest, StopRequest.is_signaled
        limit = self.n_steps

        def is_signaled(request, step):
            if step == limit and limit < 24:
                raise KilledError
            return self.original(request, step)

        self.cls.is_signaled = is_signaled

    def __exit__(self, kind, *rest):
        self.cls.is_signaled = self.original
        return kind is KilledError


class KilledError(BaseException):
    """Raised instead of killing the process."""


def test_test_text_is_evaluated_once_and_compared(tmp_path):
    config = small_config(tmp_path, symbols=SymbolConfig(valid_fraction=0.1, test_fraction=0.1))
    result = train_lm(config)
    assert result.test is not None
    comparison = read_comparison(Path(config.out) / "model")
    assert comparison.part == "test"
    assert comparison.nats == result.test.nats
    assert "> this model" in str(result)
    assert "6-gram" in str(result)


def test_without_held_out_text_the_last_model_is_saved(tmp_path):
    config = small_config(tmp_path, symbols=SymbolConfig(valid_fraction=0.0))
    assert train_lm(config).best is None
    assert read_model(config.out).training["steps"] > 0


def test_samples_are_printed(tmp_path, capsys):
    config = small_config(
        tmp_path,
        samples=TextSampleConfig(sample_every=10, sample_length=20, sample_prompt="the "),
        run=RunConfig(max_steps=20),
    )
    train_lm(config)
    printed = capsys.readouterr().err
    assert printed.count("sample at step") == 2
    assert "sample at step 10:\nthe " in printed


def test_samples_follow_each_evaluation_by_default(tmp_path, capsys):
    run = RunConfig(max_steps=25, evaluate_every=10)
    train_lm(small_config(tmp_path, samples=TextSampleConfig(sample_length=5), run=run))
    lines = capsys.readouterr().err.splitlines()
    found = [re.match(r"(?:sample at )?step \d+", line) for line in lines]
    assert [match[0] for match in found if match] == [
        "step 10",
        "sample at step 10",
        "step 20",
        "sample at step 20",
        "step 25",
        "sample at step 25",
    ]


def test_sample_of_a_diverged_network_does_not_end_the_run(tmp_path, capsys, monkeypatch):
    """The loop returns to a checkpoint; an error of the sample would be about the wrong thing."""
    update, has_diverged = RecurrentTrainable._update, []

    def diverging(self, *arguments):
        result = update(self, *arguments)
        if not has_diverged and arguments[-1] == 12:
            has_diverged.append(True)
            with torch.no_grad():
                self.network.recurrent_layers()[0].bias_ih.fill_(torch.nan)
        return result

    monkeypatch.setattr(RecurrentTrainable, "_update", diverging)
    config = small_config(
        tmp_path,
        samples=TextSampleConfig(sample_every=1, sample_length=5),
        run=RunConfig(max_steps=20, log_every=5, checkpoint_every=5, max_rollbacks=1),
    )
    result = train_lm(config)
    assert (result.step, result.note) == (20, "finished")
    assert "no sample at step 13: the probabilities are NaN" in capsys.readouterr().err


def test_samples_do_not_change_training(tmp_path):
    quiet = small_config(tmp_path, run=RunConfig(max_steps=20))
    train_lm(quiet)
    loud = dataclasses.replace(
        quiet, out=str(tmp_path / "loud"), samples=TextSampleConfig(sample_every=3)
    )
    train_lm(loud)
    for name, value in weights(loud.out).items():
        assert torch.equal(value, weights(quiet.out)[name])


def test_samples_can_be_changed_when_a_run_resumes(tmp_path, capsys):
    config = small_config(tmp_path, run=RunConfig(max_steps=10))
    train_lm(config)
    samples = TextSampleConfig(sample_every=5, sample_prompt="the dog", sample_length=4)
    train_lm(dataclasses.replace(config, samples=samples, run=RunConfig(max_steps=20)))
    assert "sample at step 15:\nthe dog" in capsys.readouterr().err


def test_other_text_in_the_same_folder_is_an_error(tmp_path):
    config = small_config(tmp_path)
    train_lm(config)
    Path(config.text[0]).write_text(TEXT.upper(), encoding="utf-8")
    with pytest.raises(ConfigError, match="another text"):
        train_lm(config)


def test_run_resumes_with_another_name_of_its_text(tmp_path, monkeypatch):
    config = small_config(tmp_path, run=RunConfig(max_steps=10))
    train_lm(config)
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("text.txt", "./text.txt", "*.txt")):
        run = RunConfig(max_steps=11 + number)
        result = train_lm(dataclasses.replace(config, text=(name,), run=run))
        assert result.step == 11 + number


def test_dry_run_writes_nothing(tmp_path):
    config = small_config(tmp_path, run=RunConfig(epochs=2, dry_run=True))
    assert str(train_lm(config))
    assert not Path(config.out).exists()


def test_log_has_losses_in_nats(tmp_path):
    config = small_config(tmp_path)
    train_lm(config)
    lines = (Path(config.out) / "log.jsonl").read_text().splitlines()
    kinds = {event["kind"]: event for event in map(json.loads, lines)}
    assert {"nats", "bits_per_character", "perplexity"} <= kinds["evaluation"].keys()
    assert kinds["step"]["nats"] == pytest.approx(kinds["step"]["loss"])


@pytest.mark.parametrize(
    "options",
    [
        {"devices": 2},
        {"accumulate": 2},
    ],
)
def test_several_devices_are_an_error(tmp_path, options):
    with pytest.raises(ConfigError, match="must be 1"):
        small_config(tmp_path, run=RunConfig(**options))


def test_test_text_is_evaluated_without_validation_text(tmp_path):
    config = small_config(tmp_path, symbols=SymbolConfig(valid_fraction=0.0, test_fraction=0.1))
    result = train_lm(config)
    assert result.best is None
    assert read_comparison(Path(config.out) / "model").nats == result.test.nats


def test_test_text_is_evaluated_like_validation_text(tmp_path):
    config = small_config(
        tmp_path,
        symbols=SymbolConfig(test_fraction=0.1),
        segments=SegmentConfig(batch_size=4, unroll=8, state="reset"),
    )
    result = train_lm(config)
    model = read_model(config.out)
    part = read_training_text(config).parts["test"]
    expected = text_loss(model.network, model.symbols, part, unroll=8, carry=False)
    assert result.test.nats == pytest.approx(expected.nats)


def test_new_model_removes_the_comparison_of_the_one_before(tmp_path):
    config = small_config(tmp_path, run=RunConfig(max_steps=10, epochs=50))
    train_lm(config)
    folder = Path(config.out) / "model"
    write_model(read_model(folder), folder)
    assert read_comparison(folder) is None


def test_test_text_can_be_added_when_a_run_resumes(tmp_path):
    config = small_config(tmp_path)
    train_lm(config)
    assert train_lm(dataclasses.replace(config, test=config.text)).test is not None


def test_triggered_average_needs_the_same_evaluations(tmp_path):
    config = small_config(
        tmp_path,
        averaging=AveragingConfig(average="triggered"),
        run=RunConfig(max_steps=10, epochs=9, evaluate_every=5, checkpoint_every=5),
    )
    train_lm(config)
    changed = dataclasses.replace(config.run, evaluate_every=4, max_steps=20)
    with pytest.raises(ConfigError, match="same --evaluate-every"):
        train_lm(dataclasses.replace(config, run=changed))
