"""The sentences of the demo: ten words in two senses each, and no sense given away by one cue."""

import re
from collections import Counter, defaultdict
from importlib.resources import files

import pytest

from elmo.text.tokenizer import EnglishTokenizer

WORDS = ["bank", "play", "bat", "spring", "match", "light", "bark", "plant", "crane", "seal"]
PER_SENSE = 15
MOST_SHARED = 4
STOP = set(
    "a an the this that these those and or but nor so as than if then when while where until since "
    "because of in on at to for with by from into onto upon over under up down out off through "
    "before after between without within is are was were be been had has have did could would will "
    "may must can not no he she it we they his her its our their my him them who which there only "
    "one two all each every".split()
)
LINES = files("elmo.demo").joinpath("senses.tsv").read_text(encoding="ascii").splitlines()
ROWS = [tuple(line.split("\t")) for line in LINES]


def tokens(sentence):
    """Give the words as the library cuts them, without punctuation."""
    return [word for word in EnglishTokenizer().words(sentence) if word[0].isalnum()]


@pytest.fixture
def senses():
    """Sentences of each pair of a word and its sense."""
    found = defaultdict(list)
    for word, sense, sentence in ROWS:
        found[word, sense].append(sentence)
    return found


def test_ten_words_of_two_senses(senses):
    assert all(len(row) == 3 for row in ROWS)
    assert Counter(word for word, _ in senses) == dict.fromkeys(WORDS, 2)
    assert {pair: len(sentences) for pair, sentences in senses.items()} == dict.fromkeys(
        senses, PER_SENSE
    )


def test_no_sentence_twice():
    assert len({sentence.lower() for _, _, sentence in ROWS}) == len(ROWS)


def test_each_sentence_has_its_word_once_and_none_of_the_others():
    for word, sense, sentence in ROWS:
        assert re.fullmatch("[a-z]+", sense)
        assert re.fullmatch(r"[A-Z][A-Za-z0-9 ,]*\.", sentence)
        found = tokens(sentence)
        assert 8 <= len(found) <= 18, sentence
        assert found.count(word) == 1, sentence
        assert [token for token in found if token.lower() in WORDS] == [word], sentence


def test_no_cue_decides_a_sense(senses):
    for (word, sense), sentences in senses.items():
        count = Counter(
            cue
            for sentence in sentences
            for cue in {token.lower() for token in tokens(sentence)} - STOP - {word}
        )
        often = {cue: n for cue, n in count.items() if n > MOST_SHARED}
        assert not often, f"{word}, {sense}: {often}"
