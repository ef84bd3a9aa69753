"""Tests for reading corpora: words and sentences by index, and errors for damaged files."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.config import ReadingConfig
from elmo.corpus.shards import (
    Corpus,
    CorpusHeader,
    CorpusShard,
    DistinctWords,
    Split,
    is_corpus,
    read_header,
    shard_paths,
    word_type,
)
from elmo.errors import ConfigError, ElmoError, FormatError
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary

FAST = settings(max_examples=60)
WORD = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SENTENCES = st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=12)


# ------------------------------------------------------------------------------------ words


@FAST
@given(st.lists(WORD, max_size=20), st.integers(1, 7))
def test_distinct_words_returns_words_by_id(words, size):
    table = DistinctWords.of(words)
    assert len(table) == len(words)
    assert [table[number] for number in range(len(words))] == words
    assert list(itertools.chain.from_iterable(table.parts(size))) == words
    assert all(len(part) == size for part in list(table.parts(size))[:-1])
    for start in range(len(words)):
        assert table.strings(start, start + 3) == words[start : start + 3]


def test_distinct_words_rejects_id_out_of_range():
    with pytest.raises(IndexError):
        DistinctWords.of(["a", "b"])[2]


def test_distinct_words_replaces_lone_surrogates():
    assert DistinctWords.of(["a\ud800", "b"])[1] == "b"


# ------------------------------------------------------------------------------------ sentences


def in_shards(parts, dtype=np.uint16):
    """Return a split with one shard per list of sentences."""
    shards = [Split.of(part).shards[0] for part in parts]
    return Split(tuple(CorpusShard(shard.words.astype(dtype), shard.starts) for shard in shards))


@FAST
@given(st.lists(SENTENCES, min_size=1, max_size=4), st.randoms())
def test_split_indexes_sentences_across_shards(parts, random):
    sentences = [sentence for part in parts for sentence in part]
    split = in_shards(parts)
    assert split.n_sentences == len(sentences)
    assert split.n_words == sum(map(len, sentences))
    assert split.n_pairs == sum(len(sentence) + 1 for sentence in sentences)
    numbers = [random.randrange(len(sentences)) for _ in range(20)] if sentences else []
    lengths = split.lengths(np.array(numbers, dtype=np.int64))
    assert lengths.tolist() == [len(sentences[number]) for number in numbers]
    positions = [(n, o) for n in numbers for o in range(len(sentences[n]))]
    random.shuffle(positions)
    words = split.words_at(*np.array(positions, dtype=np.int64).reshape(-1, 2).T)
    assert words.dtype == np.int64
    assert words.tolist() == [sentences[number][offset] for number, offset in positions]


def test_split_skips_empty_shard():
    split = in_shards([[[1, 2]], [], [[3]]])
    assert split.first.tolist() == [0, 1, 1, 2]
    assert split.lengths(np.array([1, 0])).tolist() == [1, 2]
    assert split.words_at(np.array([1, 0]), np.array([0, 1])).tolist() == [3, 2]


@pytest.mark.parametrize(("n_words", "dtype"), [(1, "u2"), (2**16, "u2"), (2**16 + 1, "u4")])
def test_word_type_is_narrowest_sufficient_dtype(n_words, dtype):
    assert np.dtype(word_type(n_words)) == dtype
    assert np.iinfo(word_type(n_words)).max >= n_words - 1


# ------------------------------------------------------------------------------------ the folder

WORDS = ["the", "naïve", "日本", "cat"]
PARTS = {"train": [[[0, 1, 0], []], [[2, 0]]], "valid": [[[3], [1, 1]]]}


def write_corpus(folder, parts=PARTS, dtype=np.uint16, words=WORDS):
    """Write a corpus folder from the format description, without using the package."""
    folder.mkdir(exist_ok=True)
    for split, shards in parts.items():
        for number, sentences in enumerate(shards):
            flat = [word for sentence in sentences for word in sentence]
            starts = np.cumsum([0, *map(len, sentences)])
            (folder / f"{split}-{number:05d}.tokens").write_bytes(np.array(flat, dtype).tobytes())
            (folder / f"{split}-{number:05d}.starts").write_bytes(starts.astype("i8").tobytes())
    encoded = [word.encode() for word in words]
    (folder / "words.bin").write_bytes(b"".join(encoded))
    starts = np.cumsum([0, *map(len, encoded)])
    (folder / "words.idx").write_bytes(starts.astype("i8").tobytes())
    (folder / "counts.bin").write_bytes(np.arange(len(words), 0, -1).astype("i8").tobytes())
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL_TOKENS, *words[:3]]) + "\n", "utf-8")
    header = {
        "version": 1,
        "reading": {"tokenizer": "english"},
        "shards": {split: len(shards) for split, shards in parts.items()},
        "n_words": {
            split: sum(len(s) for shard in shards for s in shard) for split, shards in parts.items()
        },
        "n_sentences": {split: sum(map(len, shards)) for split, shards in parts.items()},
    }
    (folder / "corpus.json").write_text(json.dumps(header))
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_corpus(tmp_path / "corpus")


def sentences_of(split):
    sentences = []
    for number, length in enumerate(split.lengths(np.arange(split.n_sentences))):
        repeated = np.full(length, number)
        sentences.append(split.words_at(repeated, np.arange(length)).tolist())
    return sentences


def test_open_reads_all_files_of_a_corpus(folder):
    corpus = Corpus.open(folder)
    assert [corpus.words[number] for number in range(len(corpus.words))] == WORDS
    assert corpus.counts.tolist() == [4, 3, 2, 1]
    assert sentences_of(corpus.splits["train"]) == [[0, 1, 0], [], [2, 0]]
    assert sentences_of(corpus.splits["valid"]) == [[3], [1, 1]]
    assert corpus.reading.tokenizer == "english"
    assert corpus.vocabulary.words == (*SPECIAL_TOKENS, *WORDS[:3])


def test_word_ids_are_stored_as_uint32_if_there_are_many_words(tmp_path):
    words = [f"w{number}" for number in range(2**16 + 1)]
    parts = {"train": [[[2**16, 0], [1, 2]]]}
    folder = write_corpus(tmp_path / "corpus", parts, np.uint32, words)
    assert sentences_of(Corpus.open(folder).splits["train"]) == [[2**16, 0], [1, 2]]
    # Half of the file has the size of the same numbers as uint16.
    path = folder / "train-00000.tokens"
    path.write_bytes(path.read_bytes()[:8])
    with pytest.raises(FormatError, match="damaged"):
        Corpus.open(folder)


def test_open_memory_maps_shards(folder):
    shard = Corpus.open(folder).splits["train"].shards[0]
    assert isinstance(shard.words, np.memmap)
    assert isinstance(shard.starts, np.memmap)


def test_open_reads_a_shard_without_words(tmp_path):
    parts = {"train": [[[0]], [[], []]]}
    split = Corpus.open(write_corpus(tmp_path / "corpus", parts)).splits["train"]
    assert sentences_of(split) == [[0], [], []]


def test_is_corpus_requires_folder_with_header(folder, tmp_path):
    assert is_corpus(folder)
    assert not is_corpus(tmp_path)
    assert not is_corpus(tmp_path / "missing")
    assert not is_corpus(folder / "corpus.json")


def test_corpus_header_round_trips_through_json(tmp_path):
    header = CorpusHeader(
        1, ReadingConfig(tokenizer="english"), {"train": 2}, {"train": 5}, {"train": 3}
    )
    (tmp_path / "corpus.json").write_bytes(header.to_bytes())
    assert read_header(tmp_path) == header


def test_shard_paths_contain_split_name_and_shard_number(tmp_path):
    assert [path.name for path in shard_paths(tmp_path, "valid", 12)] == [
        "valid-00012.tokens",
        "valid-00012.starts",
    ]


FILES = [
    *(
        f"{split}-0000{n}.{extension}"
        for split, n in (("train", 0), ("train", 1), ("valid", 0))
        for extension in ("tokens", "starts")
    ),
    "words.bin",
    "words.idx",
    "counts.bin",
]


@pytest.mark.parametrize(
    "damage", ["byte", "two bytes", "number", "half", "all", "missing", "longer"]
)
@pytest.mark.parametrize("name", FILES)
def test_open_rejects_damaged_files(folder, name, damage):
    path = folder / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        end = {"byte": -1, "two bytes": -2, "number": -8, "half": len(data) // 2, "all": 0}
        path.write_bytes(data + data[-8:] if damage == "longer" else data[: end[damage]])
    with pytest.raises(FormatError, match="prepare"):
        Corpus.open(folder)


def test_open_rejects_a_missing_vocabulary(folder):
    (folder / "vocab.txt").unlink()
    with pytest.raises(FormatError, match=r"vocab\.txt"):
        Corpus.open(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"version": 2}', "{}", "\xff"])
def test_open_rejects_an_invalid_header(folder, content):
    (folder / "corpus.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(FormatError, match=r"corpus\.json"):
        Corpus.open(folder)


def test_open_rejects_a_missing_folder(tmp_path):
    with pytest.raises(FormatError, match="not a prepared corpus"):
        Corpus.open(tmp_path / "missing")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shards", {"train": 1, "valid": 1}),
        ("shards", {"train": 3, "valid": 1}),
        ("n_words", {"train": 6, "valid": 3}),
        ("n_words", {"train": 5}),
        ("n_sentences", {"train": 3, "valid": 3}),
        ("n_sentences", {"train": 3}),
        ("n_words", 5),
        ("reading", {"unknown": 1}),
    ],
)
def test_open_rejects_a_header_that_does_not_match_the_files(folder, key, value):
    header = json.loads((folder / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps({**header, key: value}))
    with pytest.raises(ElmoError):
        Corpus.open(folder)


def test_open_rejects_a_header_without_a_field(folder):
    header = json.loads((folder / "corpus.json").read_text())
    del header["n_words"]
    (folder / "corpus.json").write_text(json.dumps(header))
    with pytest.raises(ConfigError, match="n_words is missing"):
        Corpus.open(folder)


def test_open_rejects_files_of_different_corpora(folder, tmp_path):
    other = write_corpus(tmp_path / "other", words=[*WORDS, "more"])
    (folder / "counts.bin").write_bytes((other / "counts.bin").read_bytes())
    with pytest.raises(FormatError, match=r"4 words, but counts\.bin has 5 counts"):
        Corpus.open(folder)


def test_vocabulary_counts_sums_target_counts_by_id():
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "b", "z"])
    corpus = Corpus(
        DistinctWords.of(["a", "b", "c"]),
        np.array([3, 2, 1]),
        {"train": Split.of([[0, 0, 1], [0, 1, 2]])},
        ReadingConfig(),
        vocabulary,
    )
    assert corpus.vocabulary_counts(vocabulary).tolist() == [2, 2, 4, 2, 0]
