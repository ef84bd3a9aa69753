"""Prints the rate of learning at which a way of a task did best with its first seed.

    python runs/best_rate.py OUT sst5 static --record docs/results.jsonl

The tries of runs/tasks.sh are compared with the run at the preset's rate, on the part that models
are chosen by: `@0.002`, as the names of runs at that rate end, or nothing where none is better than
the preset's.
"""

import argparse
from pathlib import Path

from record import gather, read
from result_tables import Runs


def main() -> None:
    """Compare what is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, help="folder of runs")
    parser.add_argument("task")
    parser.add_argument("way")
    parser.add_argument("--record", type=Path, help="of runs that were made elsewhere")
    given = parser.parse_args()
    record = read(given.record) if given.record else {}
    tries = Runs(record | gather(given.out, "", "")).tries(given.task, given.way)
    if tries:
        print(max(tries, key=lambda end: (tries[end], end == "")))


if __name__ == "__main__":
    main()
