"""Benchmark sharded embedding jobs: words per second by number of workers.

    python benchmarks/jobs.py --text FILE --size bundled --precision bfloat16

The text has one sentence per line. Without --text, the few sentences next to this file are
repeated. The throughput of several machines is extrapolated from the measurement on this one.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from embed import HERE, SIZES, random_model
from machine import describe

from elmo.config import EmbedConfig
from elmo.embed import JobResult, embed
from elmo.embed.embed_result import format_count, format_size
from elmo.embed.job_folder import read_json
from elmo.embed.job_records import ShardRecord

MACHINES = (4, 16, 64)
BILLION = 10**9


def steady_rate(folder: Path, n_workers: int) -> float:
    """Return words per second after the start-up of all workers.

    Measured by the modification times of the shard records: from the first shard of every worker to
    the last shard of the job.

    Args:
        folder: Folder of the finished job.
        n_workers: Number of its workers.
    """
    paths = sorted((folder / "records").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    first, last = paths[n_workers - 1], paths[-1]
    n_words = sum(read_json(ShardRecord, path).n_words for path in paths[n_workers:])
    return n_words / ((last.stat().st_mtime_ns - first.stat().st_mtime_ns) / 1e9)


def table_row(name: str, source: str, rate: float, n_machines: int, bytes_per_word: float) -> str:
    """Return a row of the table.

    Args:
        name: Title of the row.
        source: Whether the rate is measured or extrapolated.
        rate: Words per second.
        n_machines: Number of machines.
        bytes_per_word: Output size per word.
    """
    hours = BILLION / rate / 3600
    return (
        f"| {name} | {source} | {rate:,.0f} | {rate * bytes_per_word / 1e6:,.0f} | {hours:,.1f} | "
        f"{hours * n_machines:,.1f} |"
    )


def main() -> None:
    """Run a job for each number of workers and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="original", choices=list(SIZES), help="Model size.")
    parser.add_argument(
        "--workers", nargs="+", type=int, default=[1, 2], help="Numbers of workers to measure."
    )
    parser.add_argument(
        "--text",
        type=Path,
        default=HERE / "sentences.txt",
        help="Text with one sentence per line. Default: sentences.txt next to this file.",
    )
    parser.add_argument("--words", type=int, default=400_000, help="Words per worker.")
    parser.add_argument("--shards", type=int, default=8, help="Shards per worker.")
    parser.add_argument(
        "--format",
        default="parquet",
        choices=["parquet", "hdf5", "safetensors"],
        help="Output format.",
    )
    parser.add_argument("--precision", help="Precision. Default: float32.")
    parser.add_argument("--device", help="Device, such as cpu or cuda.")
    parser.add_argument(
        "--disk", type=float, default=1000, help="Write speed of the shared disk in MB/s."
    )
    args = parser.parse_args()
    lines = args.text.read_text(encoding="utf-8").splitlines()
    # A number is appended to each line: repeated sentences would be computed only once.
    n_words = sum(len(line.split()) + 1 for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        random_model(SIZES[args.size]).save_pretrained(home / "model")
        if args.device == "cuda":
            # Compile the fused kernels before the timing; all processes share the compiled files.
            (home / "warm-up.txt").write_text("\n".join(lines[:2000]), encoding="utf-8")
            embed(
                EmbedConfig(
                    str(home / "warm-up.txt"),
                    str(home / "warm-up"),
                    model=str(home / "model"),
                    precision=args.precision,
                    device="cuda",
                )
            )
        results: dict[int, tuple[JobResult, float]] = {}
        for n_workers in args.workers:
            repeats = max(1, args.words * n_workers // n_words)
            with (home / "text.txt").open("w", encoding="utf-8") as file:
                for number in range(repeats):
                    file.writelines(f"{line} {number}\n" for line in lines)
            output = home / f"workers-{n_workers}"
            result = embed(
                EmbedConfig(
                    str(home / "text.txt"),
                    str(output),
                    model=str(home / "model"),
                    format=args.format,
                    shard_words=max(1, repeats * n_words // (args.shards * n_workers)),
                    workers=n_workers,
                    precision=args.precision,
                    device=args.device,
                )
            )
            assert isinstance(result, JobResult)
            print(result, file=sys.stderr)
            results[n_workers] = result, steady_rate(output, n_workers)
    bytes_per_word = max(result.n_bytes / result.n_words for result, _ in results.values())
    total = format_size(bytes_per_word * BILLION)
    print(f"{describe()}; {args.size}, {args.precision or 'float32'}, {args.format}")
    print(f"\n1 B words take {total} ({bytes_per_word:,.0f} bytes per word).\n")
    print("| | | words/s | MB/s written | hours for 1 B words | machine-hours |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n_workers, (_, rate) in results.items():
        print(table_row(format_count(n_workers, "worker"), "measured", rate, 1, bytes_per_word))
    # Machines only share the disk: throughput adds up until the disk is the limit.
    best = max(rate for _, rate in results.values())
    limit = args.disk * 1e6 / bytes_per_word
    for n_machines in MACHINES:
        rate = min(n_machines * best, limit)
        source = "extrapolated" if rate < limit else "extrapolated: limited by the disk"
        print(table_row(f"{n_machines} such machines", source, rate, n_machines, bytes_per_word))


if __name__ == "__main__":
    main()
