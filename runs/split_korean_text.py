"""Split Korean text into morphemes with spaces between them, for machines without the tokenizer.

    python runs/split_korean_text.py TEXT... --out FOLDER [--workers N]

Each TEXT (one paragraph per line, may be compressed) is written to FOLDER without headings, which
are the lines that start with `= `. Prepare the result with `--tokenizer korean
--pretokenized --sentences split`. A file appears in FOLDER when it is complete, and is skipped
then.
"""

import argparse
import io
import os
from collections.abc import Iterator
from functools import cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from elmo.corpus.compressed_files import decompressed, plain_name
from elmo.files import atomic_path
from elmo.text.tokenizer import Tokenizer
from elmo.text.tokenizers_by_name import get_tokenizer

BATCH_LINES = 200


@cache
def tokenizer() -> Tokenizer:
    """Return the tokenizer, which every process loads once."""
    return get_tokenizer("korean")


def split_lines(lines: list[str]) -> list[str]:
    """Return lines with single spaces between the morphemes.

    Args:
        lines: Paragraphs.
    """
    return [" ".join(tokenizer().words(line)) + "\n" for line in lines]


def paragraphs(path: Path) -> Iterator[str]:
    """Yield the lines of a text file that are neither blank nor headings.

    Args:
        path: The text, plain or compressed.
    """
    with path.open("rb") as raw, decompressed(path.name, raw) as file:
        for line in io.TextIOWrapper(file, encoding="utf-8"):
            text = line.strip()
            if text and not text.startswith("= "):
                yield text


def batches(path: Path) -> Iterator[list[str]]:
    """Yield the paragraphs of a file in lists.

    Args:
        path: The text, plain or compressed.
    """
    lines = paragraphs(path)
    while batch := list(islice(lines, BATCH_LINES)):
        yield batch


def main() -> None:
    """Split all texts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", nargs="+", type=Path, help="Texts to split.")
    parser.add_argument("--out", required=True, type=Path, help="Folder for the split texts.")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="Processes.")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with get_context("spawn").Pool(args.workers) as pool:
        for path in args.texts:
            target = args.out / plain_name(path.name)
            if target.exists():
                continue
            with atomic_path(target) as partial, partial.open("w", encoding="utf-8") as file:
                for lines in pool.imap(split_lines, batches(path)):
                    file.writelines(lines)
            print(target, flush=True)


if __name__ == "__main__":
    main()
