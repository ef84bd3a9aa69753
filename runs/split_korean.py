"""Split the texts of Korean task data sets into morphemes.

    python runs/split_korean.py DATA OUT [SET...]

DATA contains klue-ynat/, nsmc/ and klue-nli/; without SET, all of them are split. OUT receives the
same files with spaces between the morphemes of the texts, so that machines without the Korean
tokenizer can read them with `--tokenizer whitespace`. Existing files are kept, and if all exist, no
tokenizer is needed. Takes about six minutes on one core.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from elmo.files import atomic_path
from elmo.text.tokenizer import Tokenizer
from elmo.text.tokenizers_by_name import get_tokenizer

# Files of each data set, and the columns of their texts.
SETS = {
    "klue-ynat": (("train.tsv", "dev.tsv"), ("title",)),
    "nsmc": (("ratings_train.txt", "ratings_test.txt"), ("document",)),
    "klue-nli": (
        ("klue-nli-v1.1_train.json", "klue-nli-v1.1_dev.json"),
        ("premise", "hypothesis"),
    ),
}


def split_table(text: str, columns: Sequence[str], tokenizer: Tokenizer) -> str:
    """Return a tab-separated table with the texts of the given columns split."""
    header, *lines = text.removesuffix("\n").split("\n")
    names = header.rstrip("\r").split("\t")
    rows = [line.split("\t") for line in lines]
    for row in rows:
        for column in map(names.index, columns):
            row[column] = " ".join(tokenizer.words(row[column]))
    return "".join(line + "\n" for line in [header, *map("\t".join, rows)])


def split_records(text: str, columns: Sequence[str], tokenizer: Tokenizer) -> str:
    """Return a JSON list of records with the texts of the given fields split."""
    records = [
        record | {name: " ".join(tokenizer.words(record[name])) for name in columns}
        for record in json.loads(text)
    ]
    return json.dumps(records, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Split the files of the requested data sets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="Folder of the data sets.")
    parser.add_argument("out", type=Path, help="Folder to write.")
    parser.add_argument(
        "sets", nargs="*", metavar="SET", help=f"Any of {', '.join(SETS)}. Default: all."
    )
    args = parser.parse_args()
    for name in args.sets or SETS:
        files, columns = SETS[name]
        for file in files:
            target = args.out / name / file
            if target.is_file():
                continue
            text = (args.data / name / file).read_text(encoding="utf-8")
            split = split_records if target.suffix == ".json" else split_table
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(target) as partial:
                split_text = split(text, columns, get_tokenizer("korean"))
                partial.write_text(split_text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
