"""Locate the first NaN or infinity of a diverging training run.

    python benchmarks/divergence.py --config ptb --data ptb --steps 200

Runs the same training steps in several variants. Each variant differs from `elmo pretrain` in one
setting; if a variant does not diverge, that setting is the cause. The table has the first step with
a value that is not finite, and the tensors with such values in that step.
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
from elmo.kernels.torch_kernels import REFERENCE_KERNELS, Kernels
from elmo.model import losses
from elmo.train import learner as learner_module
from elmo.train.devices import make_fabric
from elmo.train.learner import Learner
from elmo.train.pretrain_model import pretrain_job
from elmo.train.run_corpus import open_corpus


@contextmanager
def without_cuda_graph() -> Iterator[None]:
    """Launch every kernel of a step separately."""
    with patch.object(learner_module, "can_capture", lambda fabric, config: False):
        yield


@contextmanager
def anomaly_detection() -> Iterator[None]:
    """Stop at the first function whose gradient is NaN, and print where it was called."""
    with without_cuda_graph(), torch.autograd.set_detect_anomaly(True):
        yield


@contextmanager
def nan_filled_memory() -> Iterator[None]:
    """Let PyTorch fill uninitialized tensors with NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def nan_in_free_memory() -> Iterator[None]:
    """Fill the allocator's free memory with NaN, so that reads of uninitialized memory show."""
    if torch.cuda.is_available():
        sizes = [2**32] + [2**18] * 2000
        tensors = [torch.full((size,), math.nan, device="cuda") for size in sizes]
        del tensors
    with without_cuda_graph():
        yield


@contextmanager
def unpadded_softmax() -> Iterator[None]:
    """Do not pad the rows of the softmax."""
    with patch.object(losses, "pad_vocabulary", lambda weight, bias: (weight, bias)):
        yield


class ReferenceCNN(Kernels):
    """Kernels with the reference implementation of the character CNN."""

    convolve_and_pool = REFERENCE_KERNELS.convolve_and_pool


def use_reference_cnn(learner: Learner) -> None:
    """Use the reference implementation of the character CNN."""
    learner.model.kernels = ReferenceCNN(learner.model.kernels.name)


def unchanged(learner: Learner) -> None:
    """Leave the learner unchanged."""


# By name: options, context in which the learner is created and trained, change of the learner.
VARIANTS: dict[str, tuple[dict[str, Any], Any, Callable[[Learner], None]]] = {
    "unchanged": ({}, ExitStack, unchanged),
    "without CUDA graph": ({}, without_cuda_graph, unchanged),
    "anomaly detection": ({}, anomaly_detection, unchanged),
    "NaN-filled memory": ({}, nan_filled_memory, unchanged),
    "NaN in free memory": ({}, nan_in_free_memory, unchanged),
    "reference CNN": ({}, ExitStack, use_reference_cnn),
    "unpadded softmax": ({}, unpadded_softmax, unchanged),
    "cudnn": ({"kernel": "cudnn"}, ExitStack, unchanged),
    "adagrad": (
        {"optimizer": "adagrad", "learning_rate": 0.1, "weight_decay": 0.0},
        ExitStack,
        unchanged,
    ),
    "reference": ({"kernel": "reference"}, ExitStack, unchanged),
    "float32": ({"precision": "float32"}, ExitStack, unchanged),
}


NEVER = 10**9


