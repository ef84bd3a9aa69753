"""A text read once: its words numbered provisionally, and counted exactly.

Memory is bounded: `DICTIONARY_BYTES` for the dictionaries of all workers together, about 120 MB for
each worker and its blocks, and about 60 bytes for each distinct word at the end.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from elmo.config import ReadingConfig
from elmo.corpus.block_worker import CountedBlock, CountingJob, CountingTask
from elmo.corpus.external_sort import merge_runs
from elmo.corpus.text_sources import read_blocks, total_bytes
from elmo.corpus.worker_pool import split_blocks
from elmo.progress import Progress

DICTIONARY_BYTES = 2**29
MIN_DICTIONARY_BYTES = 2**25


def count_text(
    work: Path,
    texts: Mapping[str, Sequence[str]],
    reading: ReadingConfig,
    *,
    counted: str,
    workers: int | None,
    keep: bool,
) -> dict[str, list[CountedBlock]]:
    """Number the words of texts, and count those of one of them.

    Args:
        work: an empty folder; runs, merged words and counts are left in it.
        texts: files of each text.
        reading: how text becomes sentences of words.
        counted: the text whose words count.
        workers: processes; None means all cores.
        keep: write the numbers; else words are only counted.

    Returns:
        The pieces of each text in order.
    """
    n_workers = workers or os.cpu_count() or 1
    limit = max(DICTIONARY_BYTES // n_workers, min(MIN_DICTIONARY_BYTES, DICTIONARY_BYTES))
    homes: list[str] = []

    def tasks() -> Iterator[CountingTask]:
        for name, files in texts.items():
            for block in read_blocks(files, reading.text_field):
                homes.append(name)
                yield CountingTask(block, counted=name == counted)

    total = total_bytes([file for files in texts.values() for file in files])
    with Progress("read", total, "bytes") as progress:
        job = CountingJob(work, reading, limit, keep)
        pieces, runs = split_blocks(job, tasks(), n_workers, progress.advance)
    merge_runs(work, runs)
    found: dict[str, list[CountedBlock]] = {name: [] for name in texts}
    for home, piece in zip(homes, pieces, strict=True):
        found[home].append(piece)
    return found
