"""Tests of the demo: each step improves the model, and the summary has the measured values."""

import dataclasses

import pytest

from elmo.config import DemoConfig
from elmo.demo import demo, run
from elmo.demo.toy_corpus import kitchen, town
from elmo.embed.embedder import ELMo
from elmo.errors import MissingExtra


@pytest.fixture
def short(monkeypatch):
    """Shorten the demo to a few seconds, which is too short to distinguish senses."""
    monkeypatch.setattr(run, "N_TOWN", 400)
    monkeypatch.setattr(run, "N_KITCHEN", 250)
    monkeypatch.setattr(run, "EPOCHS", 1.0)


@pytest.mark.usefixtures("short")
def test_demo_improves_model_and_prints_summary(tmp_path, capsys):
    result = demo(DemoConfig(out=str(tmp_path / "tiny")))
    training, bank = result.training, result.bank
    assert training.trained.mean < training.n_words - 5
    assert training.tuned.mean < training.foreign.mean < 2 * training.n_words
    assert bank.same_sense[0] == pytest.approx(1.0)
    assert bank.other_sense[0] == pytest.approx(1.0)
    assert max(bank.other_sense[1:]) < 0.999
    summary = str(result)
    assert f"Perplexity {training.trained.mean:.1f} on held-out sentences." in summary
    assert f"4. Using the pre-trained model\n   {bank.comparison}" in summary
    assert f"{bank.same_sense[-1]:.3f} in the same sense" in bank.comparison
    assert f"The pre-trained model was saved to {tmp_path / 'tiny'}." in summary
    assert f"1. Word senses\n   {result.senses.summary}\n" in summary
    without_senses = str(dataclasses.replace(result, senses=None))
    assert f"1. Word senses\n   {run.MODEL_MISSING}\n" in without_senses
    progress = capsys.readouterr().err
    assert "town: " in progress
    assert "/town: " not in progress
    assert 'compare the vectors of "bank"\n\nEmbedded 6 sentences, 72 words in ' in progress
    assert "vectors.h5" not in progress + summary
    assert progress.index(str(result.senses)) < progress.index("Step 2 of 4: pre-train")
    assert ELMo.from_pretrained(tmp_path / "tiny").encode("a b").shape == (2, 128)


@pytest.mark.usefixtures("short")
def test_demo_without_out_writes_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "N_TOWN", 100)
    monkeypatch.setattr(run, "N_KITCHEN", 60)
    assert "was saved to" not in str(demo(DemoConfig()))
    assert not list(tmp_path.iterdir())


def test_demo_without_extras_skips_training_and_uses_bundled_model(tmp_path, monkeypatch, capsys):
    def fail(config):
        raise MissingExtra("training", "train")

    monkeypatch.setattr(run, "pretrain", fail)
    result = demo(DemoConfig(out=str(tmp_path / "tiny")))
    assert result.training is None
    assert not list(tmp_path.iterdir())
    reason = f"Skipped: {MissingExtra('training', 'train')}"
    progress = capsys.readouterr().err
    assert reason in progress
    assert progress.index("Step 3 of 4") < progress.index("Skipped for the same reason.\n\nStep 4")
    summary = str(result)
    assert f"2 and 3. Pre-training and fine-tuning\n   {reason}\n\n4. Using small-en\n" in summary
    assert "was saved to" not in summary
    pairs = zip(result.bank.other_sense[1:], result.bank.same_sense[1:], strict=True)
    assert all(other < same for other, same in pairs)


def test_demo_without_bundled_model_skips_first_step(models, monkeypatch, capsys):
    def stop(config):
        raise AssertionError("second step")

    monkeypatch.setattr(run, "prepare", stop)
    with pytest.raises(AssertionError, match="second step"):
        demo(DemoConfig())
    assert f"{run.MODEL_MISSING}\n\nStep 2 of 4: pre-train" in capsys.readouterr().err


def test_toy_texts_are_deterministic_and_have_different_topics():
    assert list(town(50, seed=3)) == list(town(50, seed=3))
    assert list(town(50, seed=3)) != list(town(50, seed=4))
    words = [{w for line in text(300, seed=1) for w in line.split()} for text in (town, kitchen)]
    assert "bank" in words[0]
    assert "bank" not in words[1]
    for line in [*town(100, seed=1), *kitchen(100, seed=1)]:
        assert line[0].isupper()
        assert line.endswith(".")
        assert "{" not in line
