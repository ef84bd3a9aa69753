"""What storage costs: the vectors of a model beside those of its copy in fewer bytes.

    elmo convert my-elmo smaller --dtype int8
    python benchmarks/fidelity.py my-elmo smaller [--text sentences.txt]

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


def vectors_of(elmo: ELMo, sentences: list[list[str]]) -> Tensor:
    """Give the vectors of all words in every layer, (layers, words, dim)."""
    return torch.cat(elmo.encode(sentences, layers="all", convert_to_tensor=True), dim=1).double()


def main() -> None:
    """Print a row for each layer and one for the average."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("other")
    parser.add_argument("--text", default=str(HERE / "sentences.txt"), help="a sentence a line")
    given = parser.parse_args()
    lines = Path(given.text).read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines if line.strip()]
    model, other = (
        vectors_of(ELMo.from_pretrained(source), sentences) for source in (given.model, given.other)
    )
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
