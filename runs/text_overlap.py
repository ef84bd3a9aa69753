"""Count the texts of test sets that occur in a training text.

    python runs/text_overlap.py TEXT... [--test PRESET[:READER]=FILE...] [--test-lines FILE...]
        [--out FOLDER]

PRESET is a preset of `elmo task fit`, which knows how to read FILE; READER is
the value of --reader that FILE needs. With --test-lines, each line of a file is a text.

Texts are compared without spaces, punctuation and case, in windows of --window characters. A text
is "found" if one of its windows occurs anywhere in TEXT, and "whole" if all of them do. Shorter
texts are not compared. TEXT can be compressed. Reads about 5 MB of text per second and worker.

With --out, each TEXT is also written to FOLDER without the lines in which a part of such a window
occurs.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import compress, repeat
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from elmo.config.serialization import load_config, presets
from elmo.corpus.compressed_files import decompressed, plain_name
from elmo.tasks.reading.load_examples import read_examples
from elmo.tasks.registry.task_config import TaskConfig

Hashes = NDArray[np.uint64]

BLOCK_BYTES = 2**22
# Multiplier of the polynomial hash, odd, modulo 2**64.
FACTOR = np.uint64(6364136223846793005)
# Most windows of the training text are excluded by the lowest bits of their hash.
FILTER_BITS = np.uint64(2**26 - 1)


def normalized(text: str) -> str:
    """Return a text without spaces, punctuation and case."""
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


def contained(hashes: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """Return which hashes are among the known ones, which are sorted.

    `np.isin` would sort them again for each line of a text.
    """
    if not len(known):
        return np.zeros(len(hashes), dtype=bool)
    return known[np.searchsorted(known, hashes, side="right") - 1] == hashes


@dataclass
class TestSet:
    """Texts of a test set, as hashes of their windows."""

    name: str
    texts: list[Hashes]

    @classmethod
    def of_texts(cls, name: str, texts: Iterable[str], window: int) -> Self:
        """Return a test set without repeated texts."""
        distinct = dict.fromkeys(map(normalized, texts))
        return cls(name, [window_hashes(text, window) for text in distinct])

    def counts(self, found: Hashes) -> dict[str, object]:
        """Return how many texts were found.

        Args:
            found: Hashes of windows that occur in the training text, sorted.
        """
        compared = [hashes for hashes in self.texts if len(hashes)]
        shares = [float(contained(hashes, found).mean()) for hashes in compared]
        return {
            "test": self.name,
            "texts": len(self.texts),
            "compared": len(compared),
            "found": sum(share > 0 for share in shares),
            "whole": sum(share == 1 for share in shares),
        }


def read_test_set(source: str, path: str, window: int) -> TestSet:
    """Read the texts of a test set, with words as they are in its files.

    Args:
        source: `PRESET` or `PRESET:READER`.
        path: The file.
        window: Characters per window.
    """
    preset, _, reader = source.partition(":")
    options = {"out": "unused", "train": path} | ({"reader": reader} if reader else {})
    config = load_config(TaskConfig, preset, options, presets("tasks"))
    examples = read_examples(config.examples, path, str.split, task=config.task)
    texts = ("".join(words) for each in examples for words in each.texts)
    return TestSet.of_texts(f"{source} {Path(path).name}", texts, window)


def read_test_lines(path: Path, window: int) -> TestSet:
    """Read a test set with one text per line."""
    with path.open(encoding="utf-8") as lines:
        return TestSet.of_texts(f"{path.parent.name}/{path.name}", lines, window)


def text_blocks(path: Path) -> Iterator[list[str]]:
    """Yield a text file in lists of lines."""
    with path.open("rb") as raw, decompressed(path.name, raw) as file:
        while lines := file.readlines(BLOCK_BYTES):
            yield [line.decode("utf-8") for line in lines]


class WindowSearch:
    """Searches texts for windows of the test sets."""

    def __init__(self, wanted: Hashes, window: int) -> None:
        """Prepare a search.

        Args:
            wanted: Hashes of windows, sorted.
            window: Characters per window.
        """
        self._wanted, self._window = wanted, window
        self._is_possible = np.zeros(int(FILTER_BITS) + 1, dtype=bool)
        self._is_possible[wanted & FILTER_BITS] = True

    def search(self, lines: Sequence[str]) -> tuple[Hashes, NDArray[np.bool_]]:
        """Search a text.

        Args:
            lines: Lines of the text.

        Returns:
            Those of the wanted hashes that occur in the text, and for each line whether a part of
            such a window is in it.
        """
        parts = [*map(normalized, lines)]
        hashes = window_hashes("".join(parts), self._window)
        possible = np.flatnonzero(self._is_possible[hashes & FILTER_BITS])
        starts = possible[contained(hashes[possible], self._wanted)]
        ends = np.cumsum([*map(len, parts)])
        first = np.searchsorted(ends, starts, side="right")
        last = np.searchsorted(ends, starts + self._window - 1, side="right")
        is_found = np.zeros(len(lines), dtype=bool)
        for begin, end in np.unique(np.stack([first, last], axis=1), axis=0):
            is_found[begin : end + 1] = True
        return np.unique(hashes[starts]), is_found


def search(path: Path, windows: WindowSearch, out: Path | None) -> Hashes:
    """Return the windows that occur in a text, and write its other lines to a file, if given."""
    found = []
    with out.open("x", encoding="utf-8", newline="") if out else nullcontext() as file:
        for lines in text_blocks(path):
            hashes, is_found = windows.search(lines)
            found.append(hashes)
            if file is not None:
                file.writelines(compress(lines, ~is_found))
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.uint64)


def main() -> None:
    """Print one JSON line per test set."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", nargs="+", type=Path, help="Training texts.")
    parser.add_argument("--test", nargs="+", default=(), metavar="PRESET[:READER]=FILE")
    parser.add_argument("--test-lines", nargs="+", default=(), type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, help="Folder for the texts without such lines.")
    parser.add_argument("--window", type=int, default=30, help="Characters per window.")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="Texts at a time.")
    args = parser.parse_args()
    names = [plain_name(path.name) for path in args.texts]
    repeated = [name for name, n in Counter(names).items() if n > 1]
    if args.out and repeated:
        parser.error(f"several texts would be written to {repeated[0]}")
    tests = [read_test_set(*name.split("=", 1), args.window) for name in args.test]
    tests += [read_test_lines(path, args.window) for path in args.test_lines]
    if not tests:
        parser.error("pass --test or --test-lines")
    wanted = np.unique(np.concatenate([hashes for test in tests for hashes in test.texts]))
    windows = WindowSearch(wanted, args.window)
    if args.out:
        args.out.mkdir(parents=True)
    outs = [args.out and args.out / name for name in names]
    # NumPy computes large arrays without Python's lock.
    with ThreadPoolExecutor(args.workers) as pool:
        found_by_text = list(pool.map(search, args.texts, repeat(windows), outs))
    found = np.unique(np.concatenate(found_by_text))
    for test in tests:
        print(json.dumps(test.counts(found)))


if __name__ == "__main__":
    main()
