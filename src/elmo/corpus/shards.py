"""The corpus folder: word numbers in memory-mapped shards, and the table of distinct words.

Reading only; `prepare` writes it. Whatever is larger than memory stays on the disk: arrays are
mapped, and what is asked for is what is read.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.config import ReadingConfig
from elmo.config.serialization import from_dict, to_dict
from elmo.errors import FormatError
from elmo.text.characters import BEGIN_MARK, END_MARK
from elmo.text.vocabulary import UNKNOWN, Vocabulary

HEAD = "corpus.json"
WORDS = "words.bin"
WORD_STARTS = "words.idx"
COUNTS = "counts.bin"
VOCABULARY = "vocab.txt"
VERSION = 1
SPLITS = ("train", "valid", "test")

Numbers = NDArray[np.int64]


class DistinctWords:
    """The distinct words of a corpus by number, as bytes on the disk."""

    def __init__(self, data: NDArray[np.uint8], starts: Numbers) -> None:
        """Take the bytes of all words end to end and where each begins.

        Args:
            data: UTF-8.
            starts: one more than there are words.
        """
        self._data = data
        self._starts = starts

    def __len__(self) -> int:
        """Count the words."""
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> str:
        """Give one word."""
        return self.strings(number, number + 1)[0]

    def strings(self, start: int, stop: int) -> list[str]:
        """Give the words from one number to before another."""
        places = self._starts[start : stop + 1].tolist()
        data = self._data[places[0] : places[-1]].tobytes()
        return [data[a - places[0] : b - places[0]].decode() for a, b in pairwise(places)]

    def parts(self, size: int = 2**16) -> Iterator[list[str]]:
        """Give all words in order, some thousands at a time."""
        for start in range(0, len(self), size):
            yield self.strings(start, min(start + size, len(self)))

    @classmethod
    def of(cls, words: Sequence[str]) -> "DistinctWords":
        """Make a table of words in memory."""
        encoded = [word.encode("utf-8", "replace") for word in words]
        starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), starts)


@dataclass(frozen=True)
class CorpusShard:
    """Some sentences, end to end.

    Attributes:
        words: word numbers, (words,).
        starts: where each sentence begins and the last one ends, (sentences + 1,).
    """

    words: NDArray[Any]
    starts: Numbers

    @property
    def n_sentences(self) -> int:
        """Count the sentences."""
        return len(self.starts) - 1


@dataclass(frozen=True)
class Split:
    """All sentences of one part of a corpus, numbered through its shards.

    Attributes:
        shards: in the order of the text.
        first: number of the first sentence of each shard, and the number of all.
    """

    shards: tuple[CorpusShard, ...]
    first: Numbers = field(init=False)

    def __post_init__(self) -> None:
        """Number the sentences."""
        counts = [0, *(shard.n_sentences for shard in self.shards)]
        object.__setattr__(self, "first", np.cumsum(counts, dtype=np.int64))

    @property
    def n_sentences(self) -> int:
        """Count the sentences."""
        return int(self.first[-1])

    @property
    def n_words(self) -> int:
        """Count the running words."""
        return sum(len(shard.words) for shard in self.shards)

    @property
    def n_pairs(self) -> int:
        """Count the predictions of one direction: every word and every sentence end."""
        return self.n_words + self.n_sentences

    def lengths(self, sentences: Numbers) -> Numbers:
        """Count the words of sentences."""
        lengths = np.empty(len(sentences), dtype=np.int64)
        for shard, chosen, local in self._by_shard(sentences):
            lengths[chosen] = shard.starts[local + 1] - shard.starts[local]
        return lengths

    def words_at(self, sentences: Numbers, offsets: Numbers) -> Numbers:
        """Give the word number at an offset in each of some sentences."""
        words = np.empty(len(sentences), dtype=np.int64)
        for shard, chosen, local in self._by_shard(sentences):
            words[chosen] = shard.words[shard.starts[local] + offsets[chosen]]
        return words

    def _by_shard(self, sentences: Numbers) -> Iterator[tuple[CorpusShard, Any, Numbers]]:
        """Sort sentences by the shard they are in: shard, which of them, their numbers in it."""
        if len(self.shards) == 1:
            yield self.shards[0], slice(None), sentences
            return
        homes = np.searchsorted(self.first, sentences, side="right") - 1
        for home in np.unique(homes).tolist():
            chosen = np.flatnonzero(homes == home)
            yield self.shards[home], chosen, sentences[chosen] - self.first[home]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]]) -> "Split":
        """Make a split of word numbers in memory."""
        listed = list(sentences)
        starts = np.cumsum([0, *map(len, listed)], dtype=np.int64)
        flat = [number for sentence in listed for number in sentence]
        return cls((CorpusShard(np.array(flat, dtype=np.int64), starts),))


@dataclass(frozen=True)
class CorpusHeader:
    """What corpus.json holds.

    Attributes:
        version: of the format.
        reading: how text became words.
        shards: files of each split.
        n_words: running words of each split.
        n_sentences: sentences of each split.
    """

    version: int
    reading: ReadingConfig
    shards: dict[str, int]
    n_words: dict[str, int]
    n_sentences: dict[str, int]

    def to_bytes(self) -> bytes:
        """Give the content of the file."""
        return (json.dumps(to_dict(self), indent=1) + "\n").encode("ascii")


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus.

    Attributes:
        words: distinct words of all splits.
        counts: how often each stands in the training split.
        splits: by name; one without text is not there.
        reading: how text became words.
        vocabulary: words of the softmax.
    """

    words: DistinctWords
    counts: Numbers
    splits: dict[str, Split]
    reading: ReadingConfig
    vocabulary: Vocabulary

    def vocabulary_counts(self, vocabulary: Vocabulary) -> Numbers:
        """Count how often each id of a vocabulary is a target in one direction of `train`.

        Args:
            vocabulary: with its three marks; a mark is met once a sentence, each in one direction.
        """
        counts = np.zeros(len(vocabulary), dtype=np.int64)
        unknown = vocabulary.ids[UNKNOWN]
        start = 0
        for part in self.words.parts():
            ids = np.array([vocabulary.ids.get(word, unknown) for word in part], dtype=np.int64)
            np.add.at(counts, ids, self.counts[start : start + len(part)])
            start += len(part)
        for mark in (BEGIN_MARK, END_MARK):
            counts[vocabulary.ids[mark]] += self.splits["train"].n_sentences
        return counts

    @classmethod
    def open(cls, folder: Path) -> "Corpus":
        """Open a folder that `prepare` wrote."""
        head = read_header(folder)
        words, counts = open_table(folder)
        dtype = word_type(len(words))
        splits = {}
        for name, n_shards in head.shards.items():
            shards = tuple(_open_shard(folder, name, number) for number in range(n_shards))
            if any(len(shard.words) and shard.words.dtype != dtype for shard in shards):
                raise FormatError(
                    f"{folder}: the numbers of {name} are not as wide as {len(words)} words need: "
                    "files are torn or of two corpora; prepare it again"
                )
            splits[name] = Split(shards)
            found = (splits[name].n_words, splits[name].n_sentences)
            expected = (head.n_words.get(name), head.n_sentences.get(name))
            if found != expected:
                raise FormatError(
                    f"{folder}: the shards of {name} hold {found[0]} words in {found[1]} "
                    f"sentences, {HEAD} says {expected[0]} in {expected[1]}: files are torn or of "
                    "two corpora; prepare it again"
                )
        return cls(words, counts, splits, head.reading, Vocabulary.load(folder / VOCABULARY))


