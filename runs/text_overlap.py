"""Count the texts of test sets that occur in a training text.

    python runs/text_overlap.py TEXT... --test PRESET=FILE...

PRESET is a preset of `elmo task fit`, which knows how to read FILE. Texts are compared by their
letters and digits, without spaces and case, in windows of --window characters. A text is "found" if
one of its windows occurs anywhere in TEXT, and "whole" if all of them do. Shorter texts are not
compared. TEXT can be compressed. Reads about 5 MB of text per second.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.config.serialization import load_config, presets
from elmo.corpus.compressed_files import decompressed
from elmo.tasks.reading.load_examples import read_examples
from elmo.tasks.registry.task_config import TaskConfig

Hashes = NDArray[np.uint64]

BLOCK_BYTES = 2**24
# Multiplier of the polynomial hash, odd, modulo 2**64.
FACTOR = np.uint64(6364136223846793005)
# Most windows of the training text are excluded by the lowest bits of their hash.
FILTER_BITS = np.uint64(2**26 - 1)


def normalized(text: str) -> str:
    """Return the letters and digits of a text, without case."""
    return "".join(filter(str.isalnum, text.casefold()))


def window_hashes(text: str, window: int) -> Hashes:
    """Return the hash of each window of a text; none if it is shorter than a window."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    n = len(points) - window + 1
    hashes = np.zeros(max(n, 0), dtype=np.uint64)
    if n > 0:
        for offset in range(window):
            hashes = hashes * FACTOR + points[offset : offset + n]
    return hashes


@dataclass
class TestSet:
    """Texts of a test set, as hashes of their windows."""

    name: str
    texts: list[Hashes] = field(default_factory=list)

    def counts(self, found: Hashes) -> dict[str, object]:
        """Return how many texts were found.

        Args:
            found: Hashes of windows that occur in the training text, sorted.
        """
        compared = [hashes for hashes in self.texts if len(hashes)]
        shares = [float(np.isin(hashes, found).mean()) for hashes in compared]
        return {
            "test": self.name,
            "texts": len(self.texts),
            "compared": len(compared),
            "found": sum(share > 0 for share in shares),
            "whole": sum(share == 1 for share in shares),
        }


def read_test_set(preset: str, path: str, window: int) -> TestSet:
    """Read the texts of a test set, with words as they are in its files."""
    options = {"out": "unused", "train": path}
    config = load_config(TaskConfig, preset, options, presets("tasks"))
    examples = read_examples(config.examples, path, str.split, task=config.task)
    texts = dict.fromkeys(normalized("".join(words)) for each in examples for words in each.texts)
    return TestSet(f"{preset} {Path(path).name}", [window_hashes(text, window) for text in texts])


def text_blocks(path: Path) -> Iterator[str]:
    """Yield a text file in blocks of whole lines."""
    with path.open("rb") as raw, decompressed(path.name, raw) as file:
        while lines := file.readlines(BLOCK_BYTES):
            yield b"".join(lines).decode("utf-8")


def occurring(paths: Sequence[Path], wanted: Hashes, window: int) -> Hashes:
    """Return those of the wanted hashes that occur in training texts; `wanted` is sorted."""
    is_possible = np.zeros(int(FILTER_BITS) + 1, dtype=bool)
    is_possible[wanted & FILTER_BITS] = True
    found = []
    for path in paths:
        for block in text_blocks(path):
            hashes = window_hashes(normalized(block), window)
            possible = hashes[is_possible[hashes & FILTER_BITS]]
            found.append(np.intersect1d(possible, wanted))
    return np.unique(np.concatenate(found)) if found else wanted[:0]


def main() -> None:
    """Print one JSON line per test set."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", nargs="+", type=Path, help="Training texts.")
    parser.add_argument("--test", nargs="+", required=True, metavar="PRESET=FILE")
    parser.add_argument("--window", type=int, default=30, help="Characters per window.")
    args = parser.parse_args()
    tests = [read_test_set(*name.split("=", 1), args.window) for name in args.test]
    wanted = np.unique(np.concatenate([hashes for test in tests for hashes in test.texts]))
    found = occurring(args.texts, wanted, args.window)
    for test in tests:
        print(json.dumps(test.counts(found)))


if __name__ == "__main__":
    main()
