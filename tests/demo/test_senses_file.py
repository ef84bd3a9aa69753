"""Tests of senses.tsv: ten words with two senses each, and no single word reveals a sense."""

import re
from collections import Counter, defaultdict
from importlib.resources import files

import pytest

from elmo.text.tokenizer import EnglishTokenizer

WORDS = ["bank", "play", "bat", "spring", "match", "light", "bark", "plant", "crane", "seal"]
PER_SENSE = 15
MAX_SENTENCES_PER_CUE = 4
STOP_WORDS = set(
    "a an the this that these those and or but nor so as than if then when while where until since "
    "because of in on at to for with by from into onto upon over under up down out off through "
    "before after between without within is are was were be been had has have did could would will "
    "may must can not no he she it we they his her its our their my him them who which there only "
    "one two all each every".split()
)
LINES = files("elmo.demo").joinpath("senses.tsv").read_text(encoding="ascii").splitlines()
ROWS = [tuple(line.split("\t")) for line in LINES]


def tokens(sentence):
    """Return the words of a sentence without punctuation."""
    return [word for word in EnglishTokenizer().words(sentence) if word[0].isalnum()]


@pytest.fixture
def senses():
    """Return the sentences of each word and sense."""
    sentences = defaultdict(list)
    for word, sense, sentence in ROWS:
        sentences[word, sense].append(sentence)
    return sentences


def test_file_has_ten_words_with_two_senses(senses):
    assert all(len(row) == 3 for row in ROWS)
    assert Counter(word for word, _ in senses) == dict.fromkeys(WORDS, 2)
    assert {pair: len(sentences) for pair, sentences in senses.items()} == dict.fromkeys(
        senses, PER_SENSE
    )


def test_sentences_are_distinct():
    assert len({sentence.lower() for _, _, sentence in ROWS}) == len(ROWS)


def test_each_sentence_has_its_word_once_and_no_other_word():
    for word, sense, sentence in ROWS:
        assert re.fullmatch("[a-z]+", sense)
        assert re.fullmatch(r"[A-Z][A-Za-z0-9 ,]*\.", sentence)
        words = tokens(sentence)
        assert 8 <= len(words) <= 18, sentence
        assert words.count(word) == 1, sentence
        assert [token for token in words if token.lower() in WORDS] == [word], sentence


def test_no_cue_occurs_in_many_sentences_of_a_sense(senses):
    for (word, sense), sentences in senses.items():
        counts = Counter(
            cue
            for sentence in sentences
            for cue in {token.lower() for token in tokens(sentence)} - STOP_WORDS - {word}
        )
        frequent = {cue: n for cue, n in counts.items() if n > MAX_SENTENCES_PER_CUE}
        assert not frequent, f"{word}, {sense}: {frequent}"
