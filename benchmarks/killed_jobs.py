"""Kill processes of embedding jobs at random and check that no sentence is lost or repeated.

    python benchmarks/killed_jobs.py [--kills 20] [--seed 0]

Jobs have four workers. SIGKILL is sent to a worker, to the parent or to all of them; a job whose
parent is killed is started again.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from elmo.config import EmbedConfig, EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.embed import embed, open_embeddings
from elmo.embed.embedder import ELMo
from elmo.formats.pretrained import Pretrained
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork

TINY = ModelConfig(
    TextConfig(max_characters=12),
    EncoderConfig(character_dim=4, filters=((1, 4), (2, 8), (3, 8)), n_highway=1),
    LSTMConfig(cell_dim=64, projection_dim=64),
)
WORKERS = 4
SHARD_WORDS = 10_000
# Processes to kill and their relative frequency: one worker, only the parent, or all at once.
VICTIMS = {"worker": 6, "parent": 2, "all": 2}


def write_model(folder: Path) -> None:
    """Write a tiny model with random weights."""
    network = ELMoNetwork(config=TINY)
    initialize(network, seed=0)
    ELMo(Pretrained(TINY, network.state_dict(), "random weights")).save_pretrained(folder)


def write_text(path: Path, n_lines: int, draw: random.Random) -> list[list[str]]:
    """Write lines of up to 30 random words, including blank lines, and return their words."""
    lines = [
        [f"w{draw.randrange(5000)}" for _ in range(draw.randint(0, 30))] for _ in range(n_lines)
    ]
    path.write_text("".join(" ".join(words) + "\n" for words in lines), encoding="utf-8")
    return lines


def start(home: Path, output: Path) -> subprocess.Popen[bytes]:
    """Start an embedding job with the command line."""
    arguments = [home / "text.txt", output, "--model", home / "model", "--workers", WORKERS]
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "elmo",
            "embed",
            *map(str, arguments),
            "--shard-words",
            str(SHARD_WORDS),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def children_of(pid: int) -> list[int]:
    """Return the ids of the child processes of all threads of a process."""
    children: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children |= set(map(int, path.read_text().split()))
        except FileNotFoundError:  # the thread has just ended
            continue
    return sorted(children)


def kill(process: subprocess.Popen[bytes], victim: str, draw: random.Random) -> bool:
    """Kill processes of a job, and return whether there were any.

    Args:
        process: Parent process of the job.
        victim: Key of `VICTIMS`.
        draw: Random generator that selects the worker.
    """
    children = children_of(process.pid)
    if process.poll() is not None or (victim == "worker" and not children):
        return False
    chosen = {"worker": children and [draw.choice(children)], "parent": [process.pid]}
    for pid in chosen.get(victim, [process.pid, *children]):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return True


def run_with_kills(
    home: Path, output: Path, kills: list[str], n_kills: int, draw: random.Random
) -> int:
    """Run a job to its end while killing its processes, and return how often it was started.

    Args:
        home: Folder of the text and the model.
        output: Output folder of the job.
        kills: Victims so far; new ones are appended.
        n_kills: Number of victims after which no process is killed any more.
        draw: Random generator.
    """
    n_starts = 0
    while True:
        process = start(home, output)
        n_starts += 1
        while process.poll() is None:
            time.sleep(draw.uniform(0.5, 4.0))
            if len(kills) < n_kills:
                victim = draw.choices(list(VICTIMS), weights=list(VICTIMS.values()))[0]
                if kill(process, victim, draw):
                    kills.append(victim)
        if process.returncode == 0:
            return n_starts


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of every file of a job by its relative path."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def main() -> None:
    """Run jobs with kills, and compare their files with those of an undisturbed job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20, help="Number of kills.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of text, victims and times.")
    parser.add_argument("--lines", type=int, default=60_000, help="Lines of the text.")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    # One worker must use as many threads as each of four: the order of sums affects rounding.
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_model(home / "model")
        lines = write_text(home / "text.txt", args.lines, draw)
        embed(
            EmbedConfig(
                str(home / "text.txt"),
                str(home / "undisturbed"),
                model=str(home / "model"),
                shard_words=SHARD_WORDS,
            )
        )
        expected = contents(home / "undisturbed")
        kills: list[str] = []
        n_jobs = n_starts = 0
        while len(kills) < args.kills:
            output = home / f"job-{n_jobs}"
            n_starts += run_with_kills(home, output, kills, args.kills, draw)
            n_jobs += 1
            with open_embeddings(output) as embeddings:
                embeddings.verify()
                is_complete = [item.words for item in embeddings] == lines
            if not is_complete or contents(output) != expected:
                sys.exit(
                    f"Job {n_jobs - 1} has lost or repeated sentences after {len(kills)} kills."
                )
        counts = ", ".join(f"{kills.count(victim)} x {victim}" for victim in VICTIMS)
        print(
            f"{len(kills)} kills ({counts}), {n_jobs} jobs, {n_starts} starts: each of "
            f"{len(lines):,} sentences is present once, and all {len(expected)} files equal those "
            "of an undisturbed job"
        )


if __name__ == "__main__":
    main()
