"""Layer 0 of a model as static word vectors: what it knows of words without any context.

    python runs/layer0.py MODEL TASK FILE... > vectors.txt

Writes a vector for each word of the example files of TASK (a preset of `elmo task fit`), as GloVe
does: `elmo task fit TASK --model none --static vectors.txt` is then a baseline that has read as
much text as the model has. Name all parts, the test part too: of it words are taken, not answers,
as any file of static vectors would have them.
"""

import argparse
import sys
from functools import cache

from elmo import ELMo
from elmo.config import TaskConfig
from elmo.plain import load_config, presets
from elmo.tasks.data import read_examples
from elmo.text.tokenizer import get_tokenizer


def main() -> None:
    """Write the vectors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("task")
    parser.add_argument("files", nargs="+")
    parser.add_argument(
        "--tokenizer", help="splits raw text; that of the model where none is named"
    )
    given = parser.parse_args()
    elmo = ELMo.from_pretrained(given.model)
    config = load_config(TaskConfig, given.task, {"out": "unused"}, presets("tasks")).examples
    # Asked for when a raw text comes: split words need no tokeniser, nor its package.
    tokenizer = cache(lambda: get_tokenizer(given.tokenizer) if given.tokenizer else elmo.tokenizer)
    words = sorted(
        {
            word
            for path in given.files
            for one in read_examples(config, path, lambda text: tokenizer().words(text))
            for word in one.words
        }
    )
    for word, vectors in zip(words, elmo.encode([[w] for w in words], layers=0), strict=True):
        sys.stdout.write(word + " " + " ".join(f"{value:.4f}" for value in vectors[0]) + "\n")


if __name__ == "__main__":
    main()
