"""The verb `vocab`: the words of a text, the most frequent first."""

import tempfile
import time
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from elmo.config import VocabConfig
from elmo.corpus.external_sort import merged_counts, write_table
from elmo.corpus.sentence_reader import reading_tokenizer
from elmo.corpus.shards import Corpus, DistinctWords, Numbers, is_corpus, open_table
from elmo.corpus.text_sources import resolve
from elmo.corpus.word_counts import count_text
from elmo.errors import ConfigError, InputError
from elmo.files import atomic_path
from elmo.text.vocabulary import SKIPPED_LINE, SPECIAL_TOKENS


@dataclass(frozen=True)
class VocabResult:
    """What `vocab` did.

    Attributes:
        output: the file written.
        n_words: running words of the text.
        n_distinct: distinct words of the text.
        n_vocabulary: lines written, the three marks included.
        n_unknown: running words that are not in the vocabulary.
        seconds: time it took.
    """

    output: str
    n_words: int
    n_distinct: int
    n_vocabulary: int
    n_unknown: int
    seconds: float

    def __str__(self) -> str:
        """Say it in a few lines."""
        share = self.n_unknown / max(1, self.n_words)
        rate = self.n_words / max(self.seconds, 1e-9)
        return (
            f"{self.output}: {self.n_vocabulary:,} words, of {self.n_distinct:,} distinct ones\n"
            f"text        {self.n_words:,} words, {share:.2%} out of vocabulary\n"
            f"time        {self.seconds:.1f} s, {rate:,.0f} words/s"
        )


def vocab(config: VocabConfig) -> VocabResult:
    """Count the words of a text, or take the counts of a prepared corpus, and write a vocabulary.

    Memory is bounded as `prepare` has it. Only the training text of a corpus counts.
    """
    started = time.monotonic()
    out = Path(config.out)
    if len(config.input) == 1 and is_corpus(Path(config.input[0])):
        if config.reading.tokenizer is not None:
            raise ConfigError(
                f"{config.input[0]} is a prepared corpus: its text was split when it was made; "
                "leave --tokenizer out"
            )
        corpus = Corpus.open(Path(config.input[0]))
        with atomic_path(out) as partial:
            return _write(config, partial, corpus.words, corpus.counts, started)
    texts = {"text": resolve(config.input)}
    reading_tokenizer(config.reading)  # a name that is wrong is to be told before work begins
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
            raise InputError(f"{', '.join(config.input)}: there is no word in it")
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
    """A vocabulary made of a table of words.

    Attributes:
        n_lines: words in it, the three marks included.
        n_top: words from the top of the table that are in it.
    """

    n_lines: int
    n_top: int


def write_vocabulary(
    path: Path, words: DistinctWords, counts: Numbers, size: int | None, min_count: int
) -> ChosenVocabulary:
    """Write `<S> </S> <UNK>` and the most frequent words, one a line.

    Args:
        path: of the file.
        words: by falling count.
        counts: of the words.
        size: lines at most.
        min_count: words seen less often are left out.
    """
    n_frequent = int(np.searchsorted(-counts, -min_count, side="right"))
    n_lines, n_top = len(SPECIAL_TOKENS), 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{mark}\n" for mark in SPECIAL_TOKENS)
        for word in islice(chain.from_iterable(words.parts()), n_frequent):
            # The marks stand at the top already; the last is a line that readers pass over.
            is_new = word not in SPECIAL_TOKENS and word != SKIPPED_LINE
            if is_new and n_lines == size:
                break
            n_top += 1
            if is_new:
                file.write(f"{word}\n")
                n_lines += 1
    return ChosenVocabulary(n_lines, n_top)
