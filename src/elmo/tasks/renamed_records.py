"""Names in fitted task models and checkpoints of earlier versions, so that they still load.

When a module attribute, a key of `config.json` or a setting of a task is renamed, its old name goes
into a table here. The loaders of fitted task models and of checkpoints apply the tables first.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from elmo.config.renamed import RENAMED_FIELDS

T = TypeVar("T")

# Old prefix to new prefix of weight names; the first that matches applies.
RENAMED_WEIGHTS = {
    "tokens.static.": "features.word_vectors.",
    "tokens.letters.": "features.characters.",
    "tokens.marks.": "features.indicators.",
    "tokens.": "features.",
    "body.": "encoder.",
}
# Keys of config.json.
RENAMED_KEYS = {"kind": "task_settings"}
# Settings of a task, as `Task.to_settings` returns them.
RENAMED_SETTINGS = {
    "measure": "metric",
    "f1_of": "f1_unit",
    "longest": "max_answer_words",
    "may_be_none": "has_unanswerable",
    "has_single": "has_singletons",
    **RENAMED_FIELDS["CoreferenceConfig"],
}


def upgrade_weights(weights: Mapping[str, T]) -> dict[str, T]:
    """Return weights by today's names."""
    return {_upgrade_weight_name(name): value for name, value in weights.items()}


def _upgrade_weight_name(name: str) -> str:
    for old, new in RENAMED_WEIGHTS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def upgrade_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a config.json with today's keys, also in the settings of the task."""
    upgraded = {RENAMED_KEYS.get(key, key): value for key, value in record.items()}
    settings = upgraded.get("task_settings")
    if isinstance(settings, dict):
        upgraded["task_settings"] = {
            RENAMED_SETTINGS.get(key, key): value for key, value in settings.items()
        }
    return upgraded
