"""What runs came to, kept in one file: by seed, with the commit and the machine of each run.

Runs of many hours are made a few at a time, on whatever machine is at hand; the page of results is
made of the record, so that none of them is lost or done twice.
"""

import json
from pathlib import Path
from typing import Any

from elmo.files import atomic_path

# Of a run, what is told about each seed; folders are of the machine it ran on.
TOLD = ("seed", "development", "test", "mixes")
# Files of numbers beside the runs.
NUMBERS = ("tfidf", "before", "after")
DIGITS = 6

# By the name of a run: commit, machine, and what was found.
Record = dict[str, dict[str, Any]]


def gather(out: Path, commit: str, machine: str) -> Record:
    """Give the runs that runs/tasks.sh has left in a folder."""
    found: dict[str, Any] = {}
    for path in out.glob("*/results.json"):
        runs = json.loads(path.read_text())["runs"]
        found[path.parent.name] = {
            "runs": [{name: run[name] for name in TOLD if name in run} for run in runs]
        }
    for kind in NUMBERS:
        for path in out.glob(f"*-{kind}.json"):
            values = json.loads(path.read_text())
            found[path.stem] = {k: v for k, v in values.items() if isinstance(v, int | float)}
    return {
        name: {"commit": commit, "machine": machine, "found": _rounded(one)}
        for name, one in found.items()
    }


def read(path: Path) -> Record:
    """Read a record; there is none before the first run."""
    if not path.is_file():
        return {}
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {entry.pop("run"): entry for entry in entries}


def write(path: Path, record: Record) -> None:
    """Write a record, a run a line, in the order of their names."""
    lines = [json.dumps({"run": name, **record[name]}) + "\n" for name in sorted(record)]
    with atomic_path(path) as partial:
        partial.write_text("".join(lines), encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
