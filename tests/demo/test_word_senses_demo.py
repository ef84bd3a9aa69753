"""Tests of the first step of the demo: examples, summary and the bundled model."""

import dataclasses

import pytest
from conftest import TINY, random_model

from elmo.demo.sense_neighbors import (
    Occurrence,
    SenseNeighbors,
    correct_fractions,
    load_occurrences,
)
from elmo.demo.word_senses_demo import MODEL, SHOWN, SensesResult, bundled_senses
from elmo.formats import model_folder


def item(word, sense, sentence, neighbor_sense):
    """Return an occurrence with a single neighbor."""
    neighbor = Occurrence(word, neighbor_sense, "x")
    return SenseNeighbors(Occurrence(word, sense, sentence), ((neighbor, 0.5),))


@pytest.fixture(scope="module")
def result():
    return bundled_senses()


def test_examples_are_first_sentences_in_order_of_shown_words():
    neighbors = (
        item("bank", "river", "A bank.", "money"),
        item("bank", "river", "Another bank.", "river"),
        item("bat", "club", "A bat.", "club"),
        item("bank", "money", "Their bank.", "money"),
        item("play", "sport", "A play.", "sport"),
    )
    sentences = [example.query.sentence for example in SensesResult(neighbors, 1.0).examples]
    assert sentences == ["A play.", "A bank.", "Their bank."]


def test_summary_counts_words_with_correct_majority_in_both_senses():
    neighbors = (
        item("play", "sport", "", "sport"),
        item("play", "theatre", "", "theatre"),
        item("bank", "river", "", "river"),
        item("bank", "money", "", "money"),
        item("bank", "money", "", "river"),
    )
    summary = SensesResult(neighbors, 1.24).summary
    assert summary == (
        "small-en distinguishes the two senses of 1 out of 2 words (5 sentences, 1.2 s)."
    )


def test_bundled_model_distinguishes_all_words(result):
    """This is the measured result, so that a worse model is noticed."""
    assert [item.query for item in result.found] == load_occurrences()
    fractions = correct_fractions(result.found)
    assert all(min(senses.values()) > 0.5 for senses in fractions.values())
    assert "the two senses of 10 out of 10 words (300 sentences, " in result.summary
    assert result.seconds < 60


def test_text_shows_first_sentence_of_each_sense(result):
    text = str(result)
    first_sentences = {}
    for occurrence in load_occurrences():
        key = (occurrence.word, occurrence.sense)
        first_sentences.setdefault(key, occurrence.sentence)
    queries = [(*key, text) for key, text in first_sentences.items() if key[0] in SHOWN]
    assert len(queries) == 4
    for word, sense, sentence in queries:
        assert text.count(f"{word} ({sense})  {sentence}\n") == 1
    assert len(text.splitlines()) == 3 + 4 * (1 + 5) + 1 + 3
    assert result.summary in text


def test_bundled_senses_ignores_model_in_working_folder(models, tmp_path, monkeypatch):
    """Only an installed model is used, and None is returned without one."""
    monkeypatch.chdir(tmp_path)
    text = dataclasses.replace(TINY.text, tokenizer="english")
    model = random_model(dataclasses.replace(TINY, text=text))
    model_folder.write(model, tmp_path / MODEL)
    assert bundled_senses() is None
    model_folder.write(model, models / MODEL)
    assert len(bundled_senses().found) == 300
