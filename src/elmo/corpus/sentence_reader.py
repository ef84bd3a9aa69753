"""Lines to sentences of words; a small text to numbers without a folder."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from elmo.config import ReadingConfig
from elmo.corpus.shards import DistinctWords, Split
from elmo.corpus.text_sources import read_blocks, resolve
from elmo.text.sentences import split_sentences
from elmo.text.tokenizer import Tokenizer, WhitespaceTokenizer, get_tokenizer


def reading_tokenizer(reading: ReadingConfig) -> Tokenizer:
    """Build the tokeniser of a text."""
    return get_tokenizer(reading.tokenizer or WhitespaceTokenizer.name)


def to_sentences(
    lines: Iterable[str], tokenizer: Tokenizer, reading: ReadingConfig
) -> Iterator[list[str]]:
    """Split lines into sentences of words."""
    sentences: Iterable[list[str]] = map(tokenizer.words, lines)
    if reading.sentences == "split":
        # A blank line has no sentence inside, but may itself be one.
        sentences = chain.from_iterable(split_sentences(words) or [[]] for words in sentences)
    return iter(sentences) if reading.keep_blank_lines else filter(None, sentences)


def read_sentences(inputs: Sequence[str], reading: ReadingConfig) -> Iterator[list[str]]:
    """Read text from files, globs or standard input, sentence by sentence."""
    tokenizer = reading_tokenizer(reading)
    for block in read_blocks(resolve(inputs), reading.text_field):
        yield from to_sentences(block.lines(), tokenizer, reading)


def corpus_of(sentences: Iterable[Sequence[str]]) -> tuple[DistinctWords, Split]:
    """Make a corpus of a small text in memory, its words numbered as they are met."""
    numbers: dict[str, int] = {}
    numbered = [
        [numbers.setdefault(word, len(numbers)) for word in sentence] for sentence in sentences
    ]
    return DistinctWords.of(list(numbers)), Split.of(numbered)
