"""Write the training and development text of a task, without labels, to fine-tune ELMo on.

    python runs/task_text.py TASK OUT --train FILE [--dev FILE]

TASK is a preset of `elmo task fit`. Writes OUT/train.txt and OUT/dev.txt with spaces between words.
Without --dev, both are parts of the training set, split as `elmo task fit` splits it.
"""

import argparse
from pathlib import Path

from elmo.config.serialization import load_config, presets
from elmo.tasks.reading.load_examples import training_examples
from elmo.tasks.registry.task_config import TaskConfig


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", help="Preset of `elmo task fit`.")
    parser.add_argument("out", type=Path, help="Folder to write.")
    parser.add_argument("--train", required=True, help="Training set.")
    parser.add_argument("--dev", help="Development set. Default: a part of the training set.")
    args = parser.parse_args()
    # Only whole sentences of sentiment trees: their phrases would repeat the same text.
    options = {"out": "unused", "train": args.train, "dev": args.dev, "phrases": False}
    config = load_config(TaskConfig, args.task, options, presets("tasks"))
    args.out.mkdir(parents=True, exist_ok=True)
    parts = training_examples(config.examples, str.split, seed=0, task=config.task)
    for name, examples in zip(("train", "dev"), parts, strict=True):
        text = "".join(" ".join(example.words) + "\n" for example in examples)
        (args.out / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