def is_corpus(folder: Path) -> bool:
    """Whether a path is a folder that `prepare` wrote."""
    return (folder / HEAD).is_file()


def read_header(folder: Path) -> CorpusHeader:
    """Read corpus.json."""
    try:
        data = json.loads((folder / HEAD).read_bytes())
    except (OSError, ValueError) as error:
        raise FormatError(
            f"{folder} is no prepared corpus: {HEAD} cannot be read ({error}); make one with "
            "elmo prepare"
        ) from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise FormatError(f"{folder}: {HEAD} is not of version {VERSION}; prepare it again")
    return from_dict(CorpusHeader, data, f"{folder}: {HEAD}")


def open_table(folder: Path) -> tuple[DistinctWords, Numbers]:
    """Open the table of distinct words and how often each stands in the training split."""
    data = _open_array(folder / WORDS, np.uint8)
    starts = _open_array(folder / WORD_STARTS, np.int64)
    if not len(starts) or starts[-1] != len(data):
        raise FormatError(
            f"{folder}: {WORDS} has {len(data)} bytes, {WORD_STARTS} says "
            f"{starts[-1] if len(starts) else 'nothing'}: one of them is torn; prepare it again"
        )
    words = DistinctWords(data, starts)
    counts = _open_array(folder / COUNTS, np.int64)
    if len(counts) != len(words):
        raise FormatError(
            f"{folder}: {len(words)} words but {len(counts)} counts; prepare it again"
        )
    return words, counts


def shard_paths(folder: Path, split: str, number: int) -> tuple[Path, Path]:
    """Give the files of a shard: its words and its sentence starts."""
    stem = f"{split}-{number:05d}"
    return folder / f"{stem}.tokens", folder / f"{stem}.starts"


def word_type(n_words: int) -> type[np.unsignedinteger[Any]]:
    """Give the narrowest type word numbers fit in."""
    return np.uint16 if n_words <= 2**16 else np.uint32


def _open_shard(folder: Path, split: str, number: int) -> CorpusShard:
    tokens, starts = shard_paths(folder, split, number)
    offsets = _open_array(starts, np.int64)
    # The width of a number follows from the size of the file and the count at the end of starts.
    n_words = int(offsets[-1]) if len(offsets) else -1
    try:
        size = tokens.stat().st_size
    except OSError as error:
        raise FormatError(f"cannot read {tokens}: {error.strerror}; prepare it again") from None
    if n_words < 0 or size not in (2 * n_words, 4 * n_words):
        raise FormatError(
            f"{tokens} has {size} bytes, expected {n_words} numbers of 2 or 4: it is torn; prepare "
            "the corpus again"
        )
    return CorpusShard(
        _open_array(tokens, np.uint16 if size == 2 * n_words else np.uint32), offsets
    )


def _open_array(path: Path, dtype: type[np.generic]) -> NDArray[Any]:
    try:
        if path.stat().st_size == 0:  # an empty file cannot be mapped
            return np.zeros(0, dtype=dtype)
        return np.memmap(path, dtype=dtype, mode="r")
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot read {path}: {error}; prepare the corpus again") from None
