"""Corpus of a sample of the text, for dry runs on large text files."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import Corpus, WholeText
from elmo.corpus.text_sources import read_blocks, resolve, total_bytes
from elmo.text.vocabulary import Vocabulary

# Size of the sample in bytes of text.
SAMPLE_BYTES = 2**19
# Exponent of Heaps' law, as in `run_plan.distinct_words`.
HEAPS_EXPONENT = 0.7
# The vocabulary of the sample is filled up to at most this size; larger ones take long to create.
MAX_VOCABULARY = 50_000


def sample_corpus(
    data: Sequence[str], valid: Sequence[str], corpus: CorpusConfig, folder: Path
) -> Corpus | None:
    """Prepare the beginning of a text in an empty folder, without held-out text.

    Files of the held-out text must exist but are not read. Returns None if the text is small or its
    size is unknown.
    """
    names = resolve(data)
    resolve(valid)
    total = total_bytes(names)
    if total is None or total <= SAMPLE_BYTES:
        return None
    lines, size, n_read = [], 0, 0.0
    for block in read_blocks(names, corpus.reading.text_column, corpus.reading.input_format):
        block_lines = block.lines()
        n_taken = 0
        for line in block_lines:
            if size >= SAMPLE_BYTES:
                break
            lines.append(line)
            size += len(line.encode()) + 1
            n_taken += 1
        n_read += block.n_read * n_taken / max(1, len(block_lines))
        if size >= SAMPLE_BYTES:
            break
    text = folder / "sample.txt"
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    scale = total / max(1.0, n_read)
    reading = dataclasses.replace(corpus.reading, input_format=None, text_column="text")
    options = dataclasses.replace(corpus, reading=reading, held_out=0.0, min_count=1)
    prepare(PrepareConfig((str(text),), str(folder / "sample"), corpus=options))
    return _scaled(Corpus.open(folder / "sample"), corpus, scale)


def _scaled(sample: Corpus, options: CorpusConfig, scale: float) -> Corpus:
    """Record the size of the whole text, and fill up the vocabulary towards its estimated size."""
    n_words = len(sample.vocabulary)
    expected = float(n_words)
    if options.vocab is None:
        # By Zipf's law, about one in n words occurs at least n times.
        expected = max(expected, n_words * scale**HEAPS_EXPONENT / options.min_count)
        expected = min(expected, options.vocab_size or math.inf)
    n_filled = max(n_words, min(int(expected), MAX_VOCABULARY))
    # A placeholder contains a space, so it is not equal to any word.
    placeholders = (f"placeholder {number}" for number in range(n_filled - n_words))
    return dataclasses.replace(
        sample,
        vocabulary=Vocabulary([*sample.vocabulary.words, *placeholders]),
        whole_text=WholeText(scale, max(n_filled, round(expected))),
    )
