"""A training run killed with -9 and started again, beside one that nobody disturbed: same losses?

    elmo prepare text.txt --out corpus
    python benchmarks/resume.py --data corpus [--preset small] [--steps 400] [--batch 128]

The run is killed after half of its steps, once a checkpoint is there, and the same command goes on
from it. What both logged from there on is compared.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe

POLL_SECONDS = 0.05


def command(given: argparse.Namespace, out: Path) -> list[str]:
    """Give the command line of a run."""
    flags = {
        "config": given.preset,
        "data": given.data,
        "out": out,
        "batch-size": given.batch,
        "max-steps": given.steps,
        "checkpoint-every": given.steps // 8,
        "log-every": given.steps // 8,
        "accelerator": given.accelerator,
        "precision": given.precision,
    }
    words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
    return [sys.executable, "-m", "elmo", "pretrain", *words]


def losses(out: Path, since: float = 0.0) -> dict[int, float]:
    """Give the losses of a run's log by step, of those that were logged from a time on."""
    path = out / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return {
        row["step"]: row["loss"] for row in rows if row["kind"] == "step" and row["time"] >= since
    }


def run(given: argparse.Namespace, out: Path, kill_at: int | None = None) -> None:
    """Run to the end, or until a step is logged and then not a moment longer."""
    with (out.parent / f"{out.name}.txt").open("ab") as told:
        process = subprocess.Popen(command(given, out), stdout=told, stderr=told)
        while kill_at is not None and process.poll() is None:
            if max(losses(out), default=0) >= kill_at:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(POLL_SECONDS)
        status = process.wait()
    if status != (0 if kill_at is None else -signal.SIGKILL):
        raise SystemExit(f"ended with {status}:\n{(out.parent / f'{out.name}.txt').read_text()}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--precision", default="bfloat16")
    given = parser.parse_args()
    if given.steps < 8:
        raise SystemExit("--steps must be at least 8: a checkpoint comes after each eighth")
    print(f"{describe()}; {given.preset}, {given.batch} lanes, {given.precision}")
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        run(given, whole)
        run(given, killed, kill_at=given.steps // 2)
        reached, again = max(losses(killed)), time.time()
        run(given, killed)
        expected, found = losses(whole), losses(killed, since=again)
    print(
        f"killed at step {reached} or soon after; the first line after the restart: {min(found)}\n"
    )
    if min(found) <= given.steps // 8:
        raise SystemExit("it began again, and did not go on from a checkpoint")
    print("| step | undisturbed | killed and started again | ratio less 1 |")
    print("| --- | --- | --- | --- |")
    for step in sorted(found):
        ratio = found[step] / expected[step] - 1
        print(f"| {step} | {expected[step]:.6f} | {found[step]:.6f} | {ratio:+.1e} |")


if __name__ == "__main__":
    main()
