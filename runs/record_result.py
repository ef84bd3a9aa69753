"""Record of run results in one JSON-lines file: scores per seed, commit and machine.

The runs take many hours and are made a few at a time on different machines. The results page is
made from this record, so that no result is lost and no run is repeated.
"""

import json
from pathlib import Path
from typing import Any

from elmo.files import atomic_path

# Entries of a seed's result that are recorded; the others are paths of the machine it ran on.
RECORDED_KEYS = ("seed", "development", "test", "mixes")
# Endings of files that contain numbers, next to the folders of the runs. Those of language models
# begin with the name of the model, the others with that of the task.
LANGUAGE_MODEL_FILES = ("lm1b", "wikitext-103", "klue-ynat", "blimp")
NUMBER_FILES = ("tfidf", "before", "after", *LANGUAGE_MODEL_FILES)
DIGITS = 6
# Sizes of the models that were evaluated on the tasks. Names of task runs of other sizes than the
# first begin with the size and a slash; those of language models contain the name of the model.
SIZES = ("small", "base")

# Maps the name of a run to its commit, machine and result.
Record = dict[str, dict[str, Any]]


def gather(out: Path, commit: str, machine: str) -> Record:
    """Return the results that runs/tasks.sh wrote to a folder.

    Args:
        out: Folder of the runs.
        commit: Commit they were made with.
        machine: Description of the machine.
    """
    results: dict[str, Any] = {}
    for path in out.glob("*/results.json"):
        runs = json.loads(path.read_text())["runs"]
        results[path.parent.name] = {
            "runs": [{key: run[key] for key in RECORDED_KEYS if key in run} for run in runs]
        }
    for ending in NUMBER_FILES:
        for path in out.glob(f"*-{ending}.json"):
            values = json.loads(path.read_text())
            results[path.stem] = {
                key: value for key, value in values.items() if isinstance(value, int | float | dict)
            }
    return {
        name: {"commit": commit, "machine": machine, "found": _rounded(result)}
        for name, result in results.items()
    }


def read(path: Path) -> Record:
    """Read a record; empty if the file does not exist."""
    if not path.is_file():
        return {}
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {entry.pop("run"): entry for entry in entries}


def prefix(size: str) -> str:
    """Return the beginning of the names of runs with models of a size."""
    return "" if size == SIZES[0] else f"{size}/"


def with_size(record: Record, size: str) -> Record:
    """Return runs with models of one size, named as in a record of all sizes."""

    def is_language_model(name: str) -> bool:
        return name.endswith(tuple(f"-{ending}" for ending in LANGUAGE_MODEL_FILES))

    return {
        name if is_language_model(name) else f"{prefix(size)}{name}": entry
        for name, entry in record.items()
    }


def of_size(record: Record, size: str) -> Record:
    """Return the runs with models of one size, without the size in their names."""
    start = prefix(size)
    return {
        name.removeprefix(start): entry
        for name, entry in record.items()
        if name.startswith(start) and "/" not in name.removeprefix(start)
    }


def write(path: Path, record: Record) -> None:
    """Write a record with one run per line, sorted by name."""
    lines = [json.dumps({"run": name, **record[name]}) + "\n" for name in sorted(record)]
    with atomic_path(path) as partial:
        partial.write_text("".join(lines), encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
