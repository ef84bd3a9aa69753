"""Tests for token batches: boundary tokens, word ids, distinct words, padding."""

import dataclasses

import numpy as np
import pytest
from conftest import TINY
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import character_batch

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.errors import ConfigError, InputError
from elmo.text.characters import ByteCharacters, build_dictionary
from elmo.text.token_batches import TokenMapper, WordTable, token_mapper
from elmo.text.vocabulary import Vocabulary

WORDS = WordTable({"the": 4, "cat": 5, "": 6, "longer": 7}, begin=1, end=2, unknown=3)


@pytest.fixture
def mapper():
    return TokenMapper(ByteCharacters(5))


def test_token_mapper_without_characters_and_words_is_rejected():
    with pytest.raises(ConfigError, match="characters, a word id, or both"):
        TokenMapper(None)


def test_batch_has_character_ids_boundary_tokens_and_padding(mapper):
    begin, end, a, b = (
        [259, 257, 260, 261, 261],
        [259, 258, 260, 261, 261],
        [259, 98, 260, 261, 261],
        [259, 99, 260, 261, 261],
    )
    padding = [0] * 5
    assert mapper.batch([["a", "b"], [], ["b"]]).tolist() == [
        [begin, a, b, end],
        [begin, end, padding, padding],
        [begin, b, end, padding],
    ]


def test_batch_has_word_ids_if_mapper_has_only_a_word_table():
    mapper = TokenMapper(None, WORDS)
    batch = mapper.batch([["the", "cat"], ["dog", "", "the"], []])
    assert batch[:, :, 0].tolist() == [[1, 4, 5, 2, 0], [1, 3, 6, 4, 2], [1, 2, 0, 0, 0]]


def test_token_row_has_character_ids_followed_by_word_id():
    mapper = TokenMapper(ByteCharacters(4), WORDS)
    assert mapper.rows(["the", "dog"]).tolist() == [
        [259, 117, 105, 260, 4],
        [259, 101, 112, 260, 3],
    ]
    assert mapper.boundaries().tolist() == [[259, 257, 260, 261, 1], [259, 258, 260, 261, 2]]
    assert mapper.batch([["the"], []])[1, 2].tolist() == [0] * 5


def test_distinct_puts_boundary_tokens_before_words(mapper):
    tokens = mapper.distinct([["a", "b", "a"], [], ["b"], ["a", "a"]])
    assert tokens.index.tolist() == [
        [0, 2, 3, 2, 1],
        [0, 1, 0, 0, 0],
        [0, 3, 1, 0, 0],
        [0, 2, 2, 1, 0],
    ]
    assert tokens.lengths.tolist() == [5, 2, 3, 4]
    assert tokens.words == ["a", "b"]
    rows = mapper.rows_with_boundaries(tokens.words)
    assert len(rows) == 4
    assert (rows[:2] == mapper.boundaries()).all()
    assert (rows[2:] == mapper.rows(["a", "b"])).all()


@pytest.mark.parametrize("sentences", [[[]], [[], []]])
def test_empty_sentences_have_only_boundary_tokens(mapper, sentences):
    tokens = mapper.distinct(sentences)
    assert tokens.index.tolist() == [[0, 1]] * len(sentences)
    assert mapper.rows_with_boundaries(tokens.words).shape == (2, 5)
    assert mapper.batch(sentences).shape == (len(sentences), 2, 5)


def test_batch_without_sentences_is_empty(mapper):
    tokens = mapper.distinct([])
    assert tokens.index.shape == (0, 2)
    assert tokens.lengths.shape == (0,)
    assert mapper.batch([]).shape == (0, 2, 5)


def test_boundary_token_used_as_word_is_encoded_as_characters(mapper):
    tokens = mapper.distinct([["<S>"]])
    assert tokens.index.tolist() == [[0, 2, 1]]
    assert mapper.rows_with_boundaries(tokens.words)[2].tolist() == [259, 61, 84, 63, 260]


any_word = st.text(st.characters(), max_size=8)


@settings(max_examples=80)
@given(st.lists(st.lists(any_word, max_size=5), min_size=1, max_size=5), st.integers(3, 12))
def test_batches_of_arbitrary_sentences_match_reference(sentences, width):
    mapper = TokenMapper(ByteCharacters(width))
    expected = character_batch(sentences, width)
    assert mapper.batch(sentences).tolist() == expected.tolist()
    tokens = mapper.distinct(sentences)
    n_distinct = len({word for sentence in sentences for word in sentence})
    rows = mapper.rows_with_boundaries(tokens.words)
    assert rows.shape == (2 + n_distinct, width)
    for row, length in enumerate(tokens.lengths):
        assert (rows[tokens.index[row, :length]] == expected[row, :length]).all()


# ------------------------------------------------------------------------------------ word tables


def test_word_table_truncates_words_before_lookup():
    table = WordTable({"日本": 4, "日本語": 5}, begin=1, end=2, unknown=3, max_characters=2)
    assert table.column(["日本語", "日", "日本"]).tolist() == [[4], [3], [4]]


def test_word_table_column_is_empty_without_words():
    assert WORDS.column([]).shape == (0, 1)
    assert WORDS.column([]).dtype == np.int64


def test_word_table_without_unknown_token_rejects_unknown_words():
    table = dataclasses.replace(WORDS, unknown=None)
    assert table.column(["the"]).tolist() == [[4]]
    with pytest.raises(InputError, match=r"'dog' is not in the model's word table"):
        table.column(["the", "dog"])
    with pytest.raises(InputError) as caught:
        table.column(["x" * 10_000])
    assert len(str(caught.value)) < 400


