"""Reading of sentences from text files, and construction of small in-memory corpora."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from elmo.config import InputFormat, ReadingConfig
from elmo.corpus.shards import DistinctWords, Split
from elmo.corpus.text_sources import read_blocks, resolve
from elmo.errors import ConfigError
from elmo.text.sentences import split_sentences
from elmo.text.tokenizer import Tokenizer, WhitespaceTokenizer, get_tokenizer


def reading_tokenizer(reading: ReadingConfig) -> Tokenizer:
    """Return the tokenizer for a reading config; the default splits at white space."""
    return get_tokenizer(reading.tokenizer or WhitespaceTokenizer.name)


def to_sentences(
    lines: Iterable[str], tokenizer: Tokenizer, reading: ReadingConfig
) -> Iterator[list[str]]:
    """Tokenize lines and yield their sentences as lists of words."""
    sentences: Iterable[list[str]] = map(tokenizer.words, lines)
    if reading.sentences == "split":
        # A blank line contains no sentence, but can itself be kept as an empty one.
        sentences = chain.from_iterable(split_sentences(words) or [[]] for words in sentences)
    return iter(sentences) if reading.keep_blank_lines else filter(None, sentences)


def read_sentences(inputs: Sequence[str], reading: ReadingConfig) -> Iterator[list[str]]:
    """Yield the sentences in files, globs or standard input as lists of words."""
    tokenizer = reading_tokenizer(reading)
    blocks = read_blocks(resolve(inputs), reading.text_field, reading.input_format)
    for block in blocks:
        yield from to_sentences(block.lines(), tokenizer, reading)


def reject_file_options(corpus: str, input_format: InputFormat | None, text_field: str) -> None:
    """Raise an error if options for text files are set, but the text is a prepared corpus.

    Args:
        corpus: Path of the prepared corpus.
        input_format: Value of the option `input_format`.
        text_field: Value of the option `text_field`.
    """
    default = ReadingConfig()
    if (input_format, text_field) != (default.input_format, default.text_field):
        raise ConfigError(
            f"{corpus} is a prepared corpus, so --input-format and --text-field have no effect. "
            "Omit them."
        )


def corpus_of(sentences: Iterable[Sequence[str]]) -> tuple[DistinctWords, Split]:
    """Build an in-memory corpus; word ids follow the order of first occurrence."""
    numbers: dict[str, int] = {}
    numbered = [
        [numbers.setdefault(word, len(numbers)) for word in sentence] for sentence in sentences
    ]
    return DistinctWords.of(list(numbers)), Split.of(numbered)
