"""Reading of sentences from text files, and construction of small in-memory corpora."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from elmo.config import InputFormat, ReadingConfig
from elmo.corpus.shards import DistinctWords, Numbers, Split
from elmo.corpus.text_sources import read_blocks, resolve
from elmo.errors import ConfigError
from elmo.text.line_splitter import SplitFunction, TextCheck, line_splitter
from elmo.text.sentences import split_sentences


def reading_splitter(reading: ReadingConfig) -> SplitFunction:
    """Return the function that splits lines into words; the default splits at white space."""
    return line_splitter(reading.tokenizer, pretokenized=reading.pretokenized)


@dataclass(frozen=True)
class LineSentences:
    """The words of the sentences of some lines, and how many sentences each line has."""

    sentences: list[list[str]]
    per_line: Numbers


def to_sentences(
    lines: Sequence[str], split: SplitFunction, reading: ReadingConfig
) -> LineSentences:
    """Split lines into words and sentences."""
    sentences: list[list[str]] = list(map(split, lines))
    if reading.sentences == "split":
        # A blank line contains no sentence, but can itself be kept as an empty one.
        blank: list[list[str]] = [[]] if reading.keep_blank_lines else []
        by_line = [split_sentences(words) or blank for words in sentences]
        counts = np.fromiter(map(len, by_line), np.int64, len(lines))
        return LineSentences(list(chain.from_iterable(by_line)), counts)
    if reading.keep_blank_lines:
        return LineSentences(sentences, np.ones(len(lines), dtype=np.int64))
    counts = np.fromiter(map(bool, sentences), np.int64, len(lines))
    return LineSentences(list(filter(None, sentences)), counts)


def count_characters(lines: Sequence[str]) -> int:
    """Return the number of characters of lines, including their line ends."""
    return sum(map(len, lines)) + len(lines)


def characters_by_sentence(lines: Sequence[str], split: LineSentences) -> Numbers:
    """Assign all characters of lines, including line ends and blank lines, to sentences.

    The white space of a line belongs to its first sentence. A skipped blank line belongs to the
    sentence before it. Returns the number of characters before the first sentence, then of each
    sentence, (sentences + 1,).
    """
    lengths = np.fromiter(map(len, lines), np.int64, len(lines)) + 1
    ends = np.cumsum(split.per_line)
    owners = np.where(split.per_line > 0, ends - split.per_line + 1, ends)
    n_slots = len(split.sentences) + 1
    characters = np.bincount(owners, lengths, minlength=n_slots).astype(np.int64)
    if split.per_line.max(initial=0) > 1:
        in_words = np.array([0, *(sum(map(len, words)) for words in split.sentences)])
        first_of_line = np.concatenate(([0], np.repeat(owners, split.per_line)))
        later = np.flatnonzero(first_of_line != np.arange(n_slots))
        characters[later] += in_words[later]
        np.subtract.at(characters, first_of_line[later], in_words[later])
    return characters


def read_sentences(inputs: Sequence[str], reading: ReadingConfig) -> Iterator[list[str]]:
    """Yield the sentences in files, globs or standard input as lists of words."""
    split = reading_splitter(reading)
    blocks = read_blocks(resolve(inputs), reading.text_column, reading.input_format)
    for block in blocks:
        yield from to_sentences(block.lines(), split, reading).sentences


def read_corpus(
    inputs: Sequence[str], reading: ReadingConfig, check: TextCheck | None = None
) -> tuple[DistinctWords, Split]:
    """Read files, globs or standard input as an in-memory corpus with its number of characters."""
    split = reading_splitter(reading)
    n_characters = 0

    def sentences() -> Iterator[list[str]]:
        nonlocal n_characters
        for block in read_blocks(resolve(inputs), reading.text_column, reading.input_format):
            lines = block.lines()
            if check is not None:
                check.check(lines)
            n_characters += count_characters(lines)
            yield from to_sentences(lines, split, reading).sentences

    words, in_memory = corpus_of(sentences())
    return words, dataclasses.replace(in_memory, n_characters=n_characters)


def reject_file_options(corpus: str, input_format: InputFormat | None, text_column: str) -> None:
    """Raise an error if options for text files are set, but the text is a prepared corpus."""
    default = ReadingConfig()
    if (input_format, text_column) != (default.input_format, default.text_column):
        raise ConfigError(
            f"{corpus} is a prepared corpus, so --input-format and --text-column have no effect. "
            "Omit them."
        )


def corpus_of(sentences: Iterable[Sequence[str]]) -> tuple[DistinctWords, Split]:
    """Build an in-memory corpus; word ids follow the order of first occurrence."""
    numbers: dict[str, int] = {}
    numbered = [
        [numbers.setdefault(word, len(numbers)) for word in sentence] for sentence in sentences
    ]
    return DistinctWords.of(list(numbers)), Split.of(numbered)
