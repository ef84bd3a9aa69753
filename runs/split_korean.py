"""Korean task sets split into morphemes once, so that machines without the tokeniser can train.

    python runs/split_korean.py DATA OUT

DATA holds klue-ynat/ and nsmc/; OUT gets the same files, morphemes between spaces in the column of
the text: to be read with `--tokenizer whitespace`. Takes some five minutes of one core.
"""

import argparse
from pathlib import Path

from elmo.text.tokenizer import Tokenizer, get_tokenizer

# The column of the text in each file.
FILES = {
    "klue-ynat/train.tsv": "title",
    "klue-ynat/dev.tsv": "title",
    "nsmc/ratings_train.txt": "document",
    "nsmc/ratings_test.txt": "document",
}


def split(source: Path, target: Path, column: str, tokenizer: Tokenizer) -> None:
    """Write a table again with one column split; all else stays as it is."""
    header, *lines = source.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    place = header.rstrip("\r").split("\t").index(column)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8", newline="\n") as out:
        out.write(header + "\n")
        for line in lines:
            row = line.split("\t")
            row[place] = " ".join(tokenizer.words(row[place]))
            out.write("\t".join(row) + "\n")


def main() -> None:
    """Split all files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    tokenizer = get_tokenizer("korean")
    for name, column in FILES.items():
        split(given.data / name, given.out / name, column, tokenizer)


if __name__ == "__main__":
    main()
