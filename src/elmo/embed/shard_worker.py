"""One worker of a job: a task in, its shard and its record out."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from elmo.config import EmbedConfig
from elmo.embed.buffered_write import WINDOW_WORDS, Line, windows, written_aside
from elmo.embed.embedder import ELMo
from elmo.embed.encoding import Vectors
from elmo.embed.fingerprint import fingerprint
from elmo.embed.job_folder import ENDINGS, SHARDS, JobFolder, JobSettings, ShardRecord, sha256_of
from elmo.embed.job_texts import ShardTask, ShardTaskReader
from elmo.embed.pending_batch import BatchTooLarge
from elmo.embed.vector_writers import VectorWriter, open_shard
from elmo.errors import ConfigError, OutputError
from elmo.kernels.device import move


@dataclass(frozen=True)
class ShardJob:
    """What every worker is told.

    Attributes:
        folder: of the job.
        texts: paths of the texts.
        config: as it was typed, with whole paths.
        device: to compute on.
        n_threads: of each worker, as planned.
        settings: of the plan.
    """

    folder: Path
    texts: tuple[str, ...]
    config: EmbedConfig
    device: str
    n_threads: int
    settings: JobSettings


def load_model(config: EmbedConfig) -> tuple[ELMo, str]:
    """Load the model of a job, and give its fingerprint."""
    model = ELMo.from_pretrained(config.model, options=config.options, vocab=config.vocab)
    return model, fingerprint(model.to_pretrained())


def with_whole_paths(config: EmbedConfig) -> EmbedConfig:
    """Give a config that means the same wherever its workers stand."""
    places = {
        name: os.path.abspath(value)
        for name in ("model", "options", "vocab")
        if (value := getattr(config, name)) is not None and os.path.exists(value)
    }
    return replace(config, **places)


class ShardWorker:
    """Does tasks, one at a time; the same task gives the same bytes whoever does it."""

    def __init__(self, job: ShardJob) -> None:
        """Load the model.

        Args:
            job: of all workers.
        """
        config = job.config
        model, found = load_model(config)
        if found != job.settings.model:
            raise ConfigError(
                f"{config.model} has changed since the job was begun: bring it back as it was, or "
                "begin another job in another folder"
            )
        torch.set_num_threads(job.n_threads)
        move(model, job.device)
        self.job = job
        self.folder = JobFolder(job.folder)
        self.reader = ShardTaskReader(job.texts)
        self.split = model.tokenizer.words if config.raw else str.split
        self.run = model.encoding_run(
            layers=config.layers,
            batch_size=config.batch_size,
            precision=config.precision,
            host=getattr(torch, job.settings.storage),
        )
        self.window_words = WINDOW_WORDS.get(self.run.device.type, WINDOW_WORDS["cpu"])

    def __call__(self, task: ShardTask, tell: Callable[[int], None]) -> ShardRecord:
        """Write a shard, then its record.

        Args:
            task: what to embed.
            tell: called with the words that are done.
        """
        settings = self.job.settings
        name = f"{task.number:05d}{ENDINGS[settings.format]}"
        path = self.job.folder / SHARDS / name
        lines = (Line(text, self.split(text), len(text)) for text in self.reader.lines(task))
        n_words = 0
        # Each shard begins anew: what it holds may not depend on what was there before.
        self.run.remember_words()
        with open_shard(
            path,
            all_layers=settings.layers == "all",
            storage=settings.storage,
            first=task.first_sentence,
        ) as writer:
            for window in written_aside(self._encoded(lines), partial(_write, writer)):
                count = sum(len(line.words) for line in window)
                n_words += count
                tell(count)
        record = ShardRecord(
            task.number,
            task.first_sentence,
            task.n_sentences,
            n_words,
            path.stat().st_size,
            sha256_of(path),
        )
        self.folder.write_record(record)
        return record

    def _encoded(self, lines: Iterable[Line]) -> Iterator[tuple[list[Line], list[Vectors]]]:
        """Give windows and their vectors, as they are stored."""
        gathered = windows(lines, None, self.window_words)
        groups = ((window, [line.words for line in window]) for window in gathered)
        try:
            yield from self.run.reset(groups)
        except BatchTooLarge as error:
            storage = self.job.settings.storage
            raise OutputError(
                f"a vector of the sentence {str(error)[:60]!r} does not fit into {storage}: "
                "begin again in another folder, with --storage float32"
            ) from None


def _write(writer: VectorWriter, line: Line, vectors: Vectors) -> None:
    writer.write(line.text, line.words, np.asarray(vectors))
