"""What storage costs: the vectors of a model beside those of its copy in fewer bytes.

    elmo convert my-elmo smaller --dtype int8
    python benchmarks/fidelity.py my-elmo smaller [--text sentences.txt]
    python benchmarks/fidelity.py smaller --again

Where only an int8 copy is left, `--again` estimates it: its matrices are moved at random by up to
half a step, as rounding moved them.

For each layer, and for their average, the cosine of a word's two vectors: its mean over all words,
and its worst.
"""

import argparse
import copy
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


def moved(elmo: ELMo) -> ELMo:
    """Give a copy whose matrices are moved by up to half a step of int8."""
    twin = copy.deepcopy(elmo)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in twin.network.parameters():
            if value.dim() > 1:
                step = value.flatten(1).abs().amax(dim=1).view(-1, *[1] * (value.dim() - 1)) / 127
                value += (torch.rand(value.shape, generator=generator) - 0.5) * step
    return twin


def main() -> None:
    """Print a row for each layer and one for the average."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("other", nargs="?")
    parser.add_argument("--again", action="store_true", help="estimate it by rounding once more")
    parser.add_argument("--text", default=str(HERE / "sentences.txt"), help="a sentence a line")
    given = parser.parse_args()
    lines = Path(given.text).read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines if line.strip()]
    if given.again == (given.other is not None):
        parser.error("name another model, or --again")
    first = ELMo.from_pretrained(given.model)
    second = moved(first) if given.again else ELMo.from_pretrained(given.other)
    model, other = (vectors_of(elmo, sentences) for elmo in (first, second))
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
