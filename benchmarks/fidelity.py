"""What fewer bits cost: in storage, or in the arithmetic of one model.

    elmo convert my-elmo smaller --dtype int8
    python benchmarks/fidelity.py my-elmo smaller [--text sentences.txt]
    python benchmarks/fidelity.py my-elmo --precision int8

For each layer, and for their average, the cosine of a word's two vectors: its mean over all words,
and its worst.
"""

import argparse
from pathlib import Path

import torch
from machine import describe
from torch import Tensor
from torch.nn.functional import cosine_similarity

from elmo.embed.embedder import ELMo

HERE = Path(__file__).parent


def vectors_of(elmo: ELMo, sentences: list[list[str]], precision: str) -> Tensor:
    """Give the vectors of all words in every layer, (layers, words, dim)."""
    found = elmo.encode(sentences, layers="all", precision=precision, convert_to_tensor=True)
    return torch.cat(found, dim=1).double()


def main() -> None:
    """Print a row for each layer and one for the average."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("other", nargs="?")
    parser.add_argument("--precision", help="the same model in this arithmetic")
    parser.add_argument("--text", default=str(HERE / "sentences.txt"), help="a sentence a line")
    given = parser.parse_args()
    lines = Path(given.text).read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines if line.strip()]
    if (given.precision is None) == (given.other is None):
        parser.error("name another model, or --precision")
    elmo = ELMo.from_pretrained(given.model)
    model = vectors_of(elmo, sentences, "float32")
    twin = ELMo.from_pretrained(given.other) if given.other else elmo
    other = vectors_of(twin, sentences, given.precision or "float32")
    if model.shape != other.shape:
        parser.error(f"vectors of shape {tuple(model.shape)} and {tuple(other.shape)}: two models")
    print(f"{describe()}; {len(sentences):,} sentences, {model.shape[1]:,} words")
    print("| layer | cosine (mean) | cosine (worst) |\n| --- | --- | --- |")
    names = [*range(len(model)), "average"]
    pairs = [*zip(model, other, strict=True), (model.mean(dim=0), other.mean(dim=0))]
    for name, (one, two) in zip(names, pairs, strict=True):
        cosines = cosine_similarity(one, two, dim=-1)
        print(f"| {name} | {cosines.mean():.6f} | {cosines.min():.6f} |")


if __name__ == "__main__":
    main()
