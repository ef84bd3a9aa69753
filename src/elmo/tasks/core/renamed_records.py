"""Renames entries of fitted task models and checkpoints from earlier versions, so that they load.

When a module attribute, a key in `config.json` or a task setting is renamed, its old name is added
to a table here. The tables are applied when a fitted task model or a checkpoint is loaded.
"""

from collections.abc import Mapping
from typing import TypeVar

from elmo.config.renamed import RENAMED_OPTIONS

T = TypeVar("T")

# Old to new prefixes of weight names; the first matching prefix is replaced.
RENAMED_WEIGHTS = {
    "tokens.static.": "features.word_vectors.",
    "tokens.letters.": "features.characters.",
    "tokens.marks.": "features.indicators.",
    "tokens.": "features.",
    "body.": "encoder.",
}
# Old to new keys in config.json.
RENAMED_KEYS = {"kind": "task_settings"}
# Old to new task settings, as returned by `Task.to_settings`.
RENAMED_SETTINGS = {
    "measure": "metric",
    "f1_of": "f1_unit",
    "longest": "max_answer_words",
    "may_be_none": "has_unanswerable",
    "has_single": "has_singletons",
    **RENAMED_OPTIONS,
}
# New to old names in the `repr` of targets, of which signatures of examples are computed.
ORIGINAL_REPR = {"SenseTarget(": "AskedWord(", "word_range=": "place="}


def upgrade_weights(weights: Mapping[str, T]) -> dict[str, T]:
    """Return the weights under their current names."""
    return {_upgrade_weight_name(name): value for name, value in weights.items()}


def _upgrade_weight_name(name: str) -> str:
    for old, new in RENAMED_WEIGHTS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def upgrade_record(record: Mapping[str, object]) -> dict[str, object]:
    """Return the content of config.json with current keys, including those of task settings."""
    upgraded = {RENAMED_KEYS.get(key, key): value for key, value in record.items()}
    settings = upgraded.get("task_settings")
    if isinstance(settings, dict):
        upgraded["task_settings"] = {
            RENAMED_SETTINGS.get(key, key): value for key, value in settings.items()
        }
    return upgraded


def original_repr(value: object) -> str:
    """Return the `repr` of examples with the names of the version that first hashed them."""
    text = repr(value)
    for new, old in ORIGINAL_REPR.items():
        text = text.replace(new, old)
    return text
