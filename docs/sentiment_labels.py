"""Write sentences and labels for `elmo find-units` from trees of the Stanford Sentiment Treebank.

The last word of a positive sentence has the label 1, that of a negative one 0, and no other word
has a label. Neutral sentences are left out. The sentences are shuffled, because the files of the
treebank are sorted, and units are chosen on one half of the text and scored on the other.

python docs/sentiment_labels.py sst/test.txt sentences.txt labels.txt
"""

import argparse
import random
from pathlib import Path

from elmo.tasks.classification.sentiment_trees import read_sst2

SEED = 1


def write_sentences_and_labels(trees: Path, sentences: Path, labels: Path) -> None:
    """Write one sentence and its labels per line."""
    examples = read_sst2(trees)
    random.Random(SEED).shuffle(examples)
    texts, numbers = [], []
    for example in examples:
        texts.append(" ".join(example.words))
        label = "1" if example.target == "positive" else "0"
        numbers.append(" ".join(["-"] * (len(example.words) - 1) + [label]))
    sentences.write_text("\n".join(texts) + "\n", encoding="utf-8")
    labels.write_text("\n".join(numbers) + "\n", encoding="utf-8")


def main() -> None:
    """Read the paths from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("trees", "sentences", "labels"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    write_sentences_and_labels(options.trees, options.sentences, options.labels)


if __name__ == "__main__":
    main()
