"""The command `prepare`: writes a corpus folder in one pass over the text, in bounded memory."""

import dataclasses
import logging
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
from elmo.corpus.sentence_reader import reading_splitter
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
from elmo.corpus.split_writer import SplitWriter, held_out_ranges, is_held_out
from elmo.corpus.text_sources import resolve
from elmo.corpus.vocab_file import write_vocabulary
from elmo.corpus.word_counts import count_text
from elmo.errors import InputError, OutputError, listing
from elmo.files import atomic_folder
from elmo.progress import Progress, duration, format_count
from elmo.text.input_lines import STDIN
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

TRAIN, VALID, TEST = SPLITS
# With fewer held-out words the perplexity is too noisy.
MIN_VALID_WORDS = 1000


@dataclass(frozen=True)
class PrepareResult:
    """The result of `prepare`: the folder and counts by split.

    Characters are those of the original text, unknown words are running words that are not in the
    vocabulary, and the vocabulary includes the three special tokens.
    """

    out: str
    n_words: dict[str, int]
    n_sentences: dict[str, int]
    n_characters: dict[str, int]
    n_unknown: dict[str, int]
    n_distinct: int
    n_vocabulary: int
    seconds: float

    @property
    def words_per_second(self) -> float:
        """Number of running words processed per second, over all splits."""
        return sum(self.n_words.values()) / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        lines = [f"{self.out}: {format_count(sum(self.n_words.values()), 'word')}"]
        for split, n_words in self.n_words.items():
            unknown_rate = self.n_unknown[split] / max(1, n_words)
            lines.append(
                f"{split:<12}{format_count(n_words, 'word')} in "
                f"{format_count(self.n_sentences[split], 'sentence')}, "
                f"{unknown_rate:.2%} out of vocabulary"
            )
        time = duration(self.seconds, decimal=True)
        lines += [
            f"{'distinct':<12}{format_count(self.n_distinct, 'word')}",
            f"{'vocabulary':<12}{self.n_vocabulary:,} words",
            f"{'time':<12}{time}, {self.words_per_second:,.0f} words/s",
        ]
        return "\n".join(lines)


def prepare(config: PrepareConfig) -> PrepareResult:
    """Write a corpus folder from text files.

    The result depends only on the text and the config, not on the number of workers. Regardless of
    the text length, memory use is bounded by 512 MB for the dictionaries of all workers, 120 MB per
    worker, and 60 bytes per distinct word. During preparation, every running word is stored on disk
    twice, with 4 bytes each time. The folder is written atomically.
    """
    started = time.monotonic()
    out = Path(config.out)
    _check_target(out)
    texts = _texts(config)
    reading_splitter(config.corpus.reading)  # report an unknown tokenizer before reading
    if config.corpus.reading.pretokenized and config.corpus.reading.tokenizer is None:
        logger.warning(
            "Models trained on this corpus will split raw text at white space. Name the tokenizer "
            "that was applied to the text with --tokenizer."
        )
    vocabulary = None
    if config.corpus.vocab is not None:
        vocabulary = Vocabulary.load(Path(config.corpus.vocab))
        vocabulary.require_special_tokens()
    tokenizer = config.corpus.reading.tokenizer or WhitespaceTokenizer.name
    reading = dataclasses.replace(config.corpus.reading, tokenizer=tokenizer)
    with atomic_folder(out) as folder:
        work = folder / "unfinished"
        work.mkdir()
        blocks = count_text(
            work, texts, reading, counted=TRAIN, workers=config.corpus.workers, keep=True
        )
        _check_words(blocks, texts)
        ranges = held_out_ranges(
            sum(block.n_sentences for block in blocks[TRAIN]),
            0.0 if VALID in texts else config.corpus.held_out,
        )
        counts = merged_counts(work)
        _subtract_held_out(counts, work, blocks[TRAIN], ranges)
        rank = write_table(work, folder, counts)
        known, n_vocabulary = _write_vocabulary(folder, config.corpus, vocabulary)
        writers = _write_splits(
            folder, work, blocks, rank, ranges, known, config.corpus.shard_words
        )
        shutil.rmtree(work)
        header = CorpusHeader(
            VERSION,
            reading,
            {name: writer.n_shards for name, writer in writers.items()},
            {name: writer.n_words for name, writer in writers.items()},
            {name: writer.n_sentences for name, writer in writers.items()},
            {name: writer.n_characters for name, writer in writers.items()},
        )
        (folder / HEADER).write_bytes(header.to_bytes())
    if VALID in header.n_words:
        warn_if_too_small(header.n_words[VALID])
    return PrepareResult(
        config.out,
        header.n_words,
        header.n_sentences,
        {name: writer.n_characters for name, writer in writers.items()},
        {name: writer.n_unknown for name, writer in writers.items()},
        len(known),
        n_vocabulary,
        time.monotonic() - started,
    )


def warn_if_too_small(n_valid_words: int, *, is_prepared: bool = False) -> None:
    """Warn if the held-out text is too small for a reliable perplexity."""
    if n_valid_words < MIN_VALID_WORDS:
        logger.warning(
            "The held-out text has only %d words, too few for a reliable perplexity. %s a longer "
            "text with --valid, or hold out more with --held-out.",
            n_valid_words,
            "Run elmo prepare again: give" if is_prepared else "Give",
        )


