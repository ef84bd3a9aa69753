"""Tests for corpus lookup tables: token rows, targets, unknown words, lengths, batches."""

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
# Not in the order of the corpus, and the special tokens are not first.
VOCABULARY = Vocabulary(["the", "<UNK>", "é", "</S>", "<S>", "cat"])

WORD_IDS = ModelConfig(
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
    "words": token_mapper(WORD_IDS, None, VOCABULARY.ids),
    "code points": token_mapper(CODE_POINTS, {s: n for n, s in enumerate(SYMBOLS)}, None),
}


@pytest.fixture(params=MAPPERS)
def mapper(request):
    return MAPPERS[request.param]


def tables_of(mapper, words=WORDS, vocabulary=VOCABULARY):
    return token_tables(DistinctWords.of(words), mapper, vocabulary)


def test_token_tables_rows_match_token_mapper(mapper):
    tables = tables_of(mapper)
    assert np.array_equal(tables.rows[:2], mapper.boundaries())
    assert np.array_equal(tables.rows[2:], mapper.rows(WORDS))
    assert tables.rows.dtype == np.int16


def test_token_tables_do_not_depend_on_block_size(mapper, monkeypatch):
    whole = tables_of(mapper)
    parts = shards.DistinctWords.parts
    monkeypatch.setattr(shards.DistinctWords, "parts", lambda self: parts(self, 2))
    in_blocks = tables_of(mapper)
    for name in ("rows", "targets", "unknown", "characters"):
        assert np.array_equal(getattr(in_blocks, name), getattr(whole, name))


def test_token_tables_targets_are_softmax_ids():
    tables = tables_of(MAPPERS["bytes"])
    assert tables.targets.tolist() == [4, 3, 5, 0, 1, 1, 1, 3, 1, 2, 1]
    # A special token that occurs as a word of the text is in the vocabulary.
    assert np.flatnonzero(tables.unknown).tolist() == [4, 5, 8, 10]


def test_token_tables_characters_count_code_points_and_end_of_word():
    """Truncated words count in full, and a boundary token counts as one character."""
    tables = tables_of(MAPPERS["bytes"])
    assert tables.characters.tolist() == [1, 1, 4, 4, 6, 3, 6, 5, 27, 2, 1]


def test_token_tables_store_large_ids_as_int32():
    vocabulary = Vocabulary([*SPECIAL_TOKENS, *(f"w{number}" for number in range(40_000))])
    mapper = token_mapper(WORD_IDS, None, vocabulary.ids)
    tables = tables_of(mapper, ["w39999", "w5"], vocabulary)
    assert tables.rows.dtype == np.int32
    assert tables.rows[:, 0].tolist() == [1, 2, 40_003, 9]
    assert tables.targets.tolist() == [0, 1, 40_002, 8]


def test_token_tables_without_words_contain_only_boundary_tokens():
    tables = tables_of(MAPPERS["bytes"], [])
    assert len(tables.rows) == len(tables.targets) == 2


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_token_tables_reject_vocabulary_without_special_token(token):
    words = [word for word in VOCABULARY.words if word != token]
    with pytest.raises(FormatError, match=token):
        tables_of(MAPPERS["bytes"], vocabulary=Vocabulary(words))


SENTENCES = st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=5), min_size=1, max_size=12)


@settings(max_examples=40)
@given(SENTENCES, st.integers(1, 4), st.integers(1, 6), st.data())
def test_token_tables_batch_looks_up_inputs_and_targets_of_segment(
    sentences, n_streams, n_steps, data
):
    tables = tables_of(MAPPERS["bytes"])
    config = StreamConfig(batch_size=n_streams, unroll=n_steps, directions="independent", reset=0.5)
    loader = SegmentLoader(Split.of(sentences), config, seed=1)
    (segment,) = itertools.islice(loader, 2, 3)
    first = data.draw(st.integers(0, n_streams - 1))
    last = data.draw(st.integers(first + 1, n_streams))
    streams = slice(first, last)
    batch = tables.batch(segment, streams)
    inputs, targets = segment.inputs[:, :, streams], segment.targets[:, :, streams]
    assert np.array_equal(batch.words[batch.index], inputs)
    assert np.array_equal(batch.targets, tables.targets[targets])
    assert np.array_equal(batch.resets, segment.resets[:, :, streams])
    # Every word occurs once.
    assert len(batch.words) == len(np.unique(inputs))
    whole = tables.batch(segment)
    assert np.array_equal(whole.words[whole.index][:, :, streams], inputs)


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.just(n),
            arrays(np.int64, array_shapes(max_dims=3, max_side=6), elements=st.integers(0, n - 1)),
        )
    )
)
def test_distinct_matches_numpy_unique(drawn):
    n, numbers = drawn
    expected, expected_index = np.unique(numbers, return_inverse=True)
    values, index = distinct(numbers, n)
    assert np.array_equal(values, expected)
    assert np.array_equal(index, expected_index.reshape(numbers.shape))
    assert values.dtype == index.dtype == np.int64
