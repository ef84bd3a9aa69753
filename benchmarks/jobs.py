"""Words a second of a job against its workers: measured here, then modelled for more machines.

Run it with `python benchmarks/jobs.py --text FILE --size bundled --precision bfloat16`. The text
has one sentence per line. Without `--text`, the few sentences next to this file are repeated.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from embed import HERE, SIZES, model_of
from machine import describe

from elmo.config import EmbedConfig
from elmo.embed import JobResult, embed
from elmo.embed.embed_result import format_count, format_size
from elmo.embed.job_folder import ShardRecord, read_json

MACHINES = (4, 16, 64)
BILLION = 10**9


def steady_rate(folder: Path, n_workers: int) -> float:
    """Give words a second once all workers are at work: from the dates of the shards' records."""
    paths = sorted((folder / "records").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    first, last = paths[n_workers - 1], paths[-1]
    n_words = sum(read_json(ShardRecord, path).n_words for path in paths[n_workers:])
    return n_words / ((last.stat().st_mtime_ns - first.stat().st_mtime_ns) / 1e9)


def row(name: str, kind: str, rate: float, n_machines: int, bytes_a_word: float) -> str:
    """Give a line of the table."""
    hours = BILLION / rate / 3600
    return (
        f"| {name} | {kind} | {rate:,.0f} | {rate * bytes_a_word / 1e6:,.0f} | {hours:,.1f} | "
        f"{hours * n_machines:,.1f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="original", choices=list(SIZES))
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--text", type=Path, default=HERE / "sentences.txt")
    parser.add_argument("--words", type=int, default=400_000, help="words for each worker")
    parser.add_argument("--shards", type=int, default=8, help="shards for each worker")
    parser.add_argument("--format", default="parquet", choices=["parquet", "hdf5", "safetensors"])
    parser.add_argument("--precision")
    parser.add_argument("--device")
    parser.add_argument("--disk", type=float, default=1000, help="MB/s the shared disk takes")
    given = parser.parse_args()
    lines = given.text.read_text(encoding="utf-8").splitlines()
    # A number at the end of each line, lest sentences stand twice and are computed once.
    n_words = sum(len(line.split()) + 1 for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        model_of(SIZES[given.size]).save_pretrained(home / "model")
        if given.device == "cuda":
            # Kernels are compiled once for all processes, and kept.
            (home / "some.txt").write_text("\n".join(lines[:2000]), encoding="utf-8")
            embed(
                EmbedConfig(
                    str(home / "some.txt"),
                    str(home / "some"),
                    model=str(home / "model"),
                    precision=given.precision,
                    device="cuda",
                )
            )
        results: dict[int, tuple[JobResult, float]] = {}
        for n_workers in given.workers:
            repeats = max(1, given.words * n_workers // n_words)
            with (home / "text.txt").open("w", encoding="utf-8") as file:
                for number in range(repeats):
                    file.writelines(f"{line} {number}\n" for line in lines)
            output = home / f"workers-{n_workers}"
            result = embed(
                EmbedConfig(
                    str(home / "text.txt"),
                    str(output),
                    model=str(home / "model"),
                    format=given.format,
                    shard_words=max(1, repeats * n_words // (given.shards * n_workers)),
                    workers=n_workers,
                    precision=given.precision,
                    device=given.device,
                )
            )
            assert isinstance(result, JobResult)
            print(result, file=sys.stderr)
            results[n_workers] = result, steady_rate(output, n_workers)
    bytes_a_word = max(result.n_bytes / result.n_words for result, _ in results.values())
    total = format_size(bytes_a_word * BILLION)
    print(f"{describe()}; {given.size}, {given.precision or 'float32'}, {given.format}")
    print(f"\n1 B words take {total} ({bytes_a_word:,.0f} bytes a word).\n")
    print("| | | words/s | MB/s written | hours for 1 B words | machine-hours |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n_workers, (_, rate) in results.items():
        print(row(format_count(n_workers, "worker"), "measured", rate, 1, bytes_a_word))
    # Machines share nothing but the disk: they add up until it takes no more.
    best = max(rate for _, rate in results.values())
    limit = given.disk * 1e6 / bytes_a_word
    for n_machines in MACHINES:
        rate = min(n_machines * best, limit)
        kind = "modelled" if rate < limit else "modelled: the disk is the limit"
        print(row(f"{n_machines} such machines", kind, rate, n_machines, bytes_a_word))


if __name__ == "__main__":
    main()
