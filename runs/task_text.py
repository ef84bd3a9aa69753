"""The text that a task is trained on and chosen by, without its answers: to fine-tune an ELMo on.

    python runs/task_text.py TASK OUT --train FILE [--dev FILE]

TASK is a preset of `elmo task fit`. Writes OUT/train.txt and OUT/dev.txt, words between spaces;
where no development part is named, both come from the training part as `elmo task fit` cuts it.
"""

import argparse
from pathlib import Path

from elmo.config import TaskConfig
from elmo.config.serialization import load_config, presets
from elmo.tasks.load_examples import training_examples


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", required=True)
    parser.add_argument("--dev")
    given = parser.parse_args()
    # Whole sentences of trees alone: their phrases say the same again.
    wanted = {"out": "unused", "train": given.train, "dev": given.dev, "phrases": False}
    config = load_config(TaskConfig, given.task, wanted, presets("tasks"))
    given.out.mkdir(parents=True, exist_ok=True)
    parts = training_examples(config.examples, str.split, seed=0)
    for name, examples in zip(("train", "dev"), parts, strict=True):
        text = "".join(" ".join(one.words) + "\n" for one in examples)
        (given.out / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
