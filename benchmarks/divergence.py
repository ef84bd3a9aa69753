"""Where training goes wrong: the same steps in several ways, to the first that is no number.

Run it with `python benchmarks/divergence.py --config ptb --data ptb --steps 200`. Each way is one
change away from what `elmo pretrain` does: one that stays well names what made the others ill.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import yaml
from machine import describe
from torch import Tensor, nn

from elmo.config import PretrainConfig
from elmo.config.serialization import load_config, presets
from elmo.corpus.bptt_segments import SegmentLoader
from elmo.corpus.shards import Corpus
from elmo.model import losses
from elmo.train import learner as learner_module
from elmo.train.devices import make_fabric
from elmo.train.learner import Learner
from elmo.train.pretrain_model import pretrain_job
from elmo.train.run_corpus import open_corpus


@contextmanager
def not_recorded() -> Iterator[None]:
    """Launch every kernel of a step by itself."""
    with patch.object(learner_module, "can_capture", lambda fabric, config: False):
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
def dirty() -> Iterator[None]:
    """Leave what is no number in all memory that a step will be given, whoever asks for it."""
    if torch.cuda.is_available():
        sizes = [2**32] + [2**18] * 2000
        filled = [torch.full((size,), math.nan, device="cuda") for size in sizes]
        del filled
    with not_recorded():
        yield


@contextmanager
def no_fillers() -> Iterator[None]:
    """Leave the rows of the softmax as many as they are."""
    with patch.object(losses, "pad_vocabulary", lambda weight, bias: (weight, bias)):
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
    "dirty": ({}, dirty, as_it_is),
    "plain characters": ({}, ExitStack, plain_characters),
    "no fillers": ({}, no_fillers, as_it_is),
    "cudnn": ({"kernel": "cudnn"}, ExitStack, as_it_is),
    "adagrad": (
        {"optimizer": "adagrad", "learning_rate": 0.1, "weight_decay": 0.0},
        ExitStack,
        as_it_is,
    ),
    "reference": ({"kernel": "reference"}, ExitStack, as_it_is),
    "float32": ({"precision": "float32"}, ExitStack, as_it_is),
}


NEVER = 10**9


class Watch:
    """When each tensor of a step first held what is no number; kept on the device, unwaited for."""

    def __init__(self, learner: Learner) -> None:
        """Look at what goes through a learner, in steps that are recorded too."""
        self.learner = learner
        self.first: dict[str, Tensor] = {}
        self.count = torch.zeros((), dtype=torch.int64, device=learner.fabric.device)
        self.mean_loss = learner.head.mean_loss
        learner.head.mean_loss = self._loss  # type: ignore[method-assign]
        learner._clip = self._clip  # type: ignore[method-assign]
        learner.network.bilm.encoder.register_forward_hook(self._tokens)
        learner.model.register_forward_hook(self._outputs)

    def __str__(self) -> str:
        """Give the first step that went wrong, and what was wrong in it in the order computed."""
        found = {name: int(step) for name, step in self.first.items()}
        step = min(found.values())
        names = [name for name, at in found.items() if at == step]
        return "" if step == NEVER else f"step {step}: {', '.join(names[:8])} ({len(names)} in all)"

    def note(self, name: str, value: Tensor) -> None:
        """Look at a tensor."""
        place = self.first.setdefault(name, torch.full_like(self.count, NEVER))
        is_well = torch.isfinite(value.detach()).all()
        place.copy_(torch.minimum(place, torch.where(is_well, NEVER, self.count)))

    def _tokens(self, module: nn.Module, given: Any, found: Tensor) -> None:
        self.note("tokens", found)
        if found.requires_grad:
            found.register_hook(lambda gradient: self.note("gradient of tokens", gradient))

    def _outputs(self, module: nn.Module, given: Any, found: tuple[Tensor, ...]) -> None:
        for name, value in zip(("vectors", "h", "c"), found, strict=True):
            self.note(name, value)
        if found[0].requires_grad:
            found[0].register_hook(lambda gradient: self.note("gradient of vectors", gradient))

    def _loss(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        loss = self.mean_loss(hidden, targets, side)
        self.note(f"loss {side}", loss)
        return loss

    def _clip(self) -> Tensor:
        for name, value in self.learner.network.named_parameters():
            self.note(f"weight {name}", value)
            if value.grad is not None:
                self.note(f"gradient of {name}", value.grad)
        self.count += 1
        return Learner._clip(self.learner)


def follow(config: PretrainConfig, corpus: Corpus, way: str, n_steps: int, wait: int) -> str:
    """Train some steps in a way, looking at every so many; gives a line of the table."""
    _, surroundings, change = WAYS[way]
    with surroundings():
        job = pretrain_job(config, corpus)
        learner = Learner(make_fabric(config.run), job.network, config, job.tables, n_steps=10**5)
        change(learner)
        watch = Watch(learner)
        streams = range(config.stream.batch_size)
        stream = SegmentLoader(
            corpus.splits["train"], config.stream, seed=config.run.seed, local_streams=streams
        )
        largest = 0.0
        for number, window in zip(range(n_steps), stream, strict=False):
            batches = learner.batches(window)
            result = learner.step(batches, number, learner.draw(batches, number))
            if number % wait and number < n_steps - 1:
                continue
            norm, loss = float(result.norm), float(result.losses.mean())
            cells = float(learner.c.abs().max())
            if not (math.isfinite(norm) and math.isfinite(loss)):
                break
            largest = max(largest, norm)
    return f"| {way} | {str(watch) or 'never'} | {loss:.4f} | {largest:.4g} | {cells:.4g} |"


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="ptb")
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--look-every", type=int, default=1, help="looking waits for the device")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--set", nargs="*", default=[], help="name=value of the config")
    given = parser.parse_args()
    print(describe())
    print("| way | first that is no number | loss | largest norm before | largest cell |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    settings = yaml.safe_load("\n".join(item.replace("=", ": ", 1) for item in given.set)) or {}
    for way in given.ways:
        values = {"data": [given.data], "out": str(Path("unused")), "precision": given.precision}
        own = {**values, **settings, **WAYS[way][0]}
        config = load_config(PretrainConfig, given.config, own, presets())
        with open_corpus(config, config.corpus) as corpus:
            try:
                print(follow(config, corpus, way, given.steps, given.look_every), flush=True)
            except Exception as error:
                print(f"| {way} | {type(error).__name__}: {str(error)[:300]} ||||", flush=True)


if __name__ == "__main__":
    main()
