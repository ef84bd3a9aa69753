"""Words of a corpus as a model knows them: rows, targets, unknown ones, characters, batches."""

import itertools

import numpy as np
import pytest
from conftest import TINY
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, StreamConfig, TextConfig
from elmo.corpus import shards
from elmo.corpus.bptt_segments import SegmentLoader
from elmo.corpus.shards import DistinctWords, Split
from elmo.corpus.token_tables import distinct, token_tables
from elmo.errors import FormatError
from elmo.text.token_batches import token_mapper
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

WORDS = ["cat", "the", "naïve", "日本", "<UNK>", "</S>", "a-word-longer-than-any-row", "é", ""]
# Not in the order of the corpus, marks not first.
VOCABULARY = Vocabulary(["the", "<UNK>", "é", "</S>", "<S>", "cat"])

BY_WORD = ModelConfig(
    TextConfig(characters="none"),
    EncoderConfig(n_characters=0, project=False, n_words=7, word_dim=8),
    LSTMConfig(cell_dim=4, projection_dim=8),
)
CODE_POINTS = ModelConfig(
    TextConfig(characters="codepoints", max_characters=7), TINY.encoder, TINY.lstm
)
SYMBOLS = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", "c", "a", "t", "é", "日"]
MAPPERS = {
    "bytes": token_mapper(TINY, None, None),
    "words": token_mapper(BY_WORD, None, VOCABULARY.ids),
    "code points": token_mapper(CODE_POINTS, {s: n for n, s in enumerate(SYMBOLS)}, None),
}


@pytest.fixture(params=MAPPERS)
def mapper(request):
    return MAPPERS[request.param]


def tables_of(mapper, words=WORDS, vocabulary=VOCABULARY):
    return token_tables(DistinctWords.of(words), mapper, vocabulary)


def test_rows_are_the_mappers(mapper):
    tables = tables_of(mapper)
    assert np.array_equal(tables.rows[:2], mapper.boundaries())
    assert np.array_equal(tables.rows[2:], mapper.rows(WORDS))
    assert tables.rows.dtype == np.int16


def test_parts_of_the_table(mapper, monkeypatch):
    whole = tables_of(mapper)
    parts = shards.DistinctWords.parts
    monkeypatch.setattr(shards.DistinctWords, "parts", lambda self: parts(self, 2))
    cut = tables_of(mapper)
    for name in ("rows", "targets", "unknown", "characters"):
        assert np.array_equal(getattr(cut, name), getattr(whole, name))


def test_targets():
    tables = tables_of(MAPPERS["bytes"])
    assert tables.targets.tolist() == [4, 3, 5, 0, 1, 1, 1, 3, 1, 2, 1]
    # A mark that stands in the text as a word is a word the softmax has.
    assert np.flatnonzero(tables.unknown).tolist() == [4, 5, 8, 10]


def test_characters():
    """Code points and one for the end, whatever a row has room for; a mark is one."""
    tables = tables_of(MAPPERS["bytes"])
    assert tables.characters.tolist() == [1, 1, 4, 4, 6, 3, 6, 5, 27, 2, 1]


def test_large_ids_have_room():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *(f"w{number}" for number in range(40_000))])
    mapper = token_mapper(BY_WORD, None, vocabulary.ids)
    tables = tables_of(mapper, ["w39999", "w5"], vocabulary)
    assert tables.rows.dtype == np.int32
    assert tables.rows[:, 0].tolist() == [1, 2, 40_003, 9]
    assert tables.targets.tolist() == [0, 1, 40_002, 8]


def test_a_corpus_without_words():
    tables = tables_of(MAPPERS["bytes"], [])
    assert len(tables.rows) == len(tables.targets) == 2


@pytest.mark.parametrize("mark", SPECIAL_TOKENS)
def test_a_vocabulary_without_marks(mark):
    words = [word for word in VOCABULARY.words if word != mark]
    with pytest.raises(FormatError, match=mark):
        tables_of(MAPPERS["bytes"], vocabulary=Vocabulary(words))


SENTENCES = st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=5), min_size=1, max_size=12)


@settings(deadline=None, max_examples=40)
@given(SENTENCES, st.integers(1, 4), st.integers(1, 6), st.data())
def test_a_batch_is_the_window_looked_up(sentences, lanes, steps, data):
    tables = tables_of(MAPPERS["bytes"])
    config = StreamConfig(batch_size=lanes, unroll=steps, directions="independent", reset=0.5)
    stream = SegmentLoader(Split.of(sentences), config, seed=1)
    (window,) = itertools.islice(stream, 2, 3)
    first = data.draw(st.integers(0, lanes - 1))
    last = data.draw(st.integers(first + 1, lanes))
    own = slice(first, last)
    batch = tables.batch(window, own)
    inputs, targets = window.inputs[:, :, own], window.targets[:, :, own]
    assert np.array_equal(batch.words[batch.index], inputs)
    assert np.array_equal(batch.targets, tables.targets[targets])
    assert np.array_equal(batch.resets, window.resets[:, :, own])
    # Each word once.
    assert len(batch.words) == len(np.unique(inputs))
    whole = tables.batch(window)
    assert np.array_equal(whole.words[whole.index][:, :, own], inputs)


@settings(deadline=None)
@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.just(n),
            arrays(np.int64, array_shapes(max_dims=3, max_side=6), elements=st.integers(0, n - 1)),
        )
    )
)
def test_distinct_is_numpys_unique(drawn):
    n, numbers = drawn
    expected, places = np.unique(numbers, return_inverse=True)
    found, index = distinct(numbers, n)
    assert np.array_equal(found, expected)
    assert np.array_equal(index, places.reshape(numbers.shape))
    assert found.dtype == index.dtype == np.int64
