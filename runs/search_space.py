"""Hyperparameters in the names of runs.

The name of a run ends with the hyperparameters that differ from those at the start of the search,
such as `@0.002+dropout0.1+epochs8`: learning rate 0.002, dropout 0.1, 8 epochs. The start is fixed
in runs/tasks.sh, so that names keep their meaning when a preset gets what the search found.
"""

import re

START_RATE = "0.001"
# Name of a hyperparameter and the pattern of its value in the name of a run.
HYPERPARAMETERS = {"rate": r"[0-9.]+", "dropout": r"dropout[0-9.]+", "epochs": r"epochs[0-9]+"}
_VALUE = f"(?:{'|'.join(HYPERPARAMETERS.values())})"
SUFFIX_PATTERN = rf"@{_VALUE}(?:\+{_VALUE})*"


def parse_suffix(suffix: str) -> dict[str, float]:
    """Return the hyperparameters that the suffix of a run's name contains."""
    hyperparameters = {}
    for value in filter(None, suffix.removeprefix("@").split("+")):
        name = next(
            name for name, pattern in HYPERPARAMETERS.items() if re.fullmatch(pattern, value)
        )
        hyperparameters[name] = float(value.removeprefix(name))
    return hyperparameters


def learning_rate(suffix: str) -> float:
    """Return the learning rate in a suffix, or that at the start of the search."""
    return parse_suffix(suffix).get("rate", float(START_RATE))


def sort_key(suffix: str) -> tuple[float, ...]:
    """Return a sort key: by learning rate, then by the number of changed hyperparameters."""
    hyperparameters = parse_suffix(suffix)
    return (learning_rate(suffix), len(hyperparameters), *hyperparameters.values())
