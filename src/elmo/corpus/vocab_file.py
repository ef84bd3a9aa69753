"""The command `vocab`: writes a vocabulary file with the most frequent words of a text."""

import tempfile
import time
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from elmo.config import VocabConfig
from elmo.corpus.external_sort import merged_counts, write_table
from elmo.corpus.sentence_reader import reading_splitter, reject_file_options
from elmo.corpus.shards import Corpus, DistinctWords, Numbers, is_corpus, open_table
from elmo.corpus.text_sources import resolve
from elmo.corpus.word_counts import count_text
from elmo.errors import ConfigError, InputError
from elmo.files import atomic_path
from elmo.progress import duration, format_count
from elmo.text.vocabulary import SKIPPED_LINE, SPECIAL_TOKENS


@dataclass(frozen=True)
class VocabResult:
    """The result of `vocab`: the file and counts.

    The vocabulary includes the three special tokens; unknown words are running words outside of it.
    """

    out: str
    n_words: int
    n_distinct: int
    n_vocabulary: int
    n_unknown: int
    seconds: float

    def __str__(self) -> str:
        unknown_rate = self.n_unknown / max(1, self.n_words)
        rate = self.n_words / max(self.seconds, 1e-9)
        return (
            f"{self.out}: {self.n_vocabulary:,} words, of "
            f"{format_count(self.n_distinct, 'distinct word')}\n"
            f"text        {format_count(self.n_words, 'word')}, "
            f"{unknown_rate:.2%} out of vocabulary\n"
            f"time        {duration(self.seconds, decimal=True)}, {rate:,.0f} words/s"
        )


def vocab(config: VocabConfig) -> VocabResult:
    """Write a vocabulary of the most frequent words in a text or a prepared corpus.

    Memory use is bounded as in `prepare`. In a prepared corpus, only the training split is counted.
    """
    started = time.monotonic()
    out = Path(config.out)
    if len(config.input) == 1 and is_corpus(Path(config.input[0])):
        if config.reading.tokenizer is not None or config.reading.pretokenized:
            raise ConfigError(
                f"{config.input[0]} is a prepared corpus, whose text is already tokenized. Omit "
                "--tokenizer and --pretokenized."
            )
        reject_file_options(
            config.input[0], config.reading.input_format, config.reading.text_column
        )
        corpus = Corpus.open(Path(config.input[0]))
        with atomic_path(out) as partial:
            return _write(config, partial, corpus.words, corpus.counts, started)
    texts = {"text": resolve(config.input)}
    reading_splitter(config.reading)  # report an unknown tokenizer before the text is read
    with (
        atomic_path(out) as partial,
        tempfile.TemporaryDirectory(
            prefix=f".{out.name}.", suffix=".partial", dir=out.parent
        ) as name,
    ):
        work = Path(name)
        count_text(work, texts, config.reading, counted="text", workers=config.workers, keep=False)
        write_table(work, work, merged_counts(work))
        words, counts = open_table(work)
        if not len(words):
            raise InputError(f"{', '.join(config.input)}: the text contains no words.")
        return _write(config, partial, words, counts, started)


def _write(
    config: VocabConfig, path: Path, words: DistinctWords, counts: Numbers, started: float
) -> VocabResult:
    chosen = write_vocabulary(path, words, counts, config.vocab_size, config.min_count)
    return VocabResult(
        config.out,
        n_words=int(counts.sum()),
        n_distinct=int(np.count_nonzero(counts)),
        n_vocabulary=chosen.n_lines,
        n_unknown=int(counts[chosen.n_top :].sum()),
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True)
class ChosenVocabulary:
    """Number of words from the top of a table, and of lines with the three special tokens."""

    n_lines: int
    n_top: int


def write_vocabulary(
    path: Path, words: DistinctWords, counts: Numbers, size: int | None, min_count: int
) -> ChosenVocabulary:
    """Write the special tokens and the most frequent words, up to `size`, one per line."""
    n_frequent = int(np.searchsorted(-counts, -min_count, side="right"))
    n_lines, n_top = len(SPECIAL_TOKENS), 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{token}\n" for token in SPECIAL_TOKENS)
        for word in islice(chain.from_iterable(words.parts()), n_frequent):
            # The special tokens are already written; readers skip a line that is SKIPPED_LINE.
            is_new = word not in SPECIAL_TOKENS and word != SKIPPED_LINE
            if is_new and n_lines == size:
                break
            n_top += 1
            if is_new:
                file.write(f"{word}\n")
                n_lines += 1
    return ChosenVocabulary(n_lines, n_top)
