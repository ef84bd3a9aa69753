"""Equal learning: the plain path in float32 and the fast one in bfloat16, same data, same seeds.

    python benchmarks/learning.py --data wikitext-2-corpus [--steps 1000] [--seeds 0 1 2]

A preset is trained from the beginning, each seed with the same first weights and the same order of
sentences in both ways; held-out perplexity under the full softmax after the last step.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from machine import describe

from elmo.config import PretrainConfig
from elmo.config.serialization import load_config, presets
from elmo.train import pretrain

WAYS = {
    "plain": {"kernel": "reference", "precision": "float32"},
    "fast": {"kernel": "auto", "precision": "bfloat16"},
}


def perplexity(given: argparse.Namespace, seed: int, way: str) -> float:
    """Train, and give the mean held-out perplexity of both directions."""
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            "data": (given.data,),
            "out": str(Path(folder) / "run"),
            "seed": seed,
            "max_steps": given.steps,
            "evaluate_every": given.steps,
            "checkpoint_every": given.steps,
            "batch_size": given.batch,
            "accelerator": given.accelerator,
            **WAYS[way],
        }
        config: PretrainConfig = load_config(PretrainConfig, given.preset, flags, presets())
        best = pretrain(config).best
        assert best is not None
        return best.mean


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--accelerator", default="auto")
    given = parser.parse_args()
    print(f"{describe()}; {given.preset}, {given.batch} lanes, {given.steps} steps")
    print("| seed | plain, float32 | fast, bfloat16 | ratio |")
    print("| --- | --- | --- | --- |")
    columns: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in given.seeds:
        for way, found in columns.items():
            found.append(perplexity(given, seed, way))
        plain, fast = (found[-1] for found in columns.values())
        print(f"| {seed} | {plain:.2f} | {fast:.2f} | {fast / plain:.4f} |", flush=True)
    plain, fast = (statistics.mean(found) for found in columns.values())
    print(f"| mean | {plain:.2f} | {fast:.2f} | {fast / plain:.4f} |")


if __name__ == "__main__":
    main()
