"""Layer 0 of a model as static word vectors: what it knows of words without any context.

    python runs/static_vectors.py MODEL TASK FILE... > vectors.bin

Writes a vector for each word of the example files of TASK (a preset of `elmo task fit`), in the
binary format of word2vec: `elmo task fit TASK --model none --word-vectors vectors.bin` is then a baseline
that has read as much text as the model has. Name all parts, the test part too: of it words are
taken, not answers, as any file of static vectors would have them. For models of coreference that
are asked about GAP, name its file too.
"""

import argparse
import sys
from dataclasses import replace

from elmo import ELMo
from elmo.config import TaskConfig
from elmo.config.serialization import load_config, presets
from elmo.tasks.build import splitter
from elmo.tasks.load_examples import read_examples


def main() -> None:
    """Write the vectors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("task")
    parser.add_argument("files", nargs="+")
    parser.add_argument(
        "--tokenizer",
        help="splits raw text; that of the task where none is named, or else that of the model",
    )
    parser.add_argument("--gap", help="snippets of GAP")
    given = parser.parse_args()
    elmo = ELMo.from_pretrained(given.model)
    named = {"tokenizer": given.tokenizer} if given.tokenizer else {}
    config = load_config(TaskConfig, given.task, {"out": "unused", **named}, presets("tasks"))
    split = splitter(config, elmo)
    examples = [one for path in given.files for one in read_examples(config.examples, path, split)]
    if given.gap is not None:
        examples += read_examples(replace(config.examples, reader="gap"), given.gap, split)
    words = sorted({word for one in examples for text in one.texts for word in text})
    # A space ends a word in such a file.
    words = [word for word in words if " " not in word]
    out = sys.stdout.buffer
    out.write(f"{len(words)} {elmo.config.dim}\n".encode())
    for word, vectors in zip(words, elmo.encode([[w] for w in words], layers=0), strict=True):
        out.write(word.encode() + b" " + vectors[0].astype("<f4").tobytes())


if __name__ == "__main__":
    main()
