"""Print the hyperparameters with the best development score of a task and setup.

    python runs/best_run.py sst5 static --hyperparameters rate dropout --out OUT
    python runs/best_run.py sst5 static --hyperparameters rate --record FILE --size base

Compares the start of the search with the trials of runs/tasks.sh that change only the listed
hyperparameters, by the first seed. The output is the suffix of the run's name, such as
`@0.002+dropout0.1`; it is empty if the start is best.
"""

import argparse
from pathlib import Path

from record_result import SIZES, gather, of_size, read
from result_tables import Runs
from search_space import HYPERPARAMETERS


def main() -> None:
    """Print the suffix of the best run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", help="Name of the task, such as sst5.")
    parser.add_argument("setup", help="Setup of the task: static, layer0, elmo or tuned.")
    parser.add_argument(
        "--hyperparameters",
        nargs="+",
        choices=HYPERPARAMETERS,
        required=True,
        help="Hyperparameters that may differ from the start of the search.",
    )
    parser.add_argument("--out", type=Path, help="Folder of runs.")
    parser.add_argument("--record", type=Path, help="Record of runs on other machines.")
    parser.add_argument("--size", choices=SIZES, default=SIZES[0], help="Runs of the record.")
    args = parser.parse_args()
    if args.out is None and args.record is None:
        parser.error("pass --out or --record")
    record = of_size(read(args.record), args.size) if args.record else {}
    if args.out:
        record |= gather(args.out, "", "")
    best = Runs(record).best_trial(args.task, args.setup, args.hyperparameters)
    if best is not None:
        print(best)


if __name__ == "__main__":
    main()
