"""How much room the shards of a job will take, told before it starts."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from elmo.embed.embed_result import size
from elmo.embed.job_folder import JobPlan
from elmo.embed.job_texts import ShardTask
from elmo.errors import OutputError

NUMBER_BYTES = {"float16": 2, "float32": 4}
# Bytes that a format adds for a sentence, a word, each vector of a word and a shard, at most.
SENTENCE_BYTES = {"parquet": 64, "hdf5": 1000, "safetensors": 8}
WORD_BYTES = {"parquet": 8, "hdf5": 8, "safetensors": 8}
VECTOR_BYTES = {"parquet": 8, "hdf5": 0, "safetensors": 0}
SHARD_BYTES = 2**14


def estimated_bytes(plan: JobPlan, tasks: Iterable[ShardTask]) -> int:
    """Give the bytes that shards take at most.

    Args:
        plan: how they are written.
        tasks: what they hold.
    """
    settings = plan.settings
    vector = plan.dim * NUMBER_BYTES[settings.storage] + VECTOR_BYTES[settings.format]
    word = WORD_BYTES[settings.format] + max(1, plan.n_layers) * vector
    sentence = SENTENCE_BYTES[settings.format]
    return sum(
        task.n_words * word + task.n_sentences * sentence + task.n_bytes + SHARD_BYTES
        for task in tasks
    )


def check_room(folder: Path, n_bytes: int) -> int:
    """Refuse to start what the disk has no room for; give what is free.

    Args:
        folder: where it goes.
        n_bytes: what it takes.
    """
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise OutputError(
            f"the shards that are left take about {size(n_bytes)}, but {folder} has {size(free)} "
            "free: name a folder elsewhere, keep fewer layers, or make room and say the same again"
        )
    return free
