"""The training folder: who may write to it, and whether a run that goes on is the same run.

config.yaml     the dials of the run
checkpoints/    what it goes on from
log.jsonl       what happened
tensorboard/    the same, drawn
curves.png      loss and evaluations
model/          the best model so far
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from elmo import files
from elmo.config.renamed import upgrade
from elmo.config.serialization import to_dict, to_yaml
from elmo.errors import ConfigError
from elmo.files import atomic_path
from elmo.train.trainable import RunSettings

CONFIG = "config.yaml"
CHECKPOINTS = "checkpoints"
MODEL = "model"
CORPUS = "corpus"

# A run that goes on may have these changed: where it runs, how long, what it tells.
CHANGEABLE_OPTIONS = frozenset(
    "out workers epochs max_steps precision kernel accelerator devices num_nodes strategy "
    "accumulate log_every evaluate_every checkpoint_every patience mlflow mlflow_store "
    "dry_run test cache".split()
)
# And these where the text was prepared or read beforehand: it is known by its content, wherever
# it lies.
DATA_OPTIONS = frozenset("data valid corpus train dev".split())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second run out of a folder; what a killed one had not finished is removed."""
    busy = f"{folder} is in use by another run: wait for it, or name another --out"
    with files.locked(folder, busy):
        files.clear_partials(folder, folder / MODEL)
        yield


def check_same_run(folder: Path, config: RunSettings) -> None:
    """Refuse to go on with dials that would make it another run."""
    path = folder / CONFIG
    if not path.exists():
        return
    try:
        before = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    may_change = CHANGEABLE_OPTIONS if (folder / CORPUS).exists() else CHANGEABLE_OPTIONS | DATA_OPTIONS
    changed = list(_differences(upgrade(type(config), before), to_dict(config), "", may_change))
    if changed:
        raise ConfigError(
            f"{folder} holds a run with other settings: {'; '.join(changed[:5])}. Use those, or "
            "another --out"
        )


def _differences(before: Any, now: Any, name: str, may_change: frozenset[str]) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in now:
            if key not in may_change:
                yield from _differences(before.get(key), now[key], key, may_change)
    elif before != now:
        yield f"{name} was {before}, now {now}"


def write_config(folder: Path, config: RunSettings) -> None:
    """Write down the dials of the run."""
    with atomic_path(folder / CONFIG) as partial:
        partial.write_text(to_yaml(config), encoding="utf-8")
