"""Where training goes wrong: the same steps in several ways, to the first that is no number.

Run it with `python benchmarks/divergence.py --config ptb --data ptb --steps 200`. Each way is one
change away from what `elmo pretrain` does: one that stays well names what made the others ill.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import yaml
from machine import describe
from torch import Tensor

from elmo.config import PretrainConfig
from elmo.corpus.shards import Corpus
from elmo.corpus.streams import Stream
from elmo.model import losses
from elmo.plain import load_config, presets
from elmo.train import learner as learner_module
from elmo.train.data import opened_corpus
from elmo.train.devices import make_fabric
from elmo.train.learner import Learner
from elmo.train.pretrain_model import new_job


@contextmanager
def not_recorded() -> Iterator[None]:
    """Launch every kernel of a step by itself."""
    with patch.object(learner_module, "can_record", lambda fabric, config: False):
        yield


@contextmanager
def anomalies() -> Iterator[None]:
    """Stop at the first function whose gradient is no number, and warn where it was called."""
    with not_recorded(), torch.autograd.set_detect_anomaly(True):
        yield


@contextmanager
def poisoned() -> Iterator[None]:
    """Fill memory that nobody wrote to with what is no number."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def no_fillers() -> Iterator[None]:
    """Leave the rows of the softmax as many as they are."""
    with patch.object(losses, "with_fillers", lambda weight, bias: (weight, bias)):
        yield


def plain_characters(learner: Learner) -> None:
    """Convolve with the library alone."""
    learner.network.bilm.encoder.use_kernel("reference")


def as_it_is(learner: Learner) -> None:
    """Change nothing."""


# Name, settings, what surrounds the making of the learner, what is done to it.
WAYS: dict[str, tuple[dict[str, Any], Any, Callable[[Learner], None]]] = {
    "as it is": ({}, ExitStack, as_it_is),
    "not recorded": ({}, not_recorded, as_it_is),
    "anomalies": ({}, anomalies, as_it_is),
    "poisoned": ({}, poisoned, as_it_is),
    "plain characters": ({}, ExitStack, plain_characters),
    "no fillers": ({}, no_fillers, as_it_is),
    "cudnn": ({"kernel": "cudnn"}, ExitStack, as_it_is),
    "adagrad": (
        {"optimizer": "adagrad", "learning_rate": 0.1, "weight_decay": 0.0},
        ExitStack,
        as_it_is,
    ),
    "reference": ({"kernel": "reference"}, ExitStack, as_it_is),
    "float32": ({"precision": "32-true"}, ExitStack, as_it_is),
}


def watched(learner: Learner) -> dict[str, Tensor]:
    """Keep the norm of every gradient of the last step, also of one that is recorded."""
    kept: dict[str, Tensor] = {}

    def clip() -> Tensor:
        for name, value in learner.model.named_parameters():
            if value.grad is not None:
                place = kept.setdefault(name, torch.zeros((), device=value.device))
                place.copy_(torch.linalg.vector_norm(value.grad.float()))
        return Learner._clip(learner)

    learner._clip = clip  # type: ignore[method-assign]
    return kept


def follow(config: PretrainConfig, corpus: Corpus, way: str, n_steps: int, wait: int) -> str:
    """Train some steps in a way, looking at every so many; gives a line of the table."""
    _, surroundings, change = WAYS[way]
    with surroundings():
        job = new_job(config, corpus)
        learner = Learner(make_fabric(config.run), job.network, config, job.tables, n_steps=10**5)
        change(learner)
        norms = watched(learner)
        lanes = range(config.stream.batch_size)
        stream = Stream(corpus.splits["train"], config.stream, seed=config.run.seed, own=lanes)
        largest = 0.0
        for number, window in zip(range(n_steps), stream, strict=False):
            batches = learner.batches(window)
            result = learner.step(batches, number, learner.draw(batches, number))
            if number % wait and number < n_steps - 1:
                continue
            norm, loss = float(result.norm), float(result.losses.mean())
            cells = float(learner.c.abs().max())
            if not (torch.isfinite(result.norm) and torch.isfinite(result.losses).all()):
                bad = [name for name, value in norms.items() if not torch.isfinite(value)]
                told = f"{len(bad)} of {len(norms)} gradients: {', '.join(bad[:6])}"
                return (
                    f"| {way} | step {number} | {loss:.4g} | {largest:.4g} | {cells:.4g} | {told} |"
                )
            largest = max(largest, norm)
    return f"| {way} | none in {n_steps} | {loss:.4f} | {largest:.4g} | {cells:.4g} | |"


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="ptb")
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--look-every", type=int, default=1, help="looking waits for the device")
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--set", nargs="*", default=[], help="name=value of the config")
    given = parser.parse_args()
    print(describe())
    print("| way | first that is no number | loss | largest norm before | largest cell | where |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    settings = yaml.safe_load("\n".join(item.replace("=", ": ", 1) for item in given.set)) or {}
    for way in given.ways:
        values = {"data": [given.data], "out": str(Path("unused")), "precision": given.precision}
        own = {**values, **settings, **WAYS[way][0]}
        config = load_config(PretrainConfig, given.config, own, presets())
        with opened_corpus(config, config.corpus) as corpus:
            try:
                print(follow(config, corpus, way, given.steps, given.look_every), flush=True)
            except Exception as error:
                print(f"| {way} | {type(error).__name__}: {str(error)[:300]} |||||", flush=True)


if __name__ == "__main__":
    main()