def _check_target(out: Path) -> None:
    """Raise an error if the output folder contains anything other than a corpus."""
    if not out.is_dir() or not any(out.iterdir()):
        return
    names = {HEADER, WORDS, WORD_STARTS, COUNTS, VOCABULARY}
    shard = re.compile(rf"(?:{'|'.join(SPLITS)})-\d+\.(?:tokens|starts)")
    present = [path.name for path in out.iterdir()]
    others = sorted(name for name in present if name not in names and not shard.fullmatch(name))
    if others or not is_corpus(out):
        raise OutputError(
            f"Cannot write a corpus to {out}: the folder contains "
            f"{listing(others or present)}, which would be lost. Use another folder."
        )


def _texts(config: PrepareConfig) -> dict[str, list[str]]:
    """Return the files of each split, the training text first."""
    inputs_by_split = {TRAIN: config.input, VALID: config.valid, TEST: config.test}
    if not config.input:
        raise InputError("No input text. Specify files, globs, or - for standard input.")
    texts = {name: resolve(inputs) for name, inputs in inputs_by_split.items() if inputs}
    if sum(files.count(STDIN) for files in texts.values()) > 1:
        raise InputError("Standard input (-) is specified twice, but can be read only once.")
    return texts


def _check_words(
    blocks: Mapping[str, Sequence[CountedBlock]], texts: Mapping[str, list[str]]
) -> None:
    """Raise an error if a split has no words."""
    for name, split_blocks in blocks.items():
        if not any(block.n_words for block in split_blocks):
            raise InputError(f"{listing(texts[name])}: the {name} text contains no words.")


def _sentences(
    work: Path, blocks: Sequence[CountedBlock], of_merged: NDArray[np.uint32]
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.uint32]]]:
    """Yield the final word ids and the sentence lengths of each block, in order."""
    tables: dict[Path, tuple[str, NDArray[np.uint32]]] = {}
    for block in blocks:
        # A worker fills one run after the other, so only its current table is needed.
        if tables.get(block.stem, ("", None))[0] != block.run:
            tables[block.stem] = block.run, run_table(work, block.run, of_merged)
        yield tables[block.stem][1][block.words()], block.lengths()


def _subtract_held_out(
    counts: Numbers, work: Path, blocks: Sequence[CountedBlock], ranges: Numbers
) -> None:
    """Subtract the held-out words from the word counts, in place."""
    if not len(ranges):
        return
    first = 0
    for words, lengths in _sentences(work, blocks, np.arange(len(counts), dtype=np.uint32)):
        held = is_held_out(ranges, first, len(lengths))
        first += len(lengths)
        np.subtract.at(counts, words[np.repeat(held, lengths)], 1)


def _write_vocabulary(
    folder: Path, config: CorpusConfig, vocabulary: Vocabulary | None
) -> tuple[NDArray[np.bool_], int]:
    """Write the given or a new vocabulary; return which words are in it, and its size."""
    words, counts = open_table(folder)
    path = folder / VOCABULARY
    if vocabulary is not None:
        path.write_bytes(vocabulary.to_bytes())
        known = (word in vocabulary.ids for part in words.parts() for word in part)
        return np.fromiter(known, dtype=np.bool_, count=len(words)), len(vocabulary)
    chosen = write_vocabulary(path, words, counts, config.vocab_size, config.min_count)
    return np.arange(len(words)) < chosen.n_top, chosen.n_lines


def _write_splits(
    folder: Path,
    work: Path,
    blocks: Mapping[str, Sequence[CountedBlock]],
    rank: NDArray[np.uint32],
    ranges: Numbers,
    known: NDArray[np.bool_],
    shard_words: int,
) -> dict[str, SplitWriter]:
    """Write the shards of all splits."""
    names = [name for name in SPLITS if name in blocks or (name == VALID and len(ranges))]
    total = sum(block.n_words for split_blocks in blocks.values() for block in split_blocks)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("write", total, "words"))
        writers = {
            name: stack.enter_context(SplitWriter(folder, name, known, shard_words))
            for name in names
        }
        for name, split_blocks in blocks.items():
            first = 0
            # The split of the last sentence, to which the blank lines after it belong.
            last = name
            sentences = _sentences(work, split_blocks, rank)
            for block, (words, lengths) in zip(split_blocks, sentences, strict=True):
                progress.advance(len(words))
                writers[last].n_characters += block.n_leading
                characters = block.characters()
                held = is_held_out(ranges, first, len(lengths))
                first += len(lengths)
                if name == TRAIN and len(held):
                    last = VALID if held[-1] else TRAIN
                if name == TRAIN and held.any():
                    held_words = np.repeat(held, lengths)
                    writers[VALID].add(
                        words[held_words], lengths[held], int(characters[held].sum())
                    )
                    words, lengths = words[~held_words], lengths[~held]
                    characters = characters[~held]
                writers[name].add(words, lengths, int(characters.sum()))
    return writers
