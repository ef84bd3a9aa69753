"""Print how well pooled word vectors predict the similarity of sentences.

    python runs/sentence_similarity.py SICK_test_annotated.txt
    python runs/sentence_similarity.py klue-sts-v1.1_dev.json --model small-ko

Reads SICK (tab-separated) or KLUE-STS (JSON). Prints Spearman's rank correlation between the
human scores and the cosine of the two mean-pooled sentence vectors for each selection of layers,
and the correlation of the share of common words, which needs no model. Nothing is trained or tuned.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from elmo import ELMo

LAYERS = ("average", 0, 1, "top")


def main() -> None:
    """Print a table of correlations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="SICK or KLUE-STS file.")
    parser.add_argument("--model", default="small-en", help="Model, as for elmo embed.")
    args = parser.parse_args()
    first, second, scores = read(args.data)
    elmo = ELMo.from_pretrained(args.model)
    print(f"{len(scores):,} pairs of {args.data.name}, {args.model}, Spearman x 100")
    print(f"common words: {100 * spearman(common_words(elmo, first, second), scores):.1f}")
    for layers in LAYERS:
        vectors = [elmo.encode(texts, layers=layers, pooling="mean") for texts in (first, second)]
        print(f"layers={layers}: {100 * spearman(cosines(*vectors), scores):.1f}")


def read(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    """Return the first sentences, the second sentences and the human scores of a data set."""
    if path.suffix == ".json":
        pairs = json.loads(path.read_text(encoding="utf-8"))
        rows = [(row["sentence1"], row["sentence2"], row["labels"]["real-label"]) for row in pairs]
    else:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            rows = [
                (row["sentence_A"], row["sentence_B"], float(row["relatedness_score"]))
                for row in table
            ]
    first, second, scores = zip(*rows, strict=True)
    return list(first), list(second), np.array(scores)


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the cosine of each pair of rows."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / norms


def common_words(elmo: ELMo, first: list[str], second: list[str]) -> np.ndarray:
    """Return the number of common words divided by the number of all words of each pair."""
    words = [
        [{token.text.lower() for token in elmo.tokenize(text)} for text in texts]
        for texts in (first, second)
    ]
    return np.array([len(one & two) / len(one | two) for one, two in zip(*words, strict=True)])


def spearman(values: np.ndarray, scores: np.ndarray) -> float:
    """Return Spearman's rank correlation; equal values share their mean rank."""
    return float(np.corrcoef(ranks(values), ranks(scores))[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value, from 0; equal values get the mean of their ranks."""
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + last - 1) / 2)[groups]


if __name__ == "__main__":
    main()
