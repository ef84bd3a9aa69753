"""Prints the dials at which a way of a task did best with its first seed.

    python runs/best_run.py OUT sst5 static --dials rate dropout --record docs/results.jsonl

The tries of runs/tasks.sh that turn no other dials than these are compared with the run of the
preset, on the part that models are chosen by: `@0.002+dropout0.1`, as the names of such runs end,
or nothing where none is better than the preset.
"""

import argparse
from pathlib import Path

from record_result import gather, read
from result_tables import Runs
from search_space import DIALS


def main() -> None:
    """Compare what is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, help="folder of runs")
    parser.add_argument("task")
    parser.add_argument("way")
    parser.add_argument("--dials", nargs="+", choices=DIALS, required=True)
    parser.add_argument("--record", type=Path, help="of runs that were made elsewhere")
    given = parser.parse_args()
    record = read(given.record) if given.record else {}
    best = Runs(record | gather(given.out, "", "")).best_try(given.task, given.way, given.dials)
    if best is not None:
        print(best)


if __name__ == "__main__":
    main()
