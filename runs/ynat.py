"""How good a Korean model is for topics of news titles, with the plainest head there is.

    python runs/ynat.py MODEL... --data klue-ynat

Mean and maximum of a title's vectors, all layers averaged, under one linear map; trained on
train.tsv, measured on dev.tsv of KLUE-YNAT. Models are chosen by it, so it is no result. Titles
that runs/split_korean.py has split are read with `--tokenizer whitespace`.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from probe import random_twin
from torch import Tensor

from elmo import ELMo
from elmo.evaluate.linear_probe import fit, standardize
from elmo.text.tokenizer import Tokenizer, get_tokenizer


def read(path: Path) -> tuple[list[str], list[str]]:
    """Give titles and labels."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["title"] for row in rows], [row["label"] for row in rows]


def features(elmo: ELMo, titles: list[str], tokenizer: Tokenizer, device: str | None) -> Tensor:
    """Give mean and maximum of the vectors of each title, (1, titles, 2 * dim)."""
    words = [tokenizer.words(title) for title in titles]
    found = elmo.encode(words, device=device, show_progress_bar=True)
    pooled = [np.concatenate([item.mean(axis=0), item.max(axis=0)]) for item in found]
    return torch.from_numpy(np.stack(pooled)).unsqueeze(0)


def macro_f1(found: Tensor, right: Tensor, n_labels: int) -> float:
    """Give the mean over labels of the F1 of each."""
    scores = []
    for label in range(n_labels):
        hits = ((found == label) & (right == label)).sum()
        scores.append(float(2 * hits / ((found == label).sum() + (right == label).sum())))
    return sum(scores) / n_labels


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--tokenizer", help="in place of the model's own")
    parser.add_argument("--random", action="store_true", help="the first model untrained, too")
    given = parser.parse_args()
    (titles, labels), (new_titles, new_labels) = (
        read(given.data / f"{part}.tsv") for part in ("train", "dev")
    )
    names = sorted(set(labels))
    targets, answers = (
        torch.tensor([names.index(label) for label in part]) for part in (labels, new_labels)
    )
    print("| model | accuracy | macro F1 |\n| --- | --- | --- |")
    models = {name: ELMo.from_pretrained(name) for name in given.models}
    if given.random:
        models["random weights"] = random_twin(models[given.models[0]])
    for name, elmo in models.items():
        tokenizer = get_tokenizer(given.tokenizer) if given.tokenizer else elmo.tokenizer
        train = features(elmo, titles, tokenizer, given.device)
        dev = features(elmo, new_titles, tokenizer, given.device)
        standardize(train, dev)
        probe = fit(train, targets, len(names))
        found = probe(dev).argmax(dim=-1)
        accuracy = float((found == answers).float().mean())
        print(f"| {name} | {accuracy:.4f} | {macro_f1(found, answers, len(names)):.4f} |")


if __name__ == "__main__":
    main()
