"""Divide the training text of a base model into training and held-out text.

    python runs/held_out_text.py TEXT... --out FOLDER [--without TITLE...] [--every 600]

Every 600th block of 100 lines goes to FOLDER/valid.txt, and the rest to files in FOLDER with the
names of the texts. Articles, which start with a line `= TITLE =`, are left out of both if their
title is given. TEXT can be compressed. Takes a minute for 2 GB.
"""

import argparse
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from elmo.corpus.compressed_files import decompressed, plain_name

BLOCK_LINES = 100


def lines_without(path: Path, titles: Collection[str]) -> Iterator[bytes]:
    """Yield the lines of a text file, except those of articles with the given titles."""
    headings = {f"= {title} =".encode() for title in titles}
    is_left_out = False
    with path.open("rb") as raw, decompressed(path.name, raw) as file:
        for line in file:
            # A section within an article starts with `= = NAME = =`.
            if line.startswith(b"= ") and not line.startswith(b"= ="):
                is_left_out = line.strip() in headings
            if not is_left_out:
                yield line


def main() -> None:
    """Write the training texts and the held-out text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", nargs="+", type=Path, help="Training texts.")
    parser.add_argument("--out", required=True, type=Path, help="New folder for the texts.")
    parser.add_argument("--without", nargs="+", default=(), metavar="TITLE", help="Articles.")
    parser.add_argument("--every", type=int, default=600, help="Blocks per held-out block.")
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    n_blocks = 0
    with (args.out / "valid.txt").open("xb") as valid:
        for path in args.texts:
            lines = lines_without(path, args.without)
            with (args.out / plain_name(path.name)).open("xb") as train:
                while block := list(islice(lines, BLOCK_LINES)):
                    n_blocks += 1
                    (train if n_blocks % args.every else valid).writelines(block)
    print(f"{n_blocks // args.every} of {n_blocks} blocks held out")


if __name__ == "__main__":
    main()
