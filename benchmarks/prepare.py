"""Benchmark `elmo prepare`: words per second and memory.

    python benchmarks/prepare.py

The text is generated: words of random characters with word frequencies as in English, separated by
spaces, one sentence per line.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from machine import describe

LINES_PER_BLOCK = 20_000
WORDS_PER_LINE = 25

# Run in its own process, so that the memory of this process is not counted.
PREPARE = """
import json, re, resource, sys
from elmo.config import CorpusConfig, PrepareConfig
from elmo.corpus.prepare_corpus import prepare

text, out, workers = sys.argv[1:]
result = prepare(PrepareConfig((text,), out, corpus=CorpusConfig(workers=int(workers))))
parent = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
print(json.dumps([
    sum(result.n_words.values()), result.n_distinct, result.seconds, parent,
    child * int(workers) if int(workers) > 1 else 0,
]))
"""


def main() -> None:
    """Print a table of words, time, speed and memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1000, help="Size of the text in MB.")
    parser.add_argument(
        "--types", type=int, default=3_000_000, help="Number of distinct words to draw from."
    )
    parser.add_argument("--workers", type=int, default=2, help="Worker processes.")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        text = Path(name) / "text.txt"
        write_text(text, args.megabytes * 1_000_000, args.types)
        command = [sys.executable, "-c", PREPARE, text, f"{name}/corpus", str(args.workers)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        size = text.stat().st_size
    n_words, n_distinct, seconds, parent, children = json.loads(done.stdout)
    print(describe())
    print(
        "| text | words | distinct | workers | seconds | words/s | peak memory of all processes |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {size / 1e6:,.0f} MB | {n_words:,} | {n_distinct:,} | {args.workers} | "
        f"{seconds:.1f} | {n_words / seconds:,.0f} | {(parent + children) / 1e6:,.0f} MB "
        f"({parent / 1e6:,.0f} + {children / 1e6:,.0f}) |"
    )


def write_text(path: Path, n_bytes: int, n_types: int) -> None:
    """Write a generated text.

    Args:
        path: File to write.
        n_bytes: Approximate size.
        n_types: Number of distinct words to draw from.
    """
    generator = np.random.default_rng(0)
    # Frequent words are short, as in natural languages.
    lengths = np.clip(np.log(np.arange(n_types) + 2) * 0.6 + generator.normal(1, 2, n_types), 1, 20)
    characters = generator.integers(ord("a"), ord("z") + 1, int(lengths.astype(int).sum()))
    text = characters.astype(np.uint8).tobytes().decode("ascii")
    ends = np.cumsum(lengths.astype(int)).tolist()
    words = np.array([text[a:b] for a, b in zip([0, *ends], ends, strict=False)], dtype=object)
    # Zipf's law with a steeper decline after the first ten thousand words, as in English.
    rank = np.arange(1, n_types + 1)
    cumulative = np.cumsum(1 / (rank + 2.7) * np.minimum(1, (10_000 / rank) ** 0.7))
    with path.open("w", encoding="ascii") as file:
        while file.tell() < n_bytes:
            u = generator.random((LINES_PER_BLOCK, WORDS_PER_LINE))
            ranks = np.searchsorted(cumulative, u * cumulative[-1])
            for line in words[ranks].tolist():
                file.write(" ".join(line) + "\n")


if __name__ == "__main__":
    main()
