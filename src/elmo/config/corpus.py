"""How text becomes a corpus: the dials and arguments of `vocab` and `prepare`."""

from dataclasses import dataclass, field
from typing import Literal

from elmo.errors import ConfigError


@dataclass(frozen=True)
class ReadingConfig:
    """How text becomes sentences of words; a model records the tokeniser."""

    tokenizer: str | None = None
    """Splits text into words: whitespace, english, characters, korean, or spacy:NAME; white space
    where none is named, or when fine-tuning what the model records."""
    sentences: Literal["line", "split"] = "line"
    """line: each line is a sentence; split: a line is a paragraph, cut after its full stops."""
    keep_blank_lines: bool = False
    """Count a blank line as a sentence without words, as the benchmarks of language models do."""
    text_field: str = "text"
    """Field of JSON lines, or column of Parquet, that holds the text."""


@dataclass(frozen=True)
class CorpusConfig:
    """How a corpus is made of text."""

    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """How text becomes sentences of words."""
    vocab: str | None = None
    """Vocabulary file for the softmax; made from the text where none is named."""
    vocab_size: int | None = None
    """Words in the softmax at most, the three marks included."""
    min_count: int = 1
    """Words seen less often are not in the softmax."""
    held_out: float = 0.01
    """Share of the text kept for validation where no validation text is given."""
    workers: int | None = None
    """Processes that split text; all cores where none is said."""
    shard_words: int = 2**25
    """Running words of a shard; sentences are shuffled inside shards."""

    def __post_init__(self) -> None:
        """Refuse what no corpus can be made with."""
        if not 0.0 <= self.held_out < 1.0:
            raise ConfigError(f"held_out is {self.held_out}; a share from 0 to below 1 is meant")
        if self.shard_words < 1:
            raise ConfigError(f"shard_words is {self.shard_words}; it must be at least 1")
        _check_counts(self.vocab_size, self.min_count, self.workers)
        if self.vocab is not None and (self.vocab_size is not None or self.min_count > 1):
            raise ConfigError(
                f"{self.vocab} is the vocabulary: leave vocab_size and min_count, which make one, "
                "as they are"
            )


@dataclass(frozen=True)
class VocabConfig:
    """Count the words of a text and write a vocabulary, the most frequent words first.

    Examples:
      elmo vocab corpus/*.txt.gz --out vocab.txt --min-count 3
      xzcat text.xz | elmo vocab - --out vocab.txt --tokenizer english --vocab-size 100000
    """

    input: tuple[str, ...]
    """Text files or globs: plain, .gz .xz .zst .bz2, .jsonl, .parquet; - is standard input."""
    out: str
    """File to write: one word a line, <S> </S> <UNK> first."""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """How text becomes sentences of words."""
    vocab_size: int | None = None
    """Words at most, the three marks included."""
    min_count: int = 1
    """Words seen less often are left out."""
    workers: int | None = None
    """Processes that split text; all cores where none is said."""

    def __post_init__(self) -> None:
        """Refuse what no vocabulary can be made with."""
        _check_counts(self.vocab_size, self.min_count, self.workers)


@dataclass(frozen=True)
class PrepareConfig:
    """Turn text into a corpus: numbers on disk that training reads without touching a string.

    Examples:
      elmo prepare articles.txt.xz --out corpus --tokenizer english --sentences split
      elmo prepare train.txt --valid valid.txt --test test.txt --out corpus
    """

    input: tuple[str, ...]
    """Text files or globs: plain, .gz .xz .zst .bz2, .jsonl, .parquet; - is standard input."""
    out: str
    """Folder to write."""
    valid: tuple[str, ...] = ()
    """Validation text; a share of the input is held out where none is given."""
    test: tuple[str, ...] = ()
    """Test text."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """How the corpus is made."""


def _check_counts(vocab_size: int | None, min_count: int, workers: int | None) -> None:
    if vocab_size is not None and vocab_size < 4:
        raise ConfigError(f"vocab_size is {vocab_size}; three marks and a word are 4")
    if min_count < 1:
        raise ConfigError(f"min_count is {min_count}; it must be at least 1")
    if workers is not None and workers < 1:
        raise ConfigError(f"workers is {workers}; it must be at least 1")
