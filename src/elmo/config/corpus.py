"""Config classes for reading text and preparing a corpus (commands vocab and prepare)."""

from dataclasses import dataclass, field
from typing import Literal

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError

InputFormat = Literal["text", "jsonl", "csv", "tsv", "parquet"]


@dataclass(frozen=True)
class ReadingConfig:
    """How text is split into sentences and words. The tokenizer is stored in the model."""

    tokenizer: str | None = None
    """Tokenizer: whitespace, english, characters, characters-and-spaces, korean, or spacy:NAME.
    Default: whitespace, or the model's own tokenizer when fine-tuning."""
    sentences: Literal["line", "split"] = "line"
    """line: each line is a sentence. split: each line is a paragraph, which is split into
    sentences."""
    keep_blank_lines: bool = False
    """Treat blank lines as empty sentences, as language-modeling benchmarks do. Default: skip blank
    lines."""
    input_format: InputFormat | None = None
    """Format of the input files. jsonl: one JSON record per line. csv and tsv: tables with a
    header. Default: recognize Parquet and JSON lines by content, CSV and TSV by extension (.csv,
    .tsv)."""
    text_column: str = "text"
    """Name of the column or JSON field that contains the text."""
    pretokenized: bool = False
    """The words of the text are separated by spaces, with --tokenizer korean its morphemes. The
    tokenizer is stored in the model, but not applied to this text."""

    def __post_init__(self) -> None:
        if self.tokenizer == "characters-and-spaces" and self.pretokenized:
            raise ConfigError(
                "--pretokenized cannot be used with the tokenizer characters-and-spaces, whose "
                "words include white space. Omit it."
            )
        if self.tokenizer == "characters-and-spaces" and self.sentences == "split":
            raise ConfigError(
                "--sentences split cannot be used with the tokenizer characters-and-spaces, "
                "because sentences are split between words. Use --sentences line."
            )


@dataclass(frozen=True)
class CorpusConfig:
    """How a corpus is prepared from text."""

    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """Sentences and words."""
    vocab: str | None = None
    """Vocabulary file for the softmax. Default: build the vocabulary from the text."""
    vocab_size: int | None = None
    """Maximum vocabulary size, including the three special tokens."""
    min_count: int = 1
    """Minimum number of occurrences for a word to be included in the vocabulary."""
    held_out: float = 0.01
    """Fraction of the text to hold out for validation if no validation text is given."""
    workers: int | None = None
    """Number of tokenizer processes. Default: one per CPU core."""
    shard_words: int = 2**25
    """Number of words per shard. Sentences are shuffled within each shard."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.held_out < 1.0:
            raise ConfigError(f"held_out must be at least 0 and below 1 (got {self.held_out}).")
        require_at_least_one(self, "shard_words")
        _check_counts(self.vocab_size, self.min_count, self.workers)
        if self.vocab is not None and (self.vocab_size is not None or self.min_count > 1):
            raise ConfigError(
                f"The vocabulary is read from {self.vocab}, but vocab_size and min_count only "
                "apply to a vocabulary that is built from the text. Omit them."
            )


@dataclass(frozen=True)
class VocabConfig:
    """Count the words in a text and write a vocabulary file.

    Words are sorted by frequency, most frequent first.

    Examples:
      elmo vocab corpus/*.txt.gz --out vocab.txt --min-count 3
      xzcat text.xz | elmo vocab - --out vocab.txt --tokenizer english --vocab-size 100000
    """

    input: tuple[str, ...]
    """Files or globs: plain text, JSON lines, CSV, TSV or Parquet, optionally compressed (.gz,
    .bz2, .xz, .zst); - for standard input."""
    out: str
    """Output file: one word per line, starting with <S>, </S> and <UNK>."""
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """Sentences and words."""
    vocab_size: int | None = None
    """Maximum vocabulary size, including the three special tokens."""
    min_count: int = 1
    """Minimum number of occurrences for a word to be included in the vocabulary."""
    workers: int | None = None
    """Number of tokenizer processes. Default: one per CPU core."""

    def __post_init__(self) -> None:
        _check_counts(self.vocab_size, self.min_count, self.workers)


@dataclass(frozen=True)
class PrepareConfig:
    """Convert text to a tokenized corpus for training.

    Examples:
      elmo prepare articles.txt.xz --out corpus --tokenizer english --sentences split
      elmo prepare train.txt --valid valid.txt --test test.txt --out corpus
    """

    input: tuple[str, ...]
    """Files or globs: plain text, JSON lines, CSV, TSV or Parquet, optionally compressed (.gz,
    .bz2, .xz, .zst); - for standard input."""
    out: str
    """Output folder. An existing corpus is replaced when the new one is complete; a folder with
    other files is an error."""
    valid: tuple[str, ...] = ()
    """Validation text files. Default: hold out a fraction of the input (--held-out)."""
    test: tuple[str, ...] = ()
    """Test text files."""
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