def word_config(**options):
    encoder = EncoderConfig(n_characters=0, n_words=9, word_dim=4, project=False)
    text = TextConfig(characters="none", **options)
    return ModelConfig(text, encoder, LSTMConfig(cell_dim=4, projection_dim=4))


def test_token_mapper_for_byte_model_has_no_word_table():
    mapper = token_mapper(TINY, None, None)
    assert mapper.words is None
    assert mapper.boundaries().shape == (2, 12)


def test_word_ids_match_bilm_tf_test_vocabulary(golden_path):
    vocabulary = Vocabulary.load(golden_path("bilm-tf/data/vocab_test.txt"))
    mapper = token_mapper(word_config(), None, vocabulary.ids)
    batch = mapper.batch([["The", "first", "."], ["It", "said"]])
    assert batch[:, :, 0].tolist() == [[2, 18, 75, 6, 1], [2, 67, 21, 1, 0]]


def test_word_ids_match_ids_dumped_from_bilm_tf(golden_path):
    folder = golden_path("generated/bilm-tf")
    vocabulary = Vocabulary.load(folder / "dump_vocab.txt")
    lines = (folder / "dump_dataset.txt").read_text("utf-8").splitlines()
    mapper = token_mapper(word_config(), None, vocabulary.ids)
    with np.load(folder / "dump_token_ids.npz") as golden:
        expected = golden["ids"]
    assert mapper.batch([line.split() for line in lines])[:, :, 0].tolist() == expected.tolist()


def test_token_mapper_maps_boundary_tokens_in_text_to_unknown():
    words = {"<S>": 0, "</S>": 1, "<UNK>": 2, "the": 3}
    mapper = token_mapper(word_config(), None, words)
    batch = mapper.batch([["the", "dog", "<UNK>"]])
    assert batch[:, :, 0].tolist() == [[1, 4, 3, 3, 2]]
    # A boundary token as a word of the text is an unknown word.
    assert mapper.rows(["<S>", "</S>"]).tolist() == [[3], [3]]


def test_token_mapper_without_unknown_token_rejects_unknown_words():
    mapper = token_mapper(word_config(), None, {"<S>": 0, "</S>": 1, "the": 2})
    assert mapper.rows(["the"]).tolist() == [[3]]
    with pytest.raises(InputError, match="has no <UNK>"):
        mapper.rows(["dog"])


@pytest.mark.parametrize("missing", ["<S>", "</S>"])
def test_word_table_without_boundary_token_is_rejected(missing):
    words = {word: i for i, word in enumerate(["<S>", "</S>", "<UNK>"]) if word != missing}
    with pytest.raises(ConfigError, match="Both boundary tokens are required"):
        token_mapper(word_config(), None, words)


def test_word_table_uses_configured_special_token_names():
    words = {"<oov>": 0, "<bos>": 1, "<eos>": 2, "the": 3}
    config = word_config(special_tokens=("<bos>", "<eos>", "<oov>"))
    batch = token_mapper(config, None, words).batch([["the", "dog"]])
    assert batch[0, :, 0].tolist() == [2, 4, 1, 3]


def cache_config():
    encoder = dataclasses.replace(TINY.encoder, n_words=9, word_dim=8, word_role="cache")
    return dataclasses.replace(TINY, encoder=encoder)


def test_cached_word_table_maps_unknown_words_to_id_0():
    words = {"<S>": 0, "</S>": 1, "<UNK>": 2, "the": 3}
    mapper = token_mapper(cache_config(), None, words)
    column = mapper.rows(["the", "dog", "<UNK>", "<S>"])[:, -1]
    assert column.tolist() == [4, 0, 3, 0]
    assert mapper.boundaries()[:, -1].tolist() == [1, 2]


def test_cached_word_table_maps_missing_boundary_tokens_to_id_0():
    mapper = token_mapper(cache_config(), None, {"the": 0})
    assert mapper.boundaries()[:, -1].tolist() == [0, 0]
    assert mapper.boundaries()[:, 1].tolist() == [257, 258]
    assert mapper.rows(["the"])[0, -1] == 1


def test_cut_words_truncates_words_before_word_table_lookup():
    symbols = ["a", "b", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    characters = {symbol: number for number, symbol in enumerate(symbols)}
    text = TextConfig(
        characters="dictionary",
        max_characters=4,
        special_tokens=("<bos>", "<eos>", "<oov>"),
        cut_words=True,
    )
    encoder = EncoderConfig(n_characters=9, filters=((1, 2),), n_words=6, word_dim=2)
    config = ModelConfig(text, encoder, LSTMConfig(cell_dim=2, projection_dim=2))
    words = {"<oov>": 0, "<bos>": 1, "<eos>": 2, "ab": 4}
    mapper = token_mapper(config, characters, words)
    # Shifted by one: a 1, b 2, oov 5, pad 6, bow 7 (after the word), eow 8 (before it).
    assert mapper.rows(["abba", "ba"]).tolist() == [[8, 1, 2, 7, 5], [8, 2, 1, 7, 1]]
    assert mapper.boundaries().tolist() == [[8, 3, 7, 6, 2], [8, 4, 7, 6, 3]]


@pytest.mark.parametrize(
    ("scheme", "row"), [("codepoints", [5, 3, 6, 4, 4]), ("jamo", [5, 7, 8, 6, 4])]
)
def test_token_mapper_uses_configured_symbol_scheme(scheme, row):
    characters = build_dictionary(["가"], [2], "jamo")
    config = ModelConfig(
        TextConfig(characters=scheme, max_characters=5),
        EncoderConfig(n_characters=9, filters=((1, 2),)),
        LSTMConfig(cell_dim=2, projection_dim=2),
    )
    assert token_mapper(config, characters, None).rows(["가"]).tolist() == [row]
