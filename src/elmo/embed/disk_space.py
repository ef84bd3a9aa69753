"""Estimates the disk space needed by a job, and checks it before the job starts."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from elmo.embed.embed_result import format_size
from elmo.embed.job_records import JobPlan
from elmo.embed.job_texts import ShardTask
from elmo.errors import OutputError

STORAGE_BYTES = {"float16": 2, "float32": 4}
# Upper bounds of the bytes that a format adds per sentence, word, vector of a word and shard.
SENTENCE_BYTES = {"parquet": 64, "hdf5": 1000, "safetensors": 8}
WORD_BYTES = {"parquet": 8, "hdf5": 8, "safetensors": 8}
VECTOR_BYTES = {"parquet": 8, "hdf5": 0, "safetensors": 0}
SHARD_BYTES = 2**14


def estimated_bytes(plan: JobPlan, tasks: Iterable[ShardTask]) -> int:
    """Return an upper bound on the total size of the shards in bytes."""
    settings = plan.settings
    vector = plan.dim * STORAGE_BYTES[settings.storage] + VECTOR_BYTES[settings.format]
    word = WORD_BYTES[settings.format] + max(1, plan.n_layers) * vector
    sentence = SENTENCE_BYTES[settings.format]
    if settings.pooling is not None:
        sentence += word
        word = WORD_BYTES[settings.format]
    return sum(
        task.n_words * word + task.n_sentences * sentence + task.n_bytes + SHARD_BYTES
        for task in tasks
    )


def check_free_space(folder: Path, n_bytes: int) -> int:
    """Check that there is enough free disk space for the shards, and return it in bytes."""
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OutputError(
            f"The remaining shards need about {format_size(n_bytes)}, but {folder} has only "
            f"{format_size(free)} free. Write to another disk, keep fewer layers, or free some "
            "space and run the same command again."
        )
    return free
