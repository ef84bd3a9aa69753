"""Word counting and assignment of provisional word ids in one pass over the texts.

Memory use is bounded: `DICTIONARY_BYTES` in total for the dictionaries of all workers, about 120 MB
per worker including its blocks, and about 60 bytes per distinct word at the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from elmo.config import ReadingConfig
from elmo.corpus.block_worker import CountedBlock, CountingJob, CountingTask
from elmo.corpus.external_sort import merge_runs
from elmo.corpus.text_sources import read_blocks, total_bytes
from elmo.corpus.worker_pool import process_blocks
from elmo.progress import Progress
from elmo.text.line_splitter import OPTION_REMEDY, TextCheck
from elmo.threads import n_cores

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
    """Assign provisional ids to the words of all texts, and count the words of one text.

    The empty folder `work` gets sorted runs, merged words and counts. Without `keep`, word ids are
    not written. Returns the processed blocks of each text, in order.
    """
    n_workers = workers or n_cores()
    limit = max(DICTIONARY_BYTES // n_workers, min(MIN_DICTIONARY_BYTES, DICTIONARY_BYTES))
    text_names: list[str] = []
    check = TextCheck(
        reading.tokenizer,
        pretokenized=reading.pretokenized,
        remedy=OPTION_REMEDY,
        # Sentences do not matter if words are only counted, and language-modeling benchmarks keep
        # the lines of the text.
        finds_paragraphs=keep and reading.sentences == "line" and not reading.keep_blank_lines,
    )

    def tasks() -> Iterator[CountingTask]:
        for name, files in texts.items():
            for block in read_blocks(files, reading.text_column, reading.input_format):
                if not text_names:
                    check.check(block.lines())
                text_names.append(name)
                yield CountingTask(block, counted=name == counted)

    total = total_bytes([file for files in texts.values() for file in files])
    with Progress("read", total, "bytes") as progress:
        job = CountingJob(work, reading, limit, keep)
        blocks, runs = process_blocks(job, tasks(), n_workers, progress.advance)
    merge_runs(work, runs)
    blocks_by_text: dict[str, list[CountedBlock]] = {name: [] for name in texts}
    for name, block in zip(text_names, blocks, strict=True):
        blocks_by_text[name].append(block)
    return blocks_by_text
