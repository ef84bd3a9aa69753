"""Parts of speech in layer 1, in layer 2, and in what layer 2 adds to layer 1.

    python runs/layer2_probe.py MODEL --data ud-ewt

A layer with a residual connection holds the one below; its own LSTM's share is the difference. The
linear probe of runs/probe.py, trained with three orders of the words: mean and deviation.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo import ELMo
from elmo.evaluate.linear_probe import fit, standardize
from elmo.evaluate.parts_of_speech import TaggedSentence, TaggedText
from elmo.tasks.scores.label_scores import mean_and_deviation

SEEDS = range(3)
ROWS = ("layer 1", "layer 2", "layer 2 less layer 1")


def features(elmo: ELMo, sentences: list[TaggedSentence]) -> Tensor:
    """Give the vectors of all words, (rows, words, dim)."""
    found = elmo.encode([list(one.words) for one in sentences], layers="all")
    layers = torch.from_numpy(np.concatenate(found, axis=1))
    return torch.stack([layers[1], layers[2], layers[2] - layers[1]])


def main() -> None:
    """Print a row for each kind of vector."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    text = TaggedText.read(given.data)
    elmo = ELMo.from_pretrained(given.model)
    train, test = (features(elmo, list(part)) for part in (text.train, text.test))
    standardize(train, test)
    print("| tags | vectors | accuracy |\n| --- | --- | --- |")
    for tags in ("xpos", "upos"):
        answers, new = (
            [t for s in part for t in getattr(s, tags)] for part in (text.train, text.test)
        )
        names = {tag: number for number, tag in enumerate(sorted(set(answers)))}
        targets = torch.tensor([names[tag] for tag in answers])
        # A tag that was never met is never given.
        right = torch.tensor([names.get(tag, -1) for tag in new])
        for row, title in enumerate(ROWS):
            own = slice(row, row + 1)
            probes = [fit(train[own], targets, len(names), seed=seed) for seed in SEEDS]
            found = mean_and_deviation([100 * probe.accuracy(test[own], right) for probe in probes])
            print(f"| {tags} | {title} | {found.mean:.2f} ± {found.deviation:.2f} |", flush=True)


if __name__ == "__main__":
    main()