class FiniteMonitor:
    """Records the first step in which each tensor is not finite, without synchronizing the device.

    Attributes:
        learner: The monitored learner.
        first_steps: Number of the first such step by tensor name; `NEVER` if there is none.
        step: Number of the current step.
    """

    def __init__(self, learner: Learner) -> None:
        """Attach to a learner; steps captured in a CUDA graph are monitored, too."""
        self.learner = learner
        self.first_steps: dict[str, Tensor] = {}
        self.step = torch.zeros((), dtype=torch.int64, device=learner.fabric.device)
        self.mean_loss = learner.head.mean_loss
        learner.head.mean_loss = self._mean_loss  # type: ignore[method-assign]
        learner._clip = self._clip  # type: ignore[method-assign]
        learner.network.bilm.encoder.register_forward_hook(self._tokens_hook)
        learner.model.register_forward_hook(self._outputs_hook)

    def __str__(self) -> str:
        """Return the first step with a value that is not finite, and its first such tensors."""
        first_steps = {name: int(step) for name, step in self.first_steps.items()}
        step = min(first_steps.values())
        names = [name for name, first in first_steps.items() if first == step]
        return "" if step == NEVER else f"step {step}: {', '.join(names[:8])} ({len(names)} in all)"

    def check(self, name: str, value: Tensor) -> None:
        """Record the current step if a tensor is not finite for the first time."""
        first_step = self.first_steps.setdefault(name, torch.full_like(self.step, NEVER))
        is_finite = torch.isfinite(value.detach()).all()
        first_step.copy_(torch.minimum(first_step, torch.where(is_finite, NEVER, self.step)))

    def _tokens_hook(self, module: nn.Module, inputs: Any, tokens: Tensor) -> None:
        self.check("tokens", tokens)
        if tokens.requires_grad:
            tokens.register_hook(lambda gradient: self.check("gradient of tokens", gradient))

    def _outputs_hook(self, module: nn.Module, inputs: Any, outputs: tuple[Tensor, ...]) -> None:
        for name, value in zip(("vectors", "h", "c"), outputs, strict=True):
            self.check(name, value)
        if outputs[0].requires_grad:
            outputs[0].register_hook(lambda gradient: self.check("gradient of vectors", gradient))

    def _mean_loss(self, hidden: Tensor, targets: Tensor, side: int) -> Tensor:
        loss = self.mean_loss(hidden, targets, side)
        self.check(f"loss {side}", loss)
        return loss

    def _clip(self) -> Tensor:
        for name, value in self.learner.network.named_parameters():
            self.check(f"weight {name}", value)
            if value.grad is not None:
                self.check(f"gradient of {name}", value.grad)
        self.step += 1
        return Learner._clip(self.learner)


def run_variant(
    config: PretrainConfig, corpus: Corpus, variant: str, n_steps: int, check_every: int
) -> str:
    """Train a variant and return its row of the table.

    Args:
        config: Training config with the options of the variant.
        corpus: Prepared corpus.
        variant: Key of `VARIANTS`.
        n_steps: Number of steps.
        check_every: Steps between two checks whether the run has diverged, which wait for the
            device.
    """
    _, context, change = VARIANTS[variant]
    with context():
        job = pretrain_job(config, corpus)
        learner = Learner(make_fabric(config.run), job.network, config, job.tables, n_steps=10**5)
        change(learner)
        monitor = FiniteMonitor(learner)
        loader = SegmentLoader(
            corpus.splits["train"],
            config.stream,
            seed=config.run.seed,
            local_streams=range(config.stream.batch_size),
        )
        maximum_norm = 0.0
        for number, segment in zip(range(n_steps), loader, strict=False):
            batches = learner.batches(segment)
            result = learner.step(batches, number, learner.draw(batches, number))
            if number % check_every and number < n_steps - 1:
                continue
            norm, loss = float(result.norm), float(result.losses.mean())
            maximum_cell = float(learner.c.abs().max())
            if not (math.isfinite(norm) and math.isfinite(loss)):
                break
            maximum_norm = max(maximum_norm, norm)
    first = str(monitor) or "never"
    return f"| {variant} | {first} | {loss:.4f} | {maximum_norm:.4g} | {maximum_cell:.4g} |"


def main() -> None:
    """Print a row for each variant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="ptb", help="Preset or YAML file of `elmo pretrain`.")
    parser.add_argument("--data", required=True, help="Corpus written by `elmo prepare`.")
    parser.add_argument("--steps", type=int, default=200, help="Training steps per variant.")
    parser.add_argument(
        "--check-every",
        type=int,
        default=1,
        help="Steps between two checks, which wait for the device.",
    )
    parser.add_argument("--precision", default="bfloat16", help="Training precision.")
    parser.add_argument(
        "--variants",
        nargs="+",
        default=list(VARIANTS),
        choices=list(VARIANTS),
        help="Variants to run. Default: all.",
    )
    parser.add_argument("--set", nargs="*", default=[], help="Options of the config as name=value.")
    args = parser.parse_args()
    print(describe())
    print("| variant | first not finite | loss | maximum norm before | maximum cell |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    settings = yaml.safe_load("\n".join(item.replace("=", ": ", 1) for item in args.set)) or {}
    for variant in args.variants:
        values = {"data": [args.data], "out": str(Path("unused")), "precision": args.precision}
        options = {**values, **settings, **VARIANTS[variant][0]}
        config = load_config(PretrainConfig, args.config, options, presets())
        with open_corpus(config, config.corpus) as corpus:
            try:
                print(
                    run_variant(config, corpus, variant, args.steps, args.check_every), flush=True
                )
            except Exception as error:
                print(f"| {variant} | {type(error).__name__}: {str(error)[:300]} ||||", flush=True)


if __name__ == "__main__":
    main()
