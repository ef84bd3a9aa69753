"""The demo: each step does its work, and what it says is what was measured."""

import dataclasses

import pytest

from elmo.config import DemoConfig
from elmo.demo import demo, run
from elmo.demo.toy_corpus import kitchen, town
from elmo.embed.embedder import ELMo


@pytest.fixture
def short(monkeypatch):
    """A demo of a few seconds: enough to learn something, too little to tell senses apart."""
    monkeypatch.setattr(run, "N_TOWN", 400)
    monkeypatch.setattr(run, "N_KITCHEN", 250)
    monkeypatch.setattr(run, "EPOCHS", 1.0)


@pytest.mark.usefixtures("short")
def test_story(tmp_path, capsys):
    result = demo(DemoConfig(out=str(tmp_path / "tiny")))
    assert result.trained.mean < result.before - 5
    assert result.tuned.mean < result.foreign.mean
    assert result.same_sense[0] == pytest.approx(1.0)
    assert result.other_sense[0] == pytest.approx(1.0)
    assert max(result.other_sense[1:]) < 0.999
    told = str(result)
    assert f"{result.trained.mean:.1f}." in told
    assert "6 sentences, 72 words" in told
    assert "The model is in" in told
    assert f"1. small-en: {result.senses.summary}." in told
    assert f"1. {run.LEFT_OUT}\n" in str(dataclasses.replace(result, senses=None))
    shown = capsys.readouterr().err
    assert shown.index(str(result.senses)) < shown.index("2. Pre-train")
    assert ELMo.from_pretrained(tmp_path / "tiny").encode("a b").shape == (2, 128)


@pytest.mark.usefixtures("short")
def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "The model is in" not in str(demo(DemoConfig()))
    assert not list(tmp_path.iterdir())


def test_an_installation_without_the_bundled_model(models, monkeypatch, capsys):
    """The first chapter says so, and the story goes on."""

    def stop(config):
        raise AssertionError("went on")

    monkeypatch.setattr(run, "prepare", stop)
    with pytest.raises(AssertionError, match="went on"):
        demo(DemoConfig())
    assert f"{run.LEFT_OUT}\n\n2. Pre-train" in capsys.readouterr().err


def test_texts_are_the_same_each_time_and_of_different_words():
    assert list(town(50, seed=3)) == list(town(50, seed=3))
    assert list(town(50, seed=3)) != list(town(50, seed=4))
    words = [{w for line in text(300, seed=1) for w in line.split()} for text in (town, kitchen)]
    assert "bank" in words[0]
    assert "bank" not in words[1]
    for line in [*town(100, seed=1), *kitchen(100, seed=1)]:
        assert line[0].isupper()
        assert line.endswith(".")
        assert "{" not in line
