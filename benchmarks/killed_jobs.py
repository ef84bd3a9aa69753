"""Jobs of four workers, killed with -9 again and again: is anything lost, is anything doubled?

python benchmarks/killed_jobs.py [--kills 20] [--seed 0]
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
# Who is killed: one worker, the parent alone, or all of them at once.
VICTIMS = {"worker": 6, "parent": 2, "all": 2}


def write_model(folder: Path) -> None:
    """Write a tiny model with random weights."""
    network = ELMoNetwork(config=TINY)
    initialize(network, seed=0)
    ELMo(Pretrained(TINY, network.state_dict(), "random weights")).save_pretrained(folder)


def write_text(path: Path, n_lines: int, draw: random.Random) -> list[list[str]]:
    """Write lines of up to 30 words, blank ones among them; give their words."""
    lines = [
        [f"w{draw.randrange(5000)}" for _ in range(draw.randint(0, 30))] for _ in range(n_lines)
    ]
    path.write_text("".join(" ".join(words) + "\n" for words in lines), encoding="utf-8")
    return lines


def start(home: Path, output: Path) -> subprocess.Popen[bytes]:
    """Start the command as a user would."""
    words = [home / "text.txt", output, "--model", home / "model", "--workers", WORKERS]
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "elmo",
            "embed",
            *map(str, words),
            "--shard-words",
            str(SHARD_WORDS),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def children_of(pid: int) -> list[int]:
    """Give the processes that a process started, in whichever thread."""
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found |= set(map(int, path.read_text().split()))
        except FileNotFoundError:  # a thread that has just ended
            continue
    return sorted(found)


def kill(process: subprocess.Popen[bytes], victim: str, draw: random.Random) -> bool:
    """Kill somebody; tell whether there was somebody to kill."""
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


def disturbed(home: Path, output: Path, kills: list[str], wanted: int, draw: random.Random) -> int:
    """Run a job to its end, killing on the way; give how often it was started."""
    n_starts = 0
    while True:
        process = start(home, output)
        n_starts += 1
        while process.poll() is None:
            time.sleep(draw.uniform(0.5, 4.0))
            if len(kills) < wanted:
                victim = draw.choices(list(VICTIMS), weights=list(VICTIMS.values()))[0]
                if kill(process, victim, draw):
                    kills.append(victim)
        if process.returncode == 0:
            return n_starts


def contents(folder: Path) -> dict[str, bytes]:
    """Give every file of a job."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def main() -> None:
    """Kill, let it finish, compare; one line tells."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=int, default=60_000)
    given = parser.parse_args()
    draw = random.Random(given.seed)
    # As many threads with one worker as with four: sums in another order round otherwise.
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_model(home / "model")
        lines = write_text(home / "text.txt", given.lines, draw)
        embed(
            EmbedConfig(
                str(home / "text.txt"),
                str(home / "whole"),
                model=str(home / "model"),
                shard_words=SHARD_WORDS,
            )
        )
        whole = contents(home / "whole")
        kills: list[str] = []
        n_jobs = n_starts = 0
        while len(kills) < given.kills:
            output = home / f"job-{n_jobs}"
            n_starts += disturbed(home, output, kills, given.kills, draw)
            n_jobs += 1
            with open_embeddings(output) as found:
                found.verify()
                once = [item.words for item in found] == lines
            if not once or contents(output) != whole:
                sys.exit(f"LOST OR DOUBLED after {len(kills)} kills: job {n_jobs - 1}")
        counts = ", ".join(f"{kills.count(victim)} x {victim}" for victim in VICTIMS)
        print(
            f"{len(kills)} kills ({counts}), {n_jobs} jobs, {n_starts} starts: each of "
            f"{len(lines):,} sentences once, all {len(whole)} files equal to an undisturbed run's"
        )


if __name__ == "__main__":
    main()
