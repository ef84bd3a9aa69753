"""Compare Korean models on KLUE-YNAT (topics of news titles) with a linear classifier.

    python runs/ynat.py MODEL... --data klue-ynat

The features of a title are the mean and the maximum of its word vectors, averaged over layers. The
classifier is trained on train.tsv and scored on dev.tsv. The scores are for model selection and are
not reported as results. Titles split by runs/split_korean.py need `--tokenizer whitespace`.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from linear_probe import fit, standardize
from probe import random_twin
from torch import Tensor

from elmo import ELMo
from elmo.text.tokenizer import Tokenizer
from elmo.text.tokenizers_by_name import get_tokenizer


def read(path: Path) -> tuple[list[str], list[str]]:
    """Return titles and labels of a file."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["title"] for row in rows], [row["label"] for row in rows]


def features(elmo: ELMo, titles: list[str], tokenizer: Tokenizer, device: str | None) -> Tensor:
    """Return mean and maximum of the vectors of each title, (1, titles, 2 * dim)."""
    words = [tokenizer.words(title) for title in titles]
    vectors = elmo.encode(words, device=device, show_progress_bar=True)
    pooled = [np.concatenate([item.mean(axis=0), item.max(axis=0)]) for item in vectors]
    return torch.from_numpy(np.stack(pooled)).unsqueeze(0)


def macro_f1(predictions: Tensor, targets: Tensor, n_labels: int) -> float:
    """Return the mean F1 over labels."""
    scores = []
    for label in range(n_labels):
        hits = ((predictions == label) & (targets == label)).sum()
        scores.append(float(2 * hits / ((predictions == label).sum() + (targets == label).sum())))
    return sum(scores) / n_labels


def main() -> None:
    """Print one row per model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+", help="Model names or folders.")
    parser.add_argument(
        "--data", type=Path, required=True, help="Folder with train.tsv and dev.tsv."
    )
    parser.add_argument("--device", help="Device, such as cpu or cuda.")
    parser.add_argument("--tokenizer", help="Tokenizer. Default: that of the model.")
    parser.add_argument(
        "--random", action="store_true", help="Also evaluate the first model with random weights."
    )
    args = parser.parse_args()
    (titles, labels), (dev_titles, dev_labels) = (
        read(args.data / f"{part}.tsv") for part in ("train", "dev")
    )
    names = sorted(set(labels))
    targets, dev_targets = (
        torch.tensor([names.index(label) for label in part]) for part in (labels, dev_labels)
    )
    print("| model | accuracy | macro F1 |\n| --- | --- | --- |")
    models = {name: ELMo.from_pretrained(name) for name in args.models}
    if args.random:
        models["random weights"] = random_twin(models[args.models[0]])
    for name, elmo in models.items():
        tokenizer = get_tokenizer(args.tokenizer) if args.tokenizer else elmo.tokenizer
        train = features(elmo, titles, tokenizer, args.device)
        dev = features(elmo, dev_titles, tokenizer, args.device)
        standardize(train, dev)
        probe = fit(train, targets, len(names))
        predictions = probe(dev).argmax(dim=-1)
        accuracy = float((predictions == dev_targets).float().mean())
        f1 = macro_f1(predictions, dev_targets, len(names))
        print(f"| {name} | {accuracy:.4f} | {f1:.4f} |")


if __name__ == "__main__":
    main()
