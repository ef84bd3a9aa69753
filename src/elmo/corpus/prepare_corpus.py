"""The verb `prepare`: text to a corpus folder, in one pass over the text and in bounded memory."""

import dataclasses
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus.block_worker import CountedBlock
from elmo.corpus.external_sort import merged_counts, run_table, write_table
from elmo.corpus.sentence_reader import reading_tokenizer
from elmo.corpus.shards import (
    COUNTS,
    HEADER,
    SPLITS,
    VERSION,
    VOCABULARY,
    WORD_STARTS,
    WORDS,
    CorpusHeader,
    Numbers,
    is_corpus,
    open_table,
)
from elmo.corpus.split_writer import SplitWriter, held_out, is_held_out
from elmo.corpus.text_sources import STDIN, resolve
from elmo.corpus.vocab_file import write_vocabulary
from elmo.corpus.word_counts import count_text
from elmo.errors import InputError, OutputError
from elmo.files import atomic_folder
from elmo.progress import Progress
from elmo.text.vocabulary import Vocabulary

TRAIN, VALID, TEST = SPLITS


@dataclass(frozen=True)
class PrepareResult:
    """What `prepare` did.

    Attributes:
        output: the folder written.
        n_words: running words of each split.
        n_sentences: sentences of each split.
        n_unknown: running words of each split that are not in the vocabulary.
        n_distinct: distinct words.
        n_vocabulary: words of the softmax, the three marks included.
        seconds: time it took.
    """

    output: str
    n_words: dict[str, int]
    n_sentences: dict[str, int]
    n_unknown: dict[str, int]
    n_distinct: int
    n_vocabulary: int
    seconds: float

    @property
    def words_per_second(self) -> float:
        """Running words of all splits by the time it took."""
        return sum(self.n_words.values()) / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        """Say it in a few lines."""
        lines = [f"{self.output}: {sum(self.n_words.values()):,} words"]
        for split, n_words in self.n_words.items():
            share = self.n_unknown[split] / max(1, n_words)
            lines.append(
                f"{split:<12}{n_words:,} words in {self.n_sentences[split]:,} sentences, "
                f"{share:.2%} out of vocabulary"
            )
        lines += [
            f"{'distinct':<12}{self.n_distinct:,} words",
            f"{'vocabulary':<12}{self.n_vocabulary:,} words",
            f"{'time':<12}{self.seconds:.1f} s, {self.words_per_second:,.0f} words/s",
        ]
        return "\n".join(lines)


def prepare(config: PrepareConfig) -> PrepareResult:
    """Turn text into a corpus folder.

    The result depends on the text and the config alone, not on the number of workers. Memory stays
    below 512 MB for the dictionaries of all workers, 120 MB for each worker and 60 bytes for each
    distinct word, however long the text is. The disk holds the words of the text twice for a while,
    4 bytes each. Nothing stands under the final name before all is complete.
    """
    started = time.monotonic()
    out = Path(config.out)
    _check_target(out)
    texts = _texts(config)
    tokenizer = reading_tokenizer(config.corpus.reading)
    vocabulary = None
    if config.corpus.vocab is not None:
        vocabulary = Vocabulary.load(Path(config.corpus.vocab))
        vocabulary.require_special_tokens()
    reading = dataclasses.replace(config.corpus.reading, tokenizer=tokenizer.name)
    with atomic_folder(out) as folder:
        work = folder / "unfinished"
        work.mkdir()
        pieces = count_text(
            work, texts, reading, counted=TRAIN, workers=config.corpus.workers, keep=True
        )
        _check_pieces(pieces, texts)
        stretches = held_out(
            sum(piece.n_sentences for piece in pieces[TRAIN]),
            0.0 if VALID in texts else config.corpus.held_out,
        )
        counts = merged_counts(work)
        _uncount(counts, work, pieces[TRAIN], stretches)
        rank = write_table(work, folder, counts)
        known, n_vocabulary = _write_vocabulary(folder, config.corpus, vocabulary)
        writers = _write_splits(
            folder, work, pieces, rank, stretches, known, config.corpus.shard_words
        )
        shutil.rmtree(work)
        head = CorpusHeader(
            VERSION,
            reading,
            {name: writer.n_shards for name, writer in writers.items()},
            {name: writer.n_words for name, writer in writers.items()},
            {name: writer.n_sentences for name, writer in writers.items()},
        )
        (folder / HEADER).write_bytes(head.to_bytes())
    return PrepareResult(
        config.out,
        head.n_words,
        head.n_sentences,
        {name: writer.n_unknown for name, writer in writers.items()},
        len(known),
        n_vocabulary,
        time.monotonic() - started,
    )


