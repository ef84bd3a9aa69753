"""Embedding on the CPU against the older programs' loop, in one run.

Run it with `python benchmarks/embed.py`.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from machine import describe
from older_loop import older_layers

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig
from elmo.embed.embedder import ELMo
from elmo.formats.pretrained import Pretrained
from elmo.model.initialise import initialise
from elmo.model.network import ELMoNetwork

HERE = Path(__file__).parent
SIZES = {
    "small": ModelConfig(
        encoder=EncoderConfig(n_highway=1), lstm=LSTMConfig(cell_dim=1024, projection_dim=128)
    ),
    "original": ModelConfig(),
}


def model_of(config: ModelConfig) -> ELMo:
    """Give a model of a published geometry with random weights."""
    network = ELMoNetwork(config=config)
    initialise(network, seed=0)
    return ELMo(Pretrained(config, network.state_dict(), "random weights"))


def times_of(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Time ways in turn, so that a noisy machine is noisy to all of them; medians in seconds."""
    for way in ways.values():
        way()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print words per second and the ratio for each size, a batch and a single sentence."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    lines = (HERE / "sentences.txt").read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in lines]
    print(describe())
    print("| size | sentences | words | older loop, words/s | ours, words/s | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in arguments.sizes:
        elmo = model_of(SIZES[size])
        for batch in (sentences[:32], [sentences[0][:10]]):
            ids = elmo.character_ids(batch)
            older = older_layers(elmo.network, ids)[:, :, 1:]
            for row, found in enumerate(elmo.encode(batch, layers="all")):
                error = (older[:, row, : found.shape[1]] - torch.from_numpy(found)).abs().max()
                assert error < 1e-4, f"the two do not compute the same: {error}"
            seconds = times_of(
                {
                    "older": lambda ids=ids, elmo=elmo: older_layers(elmo.network, ids),
                    "ours": lambda batch=batch, elmo=elmo: elmo.encode(batch, layers="all"),
                },
                arguments.repeats,
            )
            n_words = sum(map(len, batch))
            print(
                f"| {size} | {len(batch)} | {n_words} | {n_words / seconds['older']:,.0f} | "
                f"{n_words / seconds['ours']:,.0f} | {seconds['older'] / seconds['ours']:.2f} |"
            )


if __name__ == "__main__":
    main()
