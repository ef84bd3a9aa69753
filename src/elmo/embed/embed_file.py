"""The verb `embed`: a text file to a file of vectors, in bounded memory and in the same order.

Where a folder is to be written it is a job: `job.py`.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from elmo.config import EmbedConfig
from elmo.embed.buffered_write import WINDOW_WORDS, Line, windows, written_aside
from elmo.embed.embed_result import EmbedResult
from elmo.embed.embedder import ELMo
from elmo.embed.encoding import Vectors
from elmo.embed.vector_writers import ENDINGS, MAX_INDEX_CHARACTERS, TOO_LONG, open_store
from elmo.errors import ConfigError, OutputError
from elmo.kernels.device import default_device, move
from elmo.progress import Progress
from elmo.text.input_lines import STDIN, decoded_line, opened_input

# What one file cannot be told.
JOB_ALONE = ("format", "workers", "engine", "shard_words", "storage")
# Rows of a carried state, as AllenNLP's command has them.
CARRIED_ROWS = 64


def embed(config: EmbedConfig) -> EmbedResult:
    """Embed texts, one sentence a line, and write every word's vector."""
    if config.state not in ("reset", "carry"):
        raise ConfigError(f"state is {config.state!r}; expected reset or carry")
    if _means_folder(config.out):
        from elmo.embed.sharded_job import embed_texts  # one file need not wait for it

        return embed_texts(config)
    _check_one_file(config)
    output = Path(config.out)
    indexed = output.suffix.lower() in (".h5", ".hdf5") and not config.forget_sentences
    with (
        opened_input(config.input) as file,
        open_store(
            output,
            all_layers=config.layers == "all",
            index_sentences=indexed,
            store_words=config.raw,
        ) as writer,
    ):
        size = None if config.input == STDIN else _size(file)
        if indexed and size is not None and size > MAX_INDEX_CHARACTERS:
            raise OutputError(TOO_LONG)
        model = ELMo.from_pretrained(config.model, options=config.options, vocab=config.vocab)
        move(model, config.device or default_device())
        # A carried state asks for batches exactly as the file has them.
        n_lines = (config.batch_size or CARRIED_ROWS) if config.state == "carry" else None
        run = model.encoding_run(
            layers=config.layers,
            batch_size=n_lines or config.batch_size,
            precision=config.precision,
        )
        run.remember_words()
        window_words = WINDOW_WORDS.get(run.device.type, WINDOW_WORDS["cpu"])
        split = model.tokenizer.words if config.raw else str.split
        started = time.monotonic()
        n_sentences = n_words = 0
        gathered = windows(_lines(file, config.input, split), n_lines, window_words)
        groups = ((window, [line.words for line in window]) for window in gathered)

        def write(line: Line, vectors: Vectors) -> None:
            writer.write(line.text, line.words, np.asarray(vectors))

        with Progress("embed", size, "bytes" if size else "lines") as progress:

            def report(window: list[Line], count: int) -> None:
                n_bytes = sum(line.n_bytes for line in window)
                progress.advance(count * n_bytes / len(window) if size else count)

            encode = run.carry if config.state == "carry" else run.reset
            for window in written_aside(encode(groups, report), write):
                n_sentences += len(window)
                n_words += sum(len(line.words) for line in window)
    return EmbedResult(str(output), n_sentences, n_words, time.monotonic() - started)


def _means_folder(output: str) -> bool:
    """Tell a folder from a file; a name with an unknown ending is more likely a slip."""
    path = Path(output)
    if path.suffix.lower() in ENDINGS:
        return False
    return not path.suffix or output.endswith("/") or path.is_dir()


def _check_one_file(config: EmbedConfig) -> None:
    known = Path(config.out).suffix.lower() in ENDINGS  # what is not is refused as such, later
    for name in JOB_ALONE:
        if known and getattr(config, name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is for a folder of shards, but {config.out} is one "
                "file: leave it out, or name a folder"
            )


def _size(file: BinaryIO) -> int | None:
    """Give how many bytes a file has, where that is known."""
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _lines(file: BinaryIO, name: str, split: Callable[[str], list[str]]) -> Iterator[Line]:
    """Read lines, broken at newlines only."""
    for number, data in enumerate(file, start=1):
        text = decoded_line(data, name, number).removesuffix("\n").removesuffix("\r")
        yield Line(text, split(text), len(data))
