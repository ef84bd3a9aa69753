"""Compare the losses of a killed and resumed training run with those of an undisturbed run.

    elmo prepare text.txt --out corpus
    python benchmarks/resume.py --data corpus [--preset small] [--steps 400] [--batch 128]

The run is killed with SIGKILL after half of its steps and resumed with the same command from its
last checkpoint. The losses logged after that are compared.
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


def command(args: argparse.Namespace, out: Path) -> list[str]:
    """Return the command line of a run."""
    flags = {
        "config": args.preset,
        "data": args.data,
        "out": out,
        "batch-size": args.batch,
        "max-steps": args.steps,
        "checkpoint-every": args.steps // 8,
        "log-every": args.steps // 8,
        "accelerator": args.accelerator,
        "precision": args.precision,
    }
    arguments = [str(item) for name, value in flags.items() for item in (f"--{name}", value)]
    return [sys.executable, "-m", "elmo", "pretrain", *arguments]


def losses(out: Path, since: float = 0.0) -> dict[int, float]:
    """Return the losses of a run's log by step.

    Args:
        out: Folder of the run.
        since: Earliest time of the log lines to read, in seconds since the epoch.
    """
    path = out / "log.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return {
        row["step"]: row["loss"] for row in rows if row["kind"] == "step" and row["time"] >= since
    }


def run(args: argparse.Namespace, out: Path, kill_at: int | None = None) -> None:
    """Run a training, and kill it if requested.

    Args:
        args: Options of this program.
        out: Folder of the run.
        kill_at: Step after which the run is killed, as soon as it is logged. Default: never.

    Raises:
        SystemExit: If the run ends in another way.
    """
    with (out.parent / f"{out.name}.txt").open("ab") as log:
        process = subprocess.Popen(command(args, out), stdout=log, stderr=log)
        while kill_at is not None and process.poll() is None:
            if max(losses(out), default=0) >= kill_at:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(POLL_SECONDS)
        status = process.wait()
    if status != (0 if kill_at is None else -signal.SIGKILL):
        raise SystemExit(
            f"The training ended with exit status {status}:\n"
            f"{(out.parent / f'{out.name}.txt').read_text()}"
        )


def main() -> None:
    """Print a table of the losses after the kill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="Corpus written by `elmo prepare`.")
    parser.add_argument("--preset", default="small", help="Preset of `elmo pretrain`.")
    parser.add_argument("--steps", type=int, default=400, help="Training steps.")
    parser.add_argument("--batch", type=int, default=128, help="Batch size.")
    parser.add_argument("--accelerator", default="auto", help="Accelerator: auto, cpu or cuda.")
    parser.add_argument("--precision", default="bfloat16", help="Precision.")
    args = parser.parse_args()
    if args.steps < 8:
        raise SystemExit(
            f"--steps must be at least 8 (got {args.steps}): a checkpoint is written after every "
            "eighth of the steps."
        )
    print(f"{describe()}; {args.preset}, {args.batch} streams, {args.precision}")
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, killed = Path(folder) / "undisturbed", Path(folder) / "killed"
        run(args, undisturbed)
        run(args, killed, kill_at=args.steps // 2)
        last_step, resumed_at = max(losses(killed)), time.time()
        run(args, killed)
        expected, resumed = losses(undisturbed), losses(killed, since=resumed_at)
    print(
        f"Killed at step {last_step} or soon after; first logged step after resuming: "
        f"{min(resumed)}\n"
    )
    if min(resumed) <= args.steps // 8:
        raise SystemExit("The run started from scratch instead of resuming from a checkpoint.")
    print("| step | undisturbed | killed and resumed | ratio - 1 |")
    print("| --- | --- | --- | --- |")
    for step in sorted(resumed):
        ratio = resumed[step] / expected[step] - 1
        print(f"| {step} | {expected[step]:.6f} | {resumed[step]:.6f} | {ratio:+.1e} |")


if __name__ == "__main__":
    main()
