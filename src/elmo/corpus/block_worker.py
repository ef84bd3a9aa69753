"""One worker: blocks of text to provisional numbers, in files of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.config import ReadingConfig
from elmo.corpus.external_sort import Provisional, RunWriter
from elmo.corpus.sentence_reader import reading_tokenizer, to_sentences
from elmo.corpus.text_sources import Block

# Lines whose words are held at once.
LINES = 2**12


@dataclass(frozen=True)
class CountingJob:
    """What every worker is told.

    Attributes:
        folder: for the files of the workers.
        reading: how text becomes sentences of words.
        limit: bytes of each worker's dictionary.
        keep: write the numbers; else words are only counted.
    """

    folder: Path
    reading: ReadingConfig
    limit: int
    keep: bool


@dataclass(frozen=True)
class CountingTask:
    """A block of text, and whether its words count."""

    block: Block
    counted: bool


@dataclass(frozen=True)
class CountedBlock:
    """What became of a block: a stretch of a worker's files.

    Attributes:
        stem: path of the files, without their endings.
        run: whose numbers its words have.
        first_word: where it begins in the file of words.
        first_sentence: where it begins in the file of lengths.
        n_words: running words.
        n_sentences: sentences.
    """

    stem: Path
    run: str
    first_word: int
    first_sentence: int
    n_words: int
    n_sentences: int

    def words(self) -> Provisional:
        """Read the numbers."""
        path = self.stem.with_suffix(".numbers")
        return np.fromfile(path, np.uint32, self.n_words, offset=4 * self.first_word)

    def lengths(self) -> NDArray[np.uint32]:
        """Read how many words each sentence has."""
        path = self.stem.with_suffix(".lengths")
        return np.fromfile(path, np.uint32, self.n_sentences, offset=4 * self.first_sentence)


class BlockWorker:
    """Splits blocks and numbers their words."""

    def __init__(self, job: CountingJob, number: int) -> None:
        """Begin with nothing.

        Args:
            job: of all workers.
            number: of this one.
        """
        self.job = job
        self.stem = job.folder / f"worker-{number}"
        self.tokenizer = reading_tokenizer(job.reading)
        self.runs = RunWriter(job.folder, f"run-{number}", job.limit)
        self.n_words = self.n_sentences = 0

    def __call__(
        self, request: CountingTask | None, tell: Callable[[Any], None]
    ) -> CountedBlock | list[str]:
        """Answer a request of another process: a block, or None at the end."""
        return self.finish() if request is None else self.work(request)

    def work(self, task: CountingTask) -> CountedBlock:
        """Split a block; write what it holds."""
        lines = iter(task.block.lines())
        all_lengths, all_numbers = [_NOTHING], [_NOTHING]
        while part := list(islice(lines, LINES)):
            sentences = list(to_sentences(part, self.tokenizer, self.job.reading))
            all_lengths.append(np.fromiter(map(len, sentences), np.uint32, len(sentences)))
            n_words = int(all_lengths[-1].sum())
            all_numbers.append(self.runs.number(sentences, n_words))
        lengths, numbers = np.concatenate(all_lengths), np.concatenate(all_numbers)
        piece = CountedBlock(
            self.stem, self.runs.run, self.n_words, self.n_sentences, len(numbers), len(lengths)
        )
        self.n_words += len(numbers)
        self.n_sentences += len(lengths)
        if task.counted:
            self.runs.count(numbers)
        if self.job.keep:
            _append(self.stem.with_suffix(".numbers"), numbers)
            _append(self.stem.with_suffix(".lengths"), lengths)
        if self.runs.is_full():
            self.runs.write()
        return piece

    def finish(self) -> list[str]:
        """Write the last run; give the names of all."""
        self.runs.write()
        return self.runs.runs


_NOTHING = np.zeros(0, dtype=np.uint32)


def _append(path: Path, numbers: NDArray[np.uint32]) -> None:
    with path.open("ab") as file:
        file.write(numbers.data)
