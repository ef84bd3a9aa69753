"""Measure the loss of precision by smaller storage types or by reduced compute precision.

    elmo convert my-elmo smaller --storage int8
    python benchmarks/fidelity.py my-elmo smaller [--text sentences.txt]
    python benchmarks/fidelity.py my-elmo --precision int8

Prints the mean and the minimum over all words of the cosine between the two vectors of a word, for
each layer and for the average of the layers.
"""

import argparse
from pathlib import Path

import torch
from machine import describe
from torch import Tensor
from torch.nn.functional import cosine_similarity

from elmo.embed.embedder import ELMo

HERE = Path(__file__).parent


def word_vectors(elmo: ELMo, sentences: list[list[str]], precision: str) -> Tensor:
    """Return the vectors of all words in every layer, (layers, words, dim)."""
    vectors = elmo.encode(sentences, layers="all", precision=precision, convert_to_tensor=True)
    return torch.cat(vectors, dim=1).double()


def main() -> None:
    """Print a row for each layer and one for the average."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="Model name or folder.")
    parser.add_argument("other", nargs="?", help="Model to compare with.")
    parser.add_argument("--precision", help="Compare the model in this precision with float32.")
    parser.add_argument(
        "--text",
        default=str(HERE / "sentences.txt"),
        help="Text with one sentence per line. Default: sentences.txt next to this file.",
    )
    args = parser.parse_args()
    lines = Path(args.text).read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines if line.strip()]
    if (args.precision is None) == (args.other is None):
        parser.error("Pass either another model or --precision.")
    elmo = ELMo.from_pretrained(args.model)
    model = word_vectors(elmo, sentences, "float32")
    twin = ELMo.from_pretrained(args.other) if args.other else elmo
    other = word_vectors(twin, sentences, args.precision or "float32")
    if model.shape != other.shape:
        parser.error(
            f"The models have vectors of different shapes: {tuple(model.shape)} and "
            f"{tuple(other.shape)}."
        )
    print(f"{describe()}; {len(sentences):,} sentences, {model.shape[1]:,} words")
    print("| layer | cosine (mean) | cosine (minimum) |\n| --- | --- | --- |")
    names = [*range(len(model)), "average"]
    pairs = [*zip(model, other, strict=True), (model.mean(dim=0), other.mean(dim=0))]
    for name, (first, second) in zip(names, pairs, strict=True):
        cosines = cosine_similarity(first, second, dim=-1)
        print(f"| {name} | {cosines.mean():.6f} | {cosines.min():.6f} |")


if __name__ == "__main__":
    main()
