"""Options for reading text and preparing a corpus, and the arguments of `vocab` and `prepare`."""

from dataclasses import dataclass, field
from typing import Literal

from elmo.errors import ConfigError


@dataclass(frozen=True)
class ReadingConfig:
    """How text is split into sentences and words. A model records its tokenizer."""

    tokenizer: str | None = None
    """Tokenizer: whitespace, english, characters, korean, or spacy:NAME. Default: whitespace; when
    fine-tuning, the tokenizer recorded in the model."""
    sentences: Literal["line", "split"] = "line"
    """line: each line is a sentence. split: each line is a paragraph, split at sentence ends."""
    keep_blank_lines: bool = False
    """Count a blank line as an empty sentence, as language-model benchmarks do."""
    text_field: str = "text"
    """Field of JSON lines, or column of Parquet files, that contains the text."""


@dataclass(frozen=True)
class CorpusConfig:
    """How a corpus is prepared from text."""

    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """Sentences and words."""
    vocab: str | None = None
    """Vocabulary file for the softmax. Default: built from the text."""
    vocab_size: int | None = None
    """Maximum vocabulary size, including the three special tokens."""
    min_count: int = 1
    """Minimum count for a word to enter the vocabulary."""
    held_out: float = 0.01
    """Fraction of the text held out for validation, if no validation text is given."""
    workers: int | None = None
    """Number of tokenizer processes. Default: one per core."""
    shard_words: int = 2**25
    """Words per shard. Sentences are shuffled within shards."""

    def __post_init__(self) -> None:
        """Validate fractions, counts and conflicting options."""
        if not 0.0 <= self.held_out < 1.0:
            raise ConfigError(f"held_out must be at least 0 and below 1 (got {self.held_out}).")
        if self.shard_words < 1:
            raise ConfigError(f"shard_words must be at least 1 (got {self.shard_words}).")
        _check_counts(self.vocab_size, self.min_count, self.workers)
        if self.vocab is not None and (self.vocab_size is not None or self.min_count > 1):
            raise ConfigError(
                f"The vocabulary is read from {self.vocab}; vocab_size and min_count only apply "
                "when it is built from the text. Omit them."
            )


@dataclass(frozen=True)
class VocabConfig:
    """Count the words of a text and write a vocabulary.

    The most frequent words come first.

    Examples:
      elmo vocab corpus/*.txt.gz --out vocab.txt --min-count 3
      xzcat text.xz | elmo vocab - --out vocab.txt --tokenizer english --vocab-size 100000
    """

    input: tuple[str, ...]
    """Text files or globs: plain, .gz .xz .zst .bz2, .jsonl, .parquet; - for standard input."""
    out: str
    """File to write: one word per line, starting with <S> </S> <UNK>."""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """Sentences and words."""
    vocab_size: int | None = None
    """Maximum vocabulary size, including the three special tokens."""
    min_count: int = 1
    """Minimum count for a word to enter the vocabulary."""
    workers: int | None = None
    """Number of tokenizer processes. Default: one per core."""

    def __post_init__(self) -> None:
        """Validate the counts."""
        _check_counts(self.vocab_size, self.min_count, self.workers)


@dataclass(frozen=True)
class PrepareConfig:
    """Convert text to a corpus of word ids for training.

    Examples:
      elmo prepare articles.txt.xz --out corpus --tokenizer english --sentences split
      elmo prepare train.txt --valid valid.txt --test test.txt --out corpus
    """

    input: tuple[str, ...]
    """Text files or globs: plain, .gz .xz .zst .bz2, .jsonl, .parquet; - for standard input."""
    out: str
    """Folder to write."""
    valid: tuple[str, ...] = ()
    """Validation text. Default: a fraction of the input is held out (--held-out)."""
    test: tuple[str, ...] = ()
    """Test text."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    """Corpus preparation."""


def _check_counts(vocab_size: int | None, min_count: int, workers: int | None) -> None:
    if vocab_size is not None and vocab_size < 4:
        raise ConfigError(
            f"vocab_size must be at least 4: three special tokens and one word (got {vocab_size})."
        )
    if min_count < 1:
        raise ConfigError(f"min_count must be at least 1 (got {min_count}).")
    if workers is not None and workers < 1:
        raise ConfigError(f"workers must be at least 1 (got {workers}).")
