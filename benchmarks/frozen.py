"""Compare the forward pass of a frozen model in a training loop with the same under `no_grad`.

    python benchmarks/frozen.py [--device cuda] [--sizes bundled original]

The weights of the biLM are frozen and the layer mixes are trained. Both modes are timed in turn in
the same run: `ELMo`, also with a carried state, and AllenNLP's `Elmo`. The time of a batch is the
minimum over all repeats; the table has the sum over the batches.
"""

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from embed import HERE, SIZES, random_model
from machine import describe
from timing import Step, time_in_turn

from elmo.compat.allennlp import Elmo, batch_to_ids
from elmo.embed.embedder import ELMo
from elmo.formats import bilm_hdf5


def allennlp_model(elmo: ELMo) -> Elmo:
    """Return an AllenNLP module with the weights of a model."""
    with tempfile.TemporaryDirectory() as folder:
        bilm_hdf5.write(elmo.to_pretrained(), Path(folder))
        return Elmo(Path(folder) / "options.json", Path(folder) / "weights.hdf5", 1, dropout=0.0)


def forward(call: Step, grad: bool) -> None:
    """Run a forward pass with or without gradients and wait until the device is done."""
    with torch.set_grad_enabled(grad):
        call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def compare(calls: Sequence[Step], repeats: int) -> tuple[float, float]:
    """Return the seconds of all calls under `no_grad` and in grad mode."""
    modes = {"no_grad": False, "grad mode": True}
    variants = {
        name: [partial(forward, call, grad) for call in calls] for name, grad in modes.items()
    }
    times = time_in_turn(variants, repeats)
    return times["no_grad"].minimum, times["grad mode"].minimum


def forward_calls(elmo: ELMo, batches: list[list[list[str]]]) -> dict[str, list[Step]]:
    """Return the forward passes of `ELMo`, with and without state, and of the AllenNLP class."""
    device = next(elmo.parameters()).device
    allennlp = allennlp_model(elmo).to(device)
    ids = [elmo.character_ids(batch) for batch in batches]
    allennlp_ids = [batch_to_ids(batch).to(device) for batch in batches]
    with torch.no_grad():
        states = [elmo(item).state for item in ids]
    return {
        "ELMo": [partial(elmo, item) for item in ids],
        "ELMo with state": [
            partial(elmo, item, state=state) for item, state in zip(ids, states, strict=True)
        ],
        "AllenNLP's Elmo": [partial(allennlp, item) for item in allennlp_ids],
    }


def main() -> None:
    """Print the times of both modes and their ratio for each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", help="Device.")
    parser.add_argument(
        "--sizes", nargs="+", default=["bundled"], choices=list(SIZES), help="Model sizes."
    )
    parser.add_argument("--repeats", type=int, default=20, help="Timed calls of each variant.")
    parser.add_argument("--batch", type=int, default=8, help="Sentences per batch.")
    args = parser.parse_args()
    sentences = [line.split() for line in (HERE / "sentences.txt").read_text().splitlines()]
    batches = [sentences[n : n + args.batch] for n in range(0, len(sentences), args.batch)]
    print(f"{describe()}; {args.device}; {len(sentences)} sentences")
    print("| size | call | no_grad, ms | grad mode, ms | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for size in args.sizes:
        elmo = random_model(SIZES[size]).to(args.device)
        for name, calls in forward_calls(elmo, batches).items():
            without, recorded = compare(calls, args.repeats)
            print(
                f"| {size} | {name} | {1000 * without:.1f} | {1000 * recorded:.1f} | "
                f"{recorded / without:.2f} |"
            )


if __name__ == "__main__":
    main()
