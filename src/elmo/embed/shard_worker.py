"""Worker that runs the tasks of a job and writes their shards."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from elmo.config import EmbedConfig
from elmo.embed.buffered_write import WINDOW_WORDS, Line, line_windows, write_in_background
from elmo.embed.embedder import ELMo
from elmo.embed.fingerprint import fingerprint
from elmo.embed.input_rows import carried_names, parse_row
from elmo.embed.job_folder import SHARDS, JobFolder, sha256_of
from elmo.embed.job_records import EXTENSIONS, JobSettings, ShardRecord
from elmo.embed.job_texts import ShardTask, ShardTaskReader
from elmo.embed.layer_selection import pool
from elmo.embed.pending_batch import VectorOverflow
from elmo.embed.sentence_groups import Vectors
from elmo.embed.vector_writers import VectorWriter, open_shard
from elmo.errors import ConfigError, OutputError, shortened
from elmo.kernels.device import move
from elmo.text.line_splitter import line_splitter


@dataclass(frozen=True)
class ShardJob:
    """Job data that is passed to every worker.

    The paths in the config are absolute. With `has_rows`, the only text is the file of rows to
    which the input was converted. `line_is_integer` is that of the plan.
    """

    folder: Path
    texts: tuple[str, ...]
    config: EmbedConfig
    device: str
    n_threads: int
    settings: JobSettings
    has_rows: bool = False
    line_is_integer: bool = True


def load_model(config: EmbedConfig) -> tuple[ELMo, str]:
    """Load the model of a job and return it with its fingerprint."""
    model = ELMo.from_pretrained(config.model, options=config.options, vocab=config.vocab)
    return model, fingerprint(model.to_pretrained())


def with_absolute_paths(config: EmbedConfig) -> EmbedConfig:
    """Return the config with absolute paths, which are valid in any working directory."""
    paths = {
        name: os.path.abspath(value)
        for name in ("model", "options", "vocab")
        if (value := getattr(config, name)) is not None and os.path.exists(value)
    }
    return replace(config, **paths)


class ShardWorker:
    """Runs tasks one at a time; the same task always produces the same bytes."""

    def __init__(self, job: ShardJob) -> None:
        """Load the model; one that changed since the job was planned is an error."""
        config = job.config
        model, model_fingerprint = load_model(config)
        if model_fingerprint != job.settings.model:
            raise ConfigError(
                f"{config.model} has changed since this job was planned. Restore the model, or use "
                "a new output folder."
            )
        torch.set_num_threads(job.n_threads)
        move(model, job.device)
        self.job = job
        self.folder = JobFolder(job.folder)
        self.reader = ShardTaskReader(job.texts)
        self.split = line_splitter(
            model.config.text.tokenizer, pretokenized=job.settings.pretokenized
        )
        self.run = model.encoding_run(
            layers=config.layers,
            batch_size=config.batch_size,
            precision=config.precision,
            host_dtype=getattr(torch, job.settings.storage),
        )
        n_layers = (model.config.n_layers,) if job.settings.layers == "all" else ()
        self.shape = (*n_layers, model.config.dim)
        self.window_words = WINDOW_WORDS.get(self.run.device.type, WINDOW_WORDS["cpu"])

    def __call__(self, task: ShardTask, report: Callable[[int], None]) -> ShardRecord:
        """Run a task, write its shard and record, and report the words of each window."""
        settings = self.job.settings
        name = f"{task.number:05d}{EXTENSIONS[settings.format]}"
        path = self.job.folder / SHARDS / name
        lines = (self._line(text) for text in self.reader.lines(task))
        n_words = n_empty = 0
        # A new cache per shard, so that the shard does not depend on earlier tasks.
        self.run.enable_word_cache()
        with open_shard(
            path,
            all_layers=settings.layers == "all",
            storage=settings.storage,
            first_sentence=task.first_sentence,
            pooled=settings.pooling is not None,
            names=carried_names(self.job.config),
            line_is_integer=self.job.line_is_integer,
            shape=self.shape,
        ) as writer:
            write = partial(_write, writer, settings.pooling)
            for window in write_in_background(self._encoded(lines), write):
                count = sum(len(line.words) for line in window)
                n_words += count
                n_empty += sum(not line.words for line in window)
                report(count)
        record = ShardRecord(
            task.number,
            task.first_sentence,
            task.n_sentences,
            n_words,
            path.stat().st_size,
            sha256_of(path),
            n_empty,
        )
        self.folder.write_record(record)
        return record

    def _line(self, text: str) -> Line:
        if self.job.has_rows:
            return parse_row(text, self.split)
        return Line(text, self.split(text), len(text))

    def _encoded(self, lines: Iterable[Line]) -> Iterator[tuple[list[Line], list[Vectors]]]:
        """Yield pairs of a window and the vectors of its lines, in the storage dtype."""
        windows = line_windows(lines, None, self.window_words)
        groups = ((window, [line.words for line in window]) for window in windows)
        try:
            yield from self.run.reset(groups)
        except VectorOverflow as error:
            storage = self.job.settings.storage
            raise OutputError(
                f"A vector overflows {storage} storage (sentence {shortened(error, 60)!r}). Use "
                "another output folder with --storage float32."
            ) from None


def _write(writer: VectorWriter, pooling: str | None, line: Line, vectors: Vectors) -> None:
    array = np.asarray(vectors)
    if pooling is not None:
        # In float32, so that a sum does not overflow float16.
        pooled = pool(torch.from_numpy(array).float(), pooling)
        array = pooled.to(torch.from_numpy(array).dtype).numpy()
    writer.write(line.text, line.words, array, line.values)
