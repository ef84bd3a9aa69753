"""What the tests of jobs share: a text, a model, and an engine inside the test's own process."""

import os
import random

from conftest import random_model

from elmo.config import EmbedConfig
from elmo.embed import embed
from elmo.embed.embedder import ELMo
from elmo.embed.shard_worker import ShardWorker

# Workers have one thread, as the tests themselves.
os.environ["OMP_NUM_THREADS"] = "1"


def write_model(folder, seed=0):
    """Write a tiny model and give its path."""
    ELMo(random_model(scale=1.5, seed=seed).with_tokenizer("english")).save_pretrained(folder)
    return folder


def make_lines(n_lines, seed=0):
    """Give lines of a few words; some are blank, some stand twice."""
    draw = random.Random(seed)
    words = [f"word{number}" for number in range(50)] + ["é", "漢字", "<S>", "."]
    return [" ".join(draw.choices(words, k=draw.randint(0, 8))) for _ in range(n_lines)]


def write_text(path, lines):
    """Write lines and give the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def in_this_process(job, tasks, n_workers, advance):
    """Be an engine that starts no process."""
    worker = ShardWorker(job)
    try:
        for task in tasks:
            yield worker(task, advance)
    finally:
        worker.reader.close()


def run_job(source, output, model, **settings):
    """Embed texts into a folder."""
    return embed(EmbedConfig(str(source), str(output), model=str(model), **settings))


def contents(folder):
    """Give the bytes of every file of a job that readers see."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }
