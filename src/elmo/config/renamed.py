"""Tables of renamed and removed config fields and values, for reading files of earlier versions.

Model, training and job folders contain configs as YAML or JSON. When a field, a section or a value
is renamed or removed, its old name is added to a table in this module. The tables are applied first
when a config is loaded and when a resumed run is compared with the config in its folder.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints, overload

from elmo.errors import ConfigError

# Old field name to new field name, by config class.
RENAMED_FIELDS: dict[str, dict[str, str]] = {
    "TextConfig": {"word_marks": "special_tokens"},
    "ReadingConfig": {"text_field": "text_column"},
    "EvaluateConfig": {"text_field": "text_column"},
    "ExamplesConfig": {"text": "text_column", "label": "label_column"},
    "TaskConfig": {
        "side_by_side": "parallel_seeds",
        "words": "word_features",
        "body": "encoder",
    },
    "TaskELMoConfig": {
        "place": "placement",
        "mix_rate": "mix_learning_rate",
        "elmo_rate": "elmo_learning_rate",
    },
    "WordFeaturesConfig": {
        "static": "word_vectors",
        "tune_static": "tune_word_vectors",
        "static_words": "max_word_vectors",
        "letters": "characters",
        "letter_dim": "character_dim",
        "letter_filters": "character_filters",
        "mark_dim": "indicator_dim",
    },
    "PretrainConfig": {"regular": "regularization"},
    "FinetuneConfig": {"regular": "regularization"},
    "JobSettings": {"dtype": "precision"},
}
# Old to new names of options that belong to one task and were elsewhere before.
RENAMED_OPTIONS = {
    "measure": "metric",
    "grams": "char_ngrams",
    "gram_rows": "ngram_buckets",
    "longest_answer": "max_answer_words",
    "f1_of": "f1_unit",
    "widest": "max_mention_words",
    "kept": "top_span_ratio",
    "n_antecedents": "max_antecedents",
    "pair_dim": "scorer_dim",
    "longest_sentence": "max_sentence_words",
    "longest_document": "max_document_words",
    "per_word": "max_per_word",
}
# Where these options were: at the top level, in sections of all tasks, and in sections of a task.
MOVED_OPTIONS = {
    "": ("metric", "measure"),
    "examples": ("scheme",),
    "encoder": ("crf", "char_ngrams", "grams", "ngram_buckets", "gram_rows"),
}
OPTION_SECTIONS = ("question_answering", "answers", "coreference", "clusters", "lookup", "memory")
# Values of moved options that were accepted for all tasks. Any other value is an error for a task
# without the option.
DEFAULT_FOR_ALL = {"metric": "accuracy", "char_ngrams": 0}

# Old name of a switch to the new name of its opposite, by config class.
NEGATED_FIELDS: dict[str, dict[str, str]] = {
    "EmbedConfig": {"raw": "pretokenized"},
    "EvaluateConfig": {"raw": "pretokenized"},
    "TaskPredictConfig": {"raw": "pretokenized"},
    "JobSettings": {"raw": "pretokenized"},
}
# Removed fields, by config class, with the values that have the same effect as leaving them out.
REMOVED_FIELDS: dict[str, dict[str, tuple[object, ...]]] = {
    "OptimizerConfig": {"final_rate": (0.0,)},
    "RunConfig": {"strategy": ("auto", "ddp")},
}
# Old value to new value, by config class and field.
RENAMED_VALUES: dict[tuple[str, str], dict[str, str | None]] = {
    ("TaskConfig", "task"): {
        "pairs": "sentence_pairs",
        "answers": "question_answering",
        "roles": "semantic_roles",
        "clusters": "coreference",
        "senses": "word_senses",
        "nearest": "nearest_occurrences",
    },
    ("RunConfig", "precision"): {"32-true": "float32", "bf16-mixed": "bfloat16"},
    # This was the default for all tasks.
    ("ExamplesConfig", "text_column"): {"text": None},
    ("ExamplesConfig", "empty"): {"refuse": "error"},
    ("ExamplesConfig", "reader"): {"pairs": "sentence_pairs", "senses": "word_senses"},
}


def upgrade_recorded(cls: type, data: object) -> object:
    """Return the plain data of a config that was recorded by a run, with current names.

    An option that did not exist when the run was started can have had another effect than its
    default has now; its value is added.
    """
    upgraded = upgrade(cls, data)
    if cls.__name__ == "TaskConfig" and isinstance(upgraded, dict):
        examples = upgraded.get("examples")
        if isinstance(examples, dict) and examples.get("fraction", 1.0) != 1.0:
            # `fraction` did not change the number of steps before `keep_steps` existed.
            examples.setdefault("keep_steps", True)
    return upgraded


@overload
def upgrade(cls: type, data: dict[str, object]) -> dict[str, object]: ...
@overload
def upgrade(cls: type, data: object) -> object: ...
def upgrade(cls: type, data: object) -> object:
    """Replace old field names and values in the plain data of a config, including its sections.

    Data that is not a mapping is returned unchanged. A removed option is an error if it had an
    effect.
    """
    if not isinstance(data, dict):
        return data
    removed = REMOVED_FIELDS.get(cls.__name__, {})
    fields = RENAMED_FIELDS.get(cls.__name__, {})
    negated = NEGATED_FIELDS.get(cls.__name__, {})
    hints = get_type_hints(cls)
    upgraded: dict[str, object] = {}
    for old, value in data.items():
        if old in removed:
            if value not in removed[old]:
                raise ConfigError(
                    f"The option {old} was removed; only {removed[old][0]} is still supported (got "
                    f"{value!r}). Remove it."
                )
            continue
        if old in negated:
            if value is not None:
                upgraded[negated[old]] = not value if isinstance(value, bool) else value
            continue
        name = fields[old] if old in fields else str(old)
        section = hints.get(name)
        if isinstance(section, type) and dataclasses.is_dataclass(section):
            value = upgrade(section, value)
        elif isinstance(value, str):
            value = RENAMED_VALUES.get((cls.__name__, name), {}).get(value, value)
        upgraded[name] = value
    return _with_task_options(cls, upgraded) if hasattr(cls, "section_types") else upgraded


def section_types(cls: type, data: Mapping[str, object]) -> dict[str, type]:
    """Return the classes of sections that depend on other values of the config."""
    choose: Callable[[Mapping[str, object]], dict[str, type]] | None
    choose = getattr(cls, "section_types", None)
    return {} if choose is None else choose(data)


def _with_task_options(cls: type, data: dict[str, object]) -> dict[str, object]:
    """Move options of one task from their old places to the section `options`."""
    moved: dict[str, object] = {}
    for section, names in MOVED_OPTIONS.items():
        place = data if not section else data.get(section)
        if isinstance(place, dict):
            place = place if not section else dict(place)
            moved |= {name: place.pop(name) for name in names if name in place}
            if section:
                data[section] = place
    for section in OPTION_SECTIONS:
        values = data.pop(section, None)
        moved |= values if isinstance(values, dict) else {}
    if not moved:
        return data
    try:
        options_class: Any = section_types(cls, data)["options"]
    except ConfigError:
        return data  # the task does not exist, which is reported later
    known = {item.name for item in dataclasses.fields(options_class)}
    options = {}
    for old, value in moved.items():
        name = RENAMED_OPTIONS.get(old, old)
        if name in known or value != DEFAULT_FOR_ALL.get(name, value):
            options[name] = value
    given = data.get("options") or {}
    if not isinstance(given, dict):
        return data  # reported later
    return {**data, "options": {**options, **given}}


def original_names(cls: type, data: dict[str, object]) -> dict[str, object]:
    """Restore the original field names of a config, so that renaming does not change its hash."""
    old_names = {new: old for old, new in RENAMED_FIELDS.get(cls.__name__, {}).items()}
    hints = get_type_hints(cls)
    return {
        old_names.get(name, name): original_names(hints[name], value)
        if dataclasses.is_dataclass(hints[name]) and isinstance(value, dict)
        else value
        for name, value in data.items()
    }
