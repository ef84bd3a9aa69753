"""Helpers for testing jobs: a text, a tiny model, and an engine without worker processes."""

import os
import random

from conftest import random_model

from elmo.config import EmbedConfig
from elmo.embed import embed
from elmo.embed.embedder import ELMo
from elmo.embed.shard_worker import ShardWorker

# Workers have one thread, like the tests.
os.environ["OMP_NUM_THREADS"] = "1"


def write_model(folder, seed=0):
    """Write a tiny model and return its path."""
    ELMo(random_model(scale=1.5, seed=seed).with_tokenizer("english")).save_pretrained(folder)
    return folder


def make_lines(n_lines, seed=0):
    """Return lines of a few words each; some are blank and some are repeated."""
    rng = random.Random(seed)
    words = [f"word{number}" for number in range(50)] + ["é", "漢字", "<S>", "."]
    return [" ".join(rng.choices(words, k=rng.randint(0, 8))) for _ in range(n_lines)]


def write_text(path, lines):
    """Write lines to a file and return its path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def in_this_process(job, tasks, n_workers, advance):
    """Run tasks like an engine, but in the test process instead of child processes."""
    worker = ShardWorker(job)
    try:
        for task in tasks:
            yield worker(task, advance)
    finally:
        worker.reader.close()


def run_job(source, output, model, **settings):
    """Embed texts, whose words are separated by spaces by default."""
    settings = {"pretokenized": True, **settings}
    return embed(EmbedConfig(str(source), str(output), model=str(model), **settings))


def contents(folder):
    """Return the bytes of every file in a job folder, except for the lock."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
