"""The demo: what it says is true, and it says that its model is untrained."""

import re

from elmo.config import DemoConfig
from elmo.demo import demo
from elmo.embed.embedder import ELMo


def test_story(tmp_path):
    result = demo(DemoConfig(output=str(tmp_path / "tiny")))
    assert result.words[-2:] == ("up", ".")
    assert abs(result.similarity[0] - 1) < 1e-5
    assert max(result.similarity[1:]) < 0.999
    assert result.largest_difference < 1e-5
    assert result.reloaded_equal
    story = str(result)
    assert "UNTRAINED" in story
    assert "the same bytes." in story
    assert re.search(r"5 sentences, 72 words", story)
    assert ELMo.from_pretrained(tmp_path / "tiny").encode("a b").shape == (2, 128)


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "6." not in str(demo(DemoConfig()))
    assert not list(tmp_path.iterdir())
