"""Worker that tokenizes blocks of text and writes provisional word ids to its own files."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.config import ReadingConfig
from elmo.corpus.external_sort import Provisional, RunWriter
from elmo.corpus.sentence_reader import (
    characters_by_sentence,
    reading_splitter,
    to_sentences,
)
from elmo.corpus.text_sources import Block

# Lines tokenized at a time.
LINES = 2**12


@dataclass(frozen=True)
class CountingJob:
    """Settings shared by all workers.

    The dictionary of a worker has at most `limit` bytes. Without `keep`, word ids are not written:
    words are only counted.
    """

    folder: Path
    reading: ReadingConfig
    limit: int
    keep: bool


@dataclass(frozen=True)
class CountingTask:
    """A block of text, and whether to count its words."""

    block: Block
    counted: bool


@dataclass(frozen=True)
class CountedBlock:
    """Location of a block's words and sentence lengths in its worker's files.

    `stem` is the path of the files without extension: `.numbers` with the words, `.lengths` with
    the sentences. The sorted run defines the word ids. `n_leading` is the number of characters
    before the first sentence: blank lines.
    """

    stem: Path
    run: str
    first_word: int
    first_sentence: int
    n_words: int
    n_sentences: int
    n_leading: int

    def words(self) -> Provisional:
        """Read the provisional word ids, (n_words,)."""
        path = self.stem.with_suffix(".numbers")
        return np.fromfile(path, np.uint32, self.n_words, offset=4 * self.first_word)

    def lengths(self) -> NDArray[np.uint32]:
        """Read the sentence lengths in words, (n_sentences,)."""
        path = self.stem.with_suffix(".lengths")
        return np.fromfile(path, np.uint32, self.n_sentences, offset=4 * self.first_sentence)

    def characters(self) -> NDArray[np.uint32]:
        """Read the number of characters of the original text by sentence, (n_sentences,)."""
        path = self.stem.with_suffix(".characters")
        return np.fromfile(path, np.uint32, self.n_sentences, offset=4 * self.first_sentence)


class BlockWorker:
    """Tokenizes blocks and assigns provisional ids to their words."""

    def __init__(self, job: CountingJob, number: int) -> None:
        """Start with an empty dictionary."""
        self.job = job
        self.stem = job.folder / f"worker-{number}"
        self.split = reading_splitter(job.reading)
        self.runs = RunWriter(job.folder, f"run-{number}", job.limit)
        self.n_words = self.n_sentences = 0

    def __call__(
        self, request: CountingTask | None, report: Callable[[object], None]
    ) -> CountedBlock | list[str]:
        """Handle a request from the parent process: a block, or None after the last block."""
        return self.finish() if request is None else self.process(request)

    def process(self, task: CountingTask) -> CountedBlock:
        """Tokenize a block and write its word ids, sentence lengths and character counts."""
        lines = iter(task.block.lines())
        all_lengths, all_numbers = [_EMPTY], [_EMPTY]
        # The first number counts the characters before the first sentence.
        all_characters = [np.zeros(1, dtype=np.int64)]
        while part := list(islice(lines, LINES)):
            split = to_sentences(part, self.split, self.job.reading)
            sentences = split.sentences
            if self.job.keep:
                characters = characters_by_sentence(part, split)
                # Blank lines at the beginning of this part belong to the sentence before.
                all_characters[-1][-1] += characters[0]
                all_characters += [characters[1:]] if sentences else []
            all_lengths.append(np.fromiter(map(len, sentences), np.uint32, len(sentences)))
            n_words = int(all_lengths[-1].sum())
            all_numbers.append(self.runs.number(sentences, n_words))
        lengths, numbers = np.concatenate(all_lengths), np.concatenate(all_numbers)
        characters = np.concatenate(all_characters)
        block = CountedBlock(
            self.stem,
            self.runs.run,
            first_word=self.n_words,
            first_sentence=self.n_sentences,
            n_words=len(numbers),
            n_sentences=len(lengths),
            n_leading=int(characters[0]),
        )
        self.n_words += len(numbers)
        self.n_sentences += len(lengths)
        if task.counted:
            self.runs.count(numbers)
        if self.job.keep:
            _append(self.stem.with_suffix(".numbers"), numbers)
            _append(self.stem.with_suffix(".lengths"), lengths)
            _append(self.stem.with_suffix(".characters"), characters[1:].astype(np.uint32))
        if self.runs.is_full():
            self.runs.write()
        return block

    def finish(self) -> list[str]:
        """Write the last run, and return the names of all runs of this worker."""
        self.runs.write()
        return self.runs.runs


_EMPTY = np.zeros(0, dtype=np.uint32)


def _append(path: Path, numbers: NDArray[np.uint32]) -> None:
    with path.open("ab") as file:
        file.write(numbers.data)
