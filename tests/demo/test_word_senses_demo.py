"""The first chapter of the demo: what it shows is what was found, and nobody picked it."""

import dataclasses

import pytest
from conftest import TINY, random_model

from elmo.demo.sense_neighbors import Occurrence, SenseNeighbors, are_distinguished, occurrences
from elmo.demo.word_senses_demo import MODEL, SHOWN, SensesResult, bundled_senses
from elmo.formats import model_folder


def item(word, sense, sentence, found):
    """An occurrence whose only neighbour has the sense `found`."""
    return SenseNeighbors(Occurrence(word, sense, sentence), ((Occurrence(word, found, "x"), 0.5),))


@pytest.fixture(scope="module")
def result():
    return bundled_senses()


def test_first_sentences_in_the_order_of_the_words_shown():
    found = (
        item("bank", "river", "A bank.", "money"),
        item("bank", "river", "Another bank.", "river"),
        item("bat", "club", "A bat.", "club"),
        item("bank", "money", "Their bank.", "money"),
        item("play", "sport", "A play.", "sport"),
    )
    shown = [one.query.sentence for one in SensesResult(found, 1.0).firsts]
    assert shown == ["A play.", "A bank.", "Their bank."]


def test_a_word_counts_where_more_than_half_of_both_senses_are_right():
    found = (
        item("play", "sport", "", "sport"),
        item("play", "theatre", "", "theatre"),
        item("bank", "river", "", "river"),
        item("bank", "money", "", "money"),
        item("bank", "money", "", "river"),
    )
    assert SensesResult(found, 1.24).summary == "1 of 2 words are told apart (5 sentences, 1.2 s)"


def test_the_bundled_model(result):
    """Every word is told apart, in seconds; as measured, so a worse model would be noticed."""
    assert [one.query for one in result.found] == occurrences()
    assert all(min(shares.values()) > 0.5 for shares in are_distinguished(result.found).values())
    assert result.summary.startswith("10 of 10 words are told apart (300 sentences, ")
    assert result.seconds < 60


def test_what_is_shown(result):
    told = str(result)
    firsts = {}
    for one in occurrences():
        firsts.setdefault((one.word, one.sense), one.sentence)
    queries = [(*pair, text) for pair, text in firsts.items() if pair[0] in SHOWN]
    assert len(queries) == 4
    for word, sense, sentence in queries:
        assert told.count(f"{word} ({sense})  {sentence}\n") == 1
    assert len(told.splitlines()) == 1 + 4 * (1 + 4) + 1 + 2
    assert result.summary in told


def test_the_model_of_the_package_and_no_folder_of_that_name(models, tmp_path, monkeypatch):
    """Without it there is no such chapter, whatever lies in the working folder."""
    monkeypatch.chdir(tmp_path)
    text = dataclasses.replace(TINY.text, tokenizer="english")
    model = random_model(dataclasses.replace(TINY, text=text))
    model_folder.write(model, tmp_path / MODEL)
    assert bundled_senses() is None
    model_folder.write(model, models / MODEL)
    assert len(bundled_senses().found) == 300
