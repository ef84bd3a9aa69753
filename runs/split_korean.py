"""Korean task sets split into morphemes once, so that machines without the tokeniser can train.

    python runs/split_korean.py DATA OUT [SET...]

DATA holds klue-ynat/, nsmc/ and klue-nli/, all of which are split where none is named; OUT gets the
same files, morphemes between spaces where the texts are: to be read with `--tokenizer whitespace`.
What is there already stays, and asks for no tokeniser. Takes some six minutes of one core.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from elmo.files import atomic_path
from elmo.text.tokenizer import Tokenizer, get_tokenizer

# The columns of the texts in the files of each set.
SETS = {
    "klue-ynat": (("train.tsv", "dev.tsv"), ("title",)),
    "nsmc": (("ratings_train.txt", "ratings_test.txt"), ("document",)),
    "klue-nli": (
        ("klue-nli-v1.1_train.json", "klue-nli-v1.1_dev.json"),
        ("premise", "hypothesis"),
    ),
}


def split_table(text: str, columns: Sequence[str], tokenizer: Tokenizer) -> str:
    """Give a table again with some columns split; all else stays as it is."""
    header, *lines = text.removesuffix("\n").split("\n")
    names = header.rstrip("\r").split("\t")
    rows = [line.split("\t") for line in lines]
    for row in rows:
        for place in map(names.index, columns):
            row[place] = " ".join(tokenizer.words(row[place]))
    return "".join(line + "\n" for line in [header, *map("\t".join, rows)])


def split_records(text: str, columns: Sequence[str], tokenizer: Tokenizer) -> str:
    """Give a JSON list of records again with some columns split."""
    records = [
        record | {name: " ".join(tokenizer.words(record[name])) for name in columns}
        for record in json.loads(text)
    ]
    return json.dumps(records, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Split the files of the sets that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    given = parser.parse_args()
    for name in given.sets or SETS:
        files, columns = SETS[name]
        for file in files:
            target = given.out / name / file
            if target.is_file():
                continue
            text = (given.data / name / file).read_text(encoding="utf-8")
            split = split_records if target.suffix == ".json" else split_table
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(target) as partial:
                found = split(text, columns, get_tokenizer("korean"))
                partial.write_text(found, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
