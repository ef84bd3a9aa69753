"""Write the training text of the bundled model small-ko, one paragraph per line.

    python runs/korean_text.py DATA > korean.txt
    python runs/korean_text.py DATA petitions tasks > ko-other.txt

The second command omits Wikipedia, for use next to the whole Wikipedia. DATA contains ko-1.txt.xz
(a part of the Korean Wikipedia) and, unpacked, petitions/ (JSON lines), klue-ynat/train.tsv,
nsmc/ratings_train.txt and klue-nli/klue-nli-v1.1_train.json. Only the training sets of the tasks
are read, without their labels.
"""

import argparse
import csv
import json
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path


def wikipedia(data: Path) -> Iterator[str]:
    """Yield the paragraphs of the articles without titles, which their first paragraphs repeat."""
    with lzma.open(data / "ko-1.txt.xz", "rt", encoding="utf-8") as lines:
        yield from (line for line in lines if not line.startswith("= "))


def petitions(data: Path) -> Iterator[str]:
    """Yield the title and the lines of each petition."""
    paths = sorted((data / "petitions").glob("petitions_*"))
    if not paths:
        raise SystemExit(f"{data / 'petitions'} has no files petitions_*.")
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                petition = json.loads(line)
                yield petition["title"]
                yield from petition["content"].splitlines()


def tasks(data: Path) -> Iterator[str]:
    """Yield the texts of the task data sets."""
    for name, column in (("klue-ynat/train.tsv", "title"), ("nsmc/ratings_train.txt", "document")):
        with (data / name).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield row[column]
    pairs = json.loads((data / "klue-nli/klue-nli-v1.1_train.json").read_text(encoding="utf-8"))
    for pair in pairs:
        yield pair["premise"]
        yield pair["hypothesis"]


def main() -> None:
    """Write the text of all sources to standard output."""
    sources = {"wikipedia": wikipedia, "petitions": petitions, "tasks": tasks}
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="Folder of the texts.")
    parser.add_argument("sources", nargs="*", help=f"Any of {', '.join(sources)}. Default: all.")
    args = parser.parse_args()
    if unknown := set(args.sources) - set(sources):
        parser.error(f"unknown sources: {', '.join(sorted(unknown))}")
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for name in args.sources or sources:
        for line in sources[name](args.data):
            text = " ".join(line.split())
            if text:
                sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
