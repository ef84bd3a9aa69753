"""Reading of prepared corpora: memory-mapped shards of word ids, and a table of distinct words.

`prepare` writes these folders. Arrays are memory-mapped, so a corpus can be larger than memory.
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
from elmo.text.characters import BEGIN_TOKEN, END_TOKEN
from elmo.text.vocabulary import UNKNOWN, Vocabulary

HEADER = "corpus.json"
WORDS = "words.bin"
WORD_STARTS = "words.idx"
COUNTS = "counts.bin"
VOCABULARY = "vocab.txt"
VERSION = 1
SPLITS = ("train", "valid", "test")

Numbers = NDArray[np.int64]


class DistinctWords:
    """The distinct words of a corpus, indexed by word id and stored as UTF-8 bytes."""

    def __init__(self, data: NDArray[np.uint8], starts: Numbers) -> None:
        """Create the table from the bytes of all words, and their offsets with the total."""
        self._data = data
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> str:
        return self.strings(number, number + 1)[0]

    def strings(self, start: int, stop: int) -> list[str]:
        """Return the words with ids from `start` up to, but not including, `stop`."""
        bounds = self._starts[start : stop + 1].tolist()
        data = self._data[bounds[0] : bounds[-1]].tobytes()
        return [data[a - bounds[0] : b - bounds[0]].decode() for a, b in pairwise(bounds)]

    def parts(self, size: int = 2**16) -> Iterator[list[str]]:
        """Yield all words by id, in lists of at most `size` words."""
        for start in range(0, len(self), size):
            yield self.strings(start, min(start + size, len(self)))

    @classmethod
    def of(cls, words: Sequence[str]) -> "DistinctWords":
        """Build an in-memory table from strings."""
        encoded = [word.encode("utf-8", "replace") for word in words]
        starts = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), starts)


@dataclass(frozen=True)
class CorpusShard:
    """The concatenated sentences of one shard.

    Attributes:
        words: Word ids, (words,).
        starts: Start offset of each sentence in `words`, followed by len(words), (sentences + 1,).
    """

    words: NDArray[np.integer]
    starts: Numbers

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.starts) - 1


@dataclass(frozen=True)
class Split:
    """All sentences of one split of a corpus, indexed across its shards.

    Attributes:
        shards: Shards in the order of the text.
        n_characters: Number of characters of the original text, including spaces and line ends;
            None if it is not recorded.
        first: Index of the first sentence of each shard, followed by the total number of sentences,
            (shards + 1,).
    """

    shards: tuple[CorpusShard, ...]
    n_characters: int | None = None
    first: Numbers = field(init=False)

    def __post_init__(self) -> None:
        """Compute the index of the first sentence of each shard."""
        counts = [0, *(shard.n_sentences for shard in self.shards)]
        object.__setattr__(self, "first", np.cumsum(counts, dtype=np.int64))

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return int(self.first[-1])

    @property
    def n_words(self) -> int:
        """Number of running words."""
        return sum(len(shard.words) for shard in self.shards)

    @property
    def n_pairs(self) -> int:
        """Number of predictions per direction: one per word, plus one per sentence end."""
        return self.n_words + self.n_sentences

    def lengths(self, sentences: Numbers) -> Numbers:
        """Return the number of words in each of the given sentences, (sentences,)."""
        lengths = np.empty(len(sentences), dtype=np.int64)
        for shard, chosen, local in self._by_shard(sentences):
            lengths[chosen] = shard.starts[local + 1] - shard.starts[local]
        return lengths

    def words_at(self, sentences: Numbers, offsets: Numbers) -> Numbers:
        """Return the word id at one given offset in each given sentence, (sentences,)."""
        words = np.empty(len(sentences), dtype=np.int64)
        for shard, chosen, local in self._by_shard(sentences):
            words[chosen] = shard.words[shard.starts[local] + offsets[chosen]]
        return words

    def _by_shard(self, sentences: Numbers) -> Iterator[tuple[CorpusShard, Any, Numbers]]:
        """Yield each shard, which of `sentences` are in it, and their indices within the shard."""
        if len(self.shards) == 1:
            yield self.shards[0], slice(None), sentences
            return
        shards = np.searchsorted(self.first, sentences, side="right") - 1
        for shard in np.unique(shards).tolist():
            chosen = np.flatnonzero(shards == shard)
            yield self.shards[shard], chosen, sentences[chosen] - self.first[shard]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]]) -> "Split":
        """Build an in-memory split from sentences given as lists of word ids."""
        listed = list(sentences)
        starts = np.cumsum([0, *map(len, listed)], dtype=np.int64)
        flat = [number for sentence in listed for number in sentence]
        return cls((CorpusShard(np.array(flat, dtype=np.int64), starts),))


@dataclass(frozen=True)
class CorpusHeader:
    """Counts in corpus.json, by split; earlier versions did not count characters."""

    version: int
    reading: ReadingConfig
    shards: dict[str, int]
    n_words: dict[str, int]
    n_sentences: dict[str, int]
    n_characters: dict[str, int] | None = None

    def to_bytes(self) -> bytes:
        """Return the content of corpus.json as bytes."""
        return (json.dumps(to_dict(self), indent=1) + "\n").encode("ascii")


@dataclass(frozen=True)
class WholeText:
    """Estimated size of a text of which a corpus is only a sample.

    `scale` is relative to the sample; the vocabulary of the sample is smaller than `n_vocabulary`.
    """

    scale: float
    n_vocabulary: int

    def __str__(self) -> str:
        return (
            f"estimated from the first {1 / self.scale:.3%} of the text, with a vocabulary of "
            f"about {self.n_vocabulary:,} words for the whole text"
        )


@dataclass(frozen=True)
class Corpus:
    """A corpus written by `prepare`; a split without text is absent.

    `counts` are those of each distinct word in the training split, (words,). `whole_text` is the
    size of the text if the corpus is only a sample of it.
    """

    words: DistinctWords
    counts: Numbers
    splits: dict[str, Split]
    reading: ReadingConfig
    vocabulary: Vocabulary
    whole_text: WholeText | None = None

    @property
    def n_train_pairs(self) -> int:
        """Number of predictions per direction in the training split, or in the whole text."""
        n_pairs = self.splits["train"].n_pairs
        return n_pairs if self.whole_text is None else round(n_pairs * self.whole_text.scale)

    def vocabulary_counts(self, vocabulary: Vocabulary) -> Numbers:
        """Return how often each vocabulary id is a target in the training split, (vocabulary,).

        A word is a target in both directions, but is counted once. Each boundary token is a target
        once per sentence: `</S>` in the forward direction, `<S>` in the backward direction.
        """
        counts = np.zeros(len(vocabulary), dtype=np.int64)
        unknown = vocabulary.ids[UNKNOWN]
        start = 0
        for part in self.words.parts():
            ids = np.array([vocabulary.ids.get(word, unknown) for word in part], dtype=np.int64)
            np.add.at(counts, ids, self.counts[start : start + len(part)])
            start += len(part)
        for token in (BEGIN_TOKEN, END_TOKEN):
            counts[vocabulary.ids[token]] += self.splits["train"].n_sentences
        return counts

    @classmethod
    def open(cls, folder: Path) -> "Corpus":
        """Open a corpus folder written by `prepare`."""
        header = read_header(folder)
        words, counts = open_table(folder)
        dtype = word_type(len(words))
        splits = {}
        for name, n_shards in header.shards.items():
            shards = tuple(_open_shard(folder, name, number) for number in range(n_shards))
            if any(len(shard.words) and shard.words.dtype != dtype for shard in shards):
                raise FormatError(
                    f"{folder}: the word ids of split {name} should be stored as "
                    f"{np.dtype(dtype)} for {len(words)} distinct words, but are not. The files "
                    "are damaged or belong to different corpora; run elmo prepare again."
                )
            splits[name] = Split(shards, (header.n_characters or {}).get(name))
            actual = (splits[name].n_words, splits[name].n_sentences)
            expected = (header.n_words.get(name), header.n_sentences.get(name))
            if actual != expected:
                raise FormatError(
                    f"{folder}: the shards of split {name} contain {actual[0]} words in "
                    f"{actual[1]} sentences, but {HEADER} lists {expected[0]} words in "
                    f"{expected[1]} sentences. The files are damaged or belong to different "
                    "corpora; run elmo prepare again."
                )
        return cls(words, counts, splits, header.reading, Vocabulary.load(folder / VOCABULARY))


def is_corpus(folder: Path) -> bool:
    """Whether a path is a corpus folder written by `prepare`."""
    return (folder / HEADER).is_file()


def read_header(folder: Path) -> CorpusHeader:
    """Read corpus.json."""
    try:
        data = json.loads((folder / HEADER).read_bytes())
    except (OSError, ValueError) as error:
        raise FormatError(
            f"{folder} is not a prepared corpus: {HEADER} cannot be read ({error}). Create one "
            "with elmo prepare."
        ) from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise FormatError(
            f"{folder}: {HEADER} does not have format version {VERSION}. Run elmo prepare again."
        )
    return from_dict(CorpusHeader, data, f"{folder}: {HEADER}")


def open_table(folder: Path) -> tuple[DistinctWords, Numbers]:
    """Open the table of distinct words and their counts in the training split."""
    data = _open_array(folder / WORDS, np.uint8)
    starts = _open_array(folder / WORD_STARTS, np.int64)
    if not len(starts) or starts[-1] != len(data):
        raise FormatError(
            f"{folder}: {WORDS} has {len(data)} bytes, but according to {WORD_STARTS} it should "
            f"have {starts[-1] if len(starts) else 'an unknown number'}. One of the files is "
            "damaged; run elmo prepare again."
        )
    words = DistinctWords(data, starts)
    counts = _open_array(folder / COUNTS, np.int64)
    if len(counts) != len(words):
        raise FormatError(
            f"{folder}: {WORDS} has {len(words)} words, but {COUNTS} has {len(counts)} counts. Run "
            "elmo prepare again."
        )
    return words, counts


def shard_paths(folder: Path, split: str, number: int) -> tuple[Path, Path]:
    """Return the paths to the two files of a shard: word ids and sentence offsets."""
    stem = f"{split}-{number:05d}"
    return folder / f"{stem}.tokens", folder / f"{stem}.starts"


def word_type(n_words: int) -> type[np.uint16 | np.uint32]:
    """Return the narrowest dtype that holds the ids of `n_words` distinct words."""
    return np.uint16 if n_words <= 2**16 else np.uint32


def _open_shard(folder: Path, split: str, number: int) -> CorpusShard:
    tokens, starts = shard_paths(folder, split, number)
    offsets = _open_array(starts, np.int64)
    # The file does not record its dtype: it follows from the file size and the number of words.
    n_words = int(offsets[-1]) if len(offsets) else -1
    try:
        size = tokens.stat().st_size
    except OSError as error:
        raise FormatError(
            f"Cannot read {tokens}: {error.strerror}. Run elmo prepare again."
        ) from None
    if n_words < 0 or size not in (2 * n_words, 4 * n_words):
        raise FormatError(
            f"{tokens} has {size} bytes, but should contain {n_words} word ids of 2 or 4 bytes "
            "each. The file is damaged; run elmo prepare again."
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
        raise FormatError(f"Cannot read {path}: {error}. Run elmo prepare again.") from None
