"""Write layer 0 of a model as static word vectors.

    python runs/static_vectors.py MODEL TASK FILE... > vectors.bin

Writes one vector for each word in the example files of TASK (a preset of `elmo task fit`), in the
binary format of word2vec. A task model with these vectors and without ELMo (`elmo task fit TASK
--model none --word-vectors vectors.bin`) is a baseline that has seen as much text as the ELMo
model, but uses no context.

List the files of all parts, including the test set: only their words are used, not their labels,
so the vectors cover them like any large file of static vectors would. For coreference models that
are evaluated on GAP, add --gap.
"""

import argparse
import sys
from dataclasses import replace

from elmo import ELMo
from elmo.config.serialization import load_config, presets
from elmo.tasks.fitted.build import splitter
from elmo.tasks.reading.load_examples import read_examples
from elmo.tasks.registry.task_config import TaskConfig


def main() -> None:
    """Write the vectors to standard output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="Model name or folder.")
    parser.add_argument("task", help="Preset of `elmo task fit`.")
    parser.add_argument("files", nargs="+", help="Example files of the task.")
    parser.add_argument(
        "--tokenizer",
        help="Tokenizer for raw text. Default: that of the task's preset, else that of the model.",
    )
    parser.add_argument("--gap", help="GAP file whose words are added.")
    args = parser.parse_args()
    elmo = ELMo.from_pretrained(args.model)
    options = {"tokenizer": args.tokenizer} if args.tokenizer else {}
    config = load_config(TaskConfig, args.task, {"out": "unused", **options}, presets("tasks"))
    split = splitter(config, elmo)
    examples = [
        example
        for path in args.files
        for example in read_examples(config.examples, path, split, task=config.task)
    ]
    if args.gap is not None:
        examples += read_examples(replace(config.examples, reader="gap"), args.gap, split)
    words = sorted({word for example in examples for text in example.texts for word in text})
    # The word2vec format ends a word with a space.
    words = [word for word in words if " " not in word]
    out = sys.stdout.buffer
    out.write(f"{len(words)} {elmo.config.dim}\n".encode())
    for word, vectors in zip(words, elmo.encode([[w] for w in words], layers=0), strict=True):
        out.write(word.encode() + b" " + vectors[0].astype("<f4").tobytes())


if __name__ == "__main__":
    main()