def _check_target(out: Path) -> None:
    """Refuse a folder that holds anything but a corpus."""
    if not out.is_dir() or not any(out.iterdir()):
        return
    names = {HEADER, WORDS, WORD_STARTS, COUNTS, VOCABULARY}
    shard = re.compile(rf"(?:{'|'.join(SPLITS)})-\d+\.(?:tokens|starts)")
    found = [path.name for path in out.iterdir()]
    others = sorted(name for name in found if name not in names and not shard.fullmatch(name))
    if others or not is_corpus(out):
        raise OutputError(
            f"cannot write a corpus to {out}: it holds {', '.join((others or found)[:4])}, which "
            "would be lost; name another folder"
        )


def _texts(config: PrepareConfig) -> dict[str, list[str]]:
    """Give the files of each split; the training text comes first."""
    given = {TRAIN: config.input, VALID: config.valid, TEST: config.test}
    if not config.input:
        raise InputError("no text was named: give files, globs, or - for standard input")
    texts = {name: resolve(inputs) for name, inputs in given.items() if inputs}
    if sum(files.count(STDIN) for files in texts.values()) > 1:
        raise InputError("standard input (-) is named twice; it can be read once")
    return texts


def _check_pieces(
    pieces: Mapping[str, Sequence[CountedBlock]], texts: Mapping[str, list[str]]
) -> None:
    for name, found in pieces.items():
        if not any(piece.n_words for piece in found):
            raise InputError(f"{', '.join(texts[name][:4])}: there is no word in the {name} text")


def _sentences(
    work: Path, pieces: Sequence[CountedBlock], of_merged: NDArray[np.uint32]
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.uint32]]]:
    """Read pieces in order: what the numbers of their words become, and the sentence lengths."""
    tables: dict[Path, tuple[str, NDArray[np.uint32]]] = {}
    for piece in pieces:
        # A worker fills one run after the other, so one table of each is enough.
        if tables.get(piece.stem, ("", None))[0] != piece.run:
            tables[piece.stem] = piece.run, run_table(work, piece.run, of_merged)
        yield tables[piece.stem][1][piece.words()], piece.lengths()


def _uncount(
    counts: Numbers, work: Path, pieces: Sequence[CountedBlock], stretches: Numbers
) -> None:
    """Take the held-out words from the counts of all words."""
    if not len(stretches):
        return
    first = 0
    for words, lengths in _sentences(work, pieces, np.arange(len(counts), dtype=np.uint32)):
        held = is_held_out(stretches, first, len(lengths))
        first += len(lengths)
        np.subtract.at(counts, words[np.repeat(held, lengths)], 1)


def _write_vocabulary(
    folder: Path, config: CorpusConfig, given: Vocabulary | None
) -> tuple[NDArray[np.bool_], int]:
    """Write the words of the softmax; say which of the table are among them, and their number."""
    words, counts = open_table(folder)
    path = folder / VOCABULARY
    if given is not None:
        path.write_bytes(given.to_bytes())
        found = (word in given.ids for part in words.parts() for word in part)
        return np.fromiter(found, dtype=np.bool_, count=len(words)), len(given)
    chosen = write_vocabulary(path, words, counts, config.vocab_size, config.min_count)
    return np.arange(len(words)) < chosen.n_top, chosen.n_lines


def _write_splits(
    folder: Path,
    work: Path,
    pieces: Mapping[str, Sequence[CountedBlock]],
    rank: NDArray[np.uint32],
    stretches: Numbers,
    known: NDArray[np.bool_],
    shard_words: int,
) -> dict[str, SplitWriter]:
    """Write the shards of all splits."""
    names = [name for name in SPLITS if name in pieces or (name == VALID and len(stretches))]
    total = sum(piece.n_words for found in pieces.values() for piece in found)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("write", total, "words"))
        writers = {
            name: stack.enter_context(SplitWriter(folder, name, known, shard_words))
            for name in names
        }
        for name, found in pieces.items():
            first = 0
            for words, lengths in _sentences(work, found, rank):
                progress.advance(len(words))
                held = is_held_out(stretches, first, len(lengths))
                first += len(lengths)
                if name == TRAIN and held.any():
                    of_word = np.repeat(held, lengths)
                    writers[VALID].add(words[of_word], lengths[held])
                    words, lengths = words[~of_word], lengths[~held]
                writers[name].add(words, lengths)
    return writers
