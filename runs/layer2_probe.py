"""Probe layer 1, layer 2 and their difference for parts of speech.

    python runs/layer2_probe.py MODEL --data ud-ewt

With a residual connection, layer 2 contains layer 1; the difference is the output of its own LSTM.
The linear probe of runs/probe.py is trained with three seeds; the table has the mean accuracy and
its standard deviation.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from linear_probe import fit, standardize
from pos_probe import TaggedSentence, TaggedText
from torch import Tensor

from elmo import ELMo
from elmo.tasks.core.label_scores import mean_and_deviation

SEEDS = range(3)
ROWS = ("layer 1", "layer 2", "layer 2 minus layer 1")


def features(elmo: ELMo, sentences: list[TaggedSentence]) -> Tensor:
    """Return the vectors of all words, (rows, words, dim), with one row per entry of `ROWS`."""
    vectors = elmo.encode([list(sentence.words) for sentence in sentences], layers="all")
    layers = torch.from_numpy(np.concatenate(vectors, axis=1))
    return torch.stack([layers[1], layers[2], layers[2] - layers[1]])


def main() -> None:
    """Print a row for each tag set and each type of vector."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="Model name or folder.")
    parser.add_argument(
        "--data", type=Path, required=True, help="Folder with train.conllu and test.conllu."
    )
    args = parser.parse_args()
    text = TaggedText.read(args.data)
    elmo = ELMo.from_pretrained(args.model)
    train, test = (features(elmo, list(part)) for part in (text.train, text.test))
    standardize(train, test)
    print("| tags | vectors | accuracy |\n| --- | --- | --- |")
    for tags in ("xpos", "upos"):
        train_tags, test_tags = (
            [t for s in part for t in getattr(s, tags)] for part in (text.train, text.test)
        )
        numbers = {tag: number for number, tag in enumerate(sorted(set(train_tags)))}
        targets = torch.tensor([numbers[tag] for tag in train_tags])
        # A tag that is not in the training set counts as wrong.
        test_targets = torch.tensor([numbers.get(tag, -1) for tag in test_tags])
        for row, title in enumerate(ROWS):
            layer = slice(row, row + 1)
            probes = [fit(train[layer], targets, len(numbers), seed=seed) for seed in SEEDS]
            accuracies = [100 * probe.accuracy(test[layer], test_targets) for probe in probes]
            spread = mean_and_deviation(accuracies)
            print(f"| {tags} | {title} | {spread.mean:.2f} ± {spread.deviation:.2f} |", flush=True)


if __name__ == "__main__":
    main()
