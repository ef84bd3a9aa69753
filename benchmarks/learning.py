"""Compare the perplexity of training in float32 with the reference kernels and in bfloat16.

    python benchmarks/learning.py --data wikitext-2-corpus [--steps 1000] [--seeds 0 1 2]

A preset is trained from scratch. For each seed, both variants start from the same weights and read
the sentences in the same order. The table has the held-out perplexity under the full softmax after
the last step.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from machine import describe

from elmo.config import PretrainConfig
from elmo.config.serialization import load_config, presets
from elmo.train import pretrain

VARIANTS = {
    "reference": {"kernel": "reference", "precision": "float32"},
    "fast": {"kernel": "auto", "precision": "bfloat16"},
}


def perplexity(args: argparse.Namespace, seed: int, variant: str) -> float:
    """Train a variant, and return the mean held-out perplexity of both directions."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "data": (args.data,),
            "out": str(Path(folder) / "run"),
            "seed": seed,
            "max_steps": args.steps,
            "evaluate_every": args.steps,
            "checkpoint_every": args.steps,
            "batch_size": args.batch,
            "accelerator": args.accelerator,
            **VARIANTS[variant],
        }
        config: PretrainConfig = load_config(PretrainConfig, args.preset, options, presets())
        best = pretrain(config).best
        assert best is not None
        return best.mean


def main() -> None:
    """Print a table of both perplexities for each seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="Corpus written by `elmo prepare`.")
    parser.add_argument("--preset", default="small", help="Preset of `elmo pretrain`.")
    parser.add_argument("--steps", type=int, default=1000, help="Training steps.")
    parser.add_argument("--batch", type=int, default=128, help="Batch size.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="Seeds.")
    parser.add_argument("--accelerator", default="auto", help="Accelerator: auto, cpu or cuda.")
    args = parser.parse_args()
    print(f"{describe()}; {args.preset}, {args.batch} streams, {args.steps} steps")
    print("| seed | reference, float32 | fast, bfloat16 | ratio |")
    print("| --- | --- | --- | --- |")
    columns: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for seed in args.seeds:
        for variant, perplexities in columns.items():
            perplexities.append(perplexity(args, seed, variant))
        reference, fast = (perplexities[-1] for perplexities in columns.values())
        print(f"| {seed} | {reference:.2f} | {fast:.2f} | {fast / reference:.4f} |", flush=True)
    reference, fast = (statistics.mean(perplexities) for perplexities in columns.values())
    print(f"| mean | {reference:.2f} | {fast:.2f} | {fast / reference:.4f} |")


if __name__ == "__main__":
    main()
