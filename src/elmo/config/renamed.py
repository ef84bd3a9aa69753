"""Config names of earlier versions, so that files written with them still load.

Model, training and job folders record configs as YAML or JSON. When an option, a section or a value
is renamed, the old name goes into a table here; `from_dict` and the comparison of a resumed run
with its folder apply them before anything else looks at the data.
"""

import dataclasses
from typing import Any, get_type_hints

# Name of the config class, then old field name to new field name.
RENAMED_FIELDS: dict[str, dict[str, str]] = {
    "TextConfig": {"word_marks": "special_tokens"},
    "TaskConfig": {
        "measure": "metric",
        "side_by_side": "parallel_seeds",
        "words": "word_features",
        "body": "encoder",
        "answers": "question_answering",
        "clusters": "coreference",
        "memory": "lookup",
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
    "TaskEncoderConfig": {"grams": "char_ngrams", "gram_rows": "ngram_buckets"},
    "QuestionAnsweringConfig": {"longest_answer": "max_answer_words", "f1_of": "f1_unit"},
    "CoreferenceConfig": {
        "widest": "max_mention_words",
        "kept": "top_span_ratio",
        "n_antecedents": "max_antecedents",
        "pair_dim": "scorer_dim",
        "longest_sentence": "max_sentence_words",
        "longest_document": "max_document_words",
    },
    "LookupConfig": {"per_word": "max_per_word"},
    "PretrainConfig": {"regular": "regularization"},
    "FinetuneConfig": {"regular": "regularization"},
}
# Name of the config class and field, then old value to new value.
RENAMED_VALUES: dict[tuple[str, str], dict[str, str]] = {
    ("TaskConfig", "task"): {
        "pairs": "sentence_pairs",
        "answers": "question_answering",
        "roles": "semantic_roles",
        "clusters": "coreference",
        "senses": "word_senses",
        "nearest": "nearest_occurrences",
    },
    ("RunConfig", "precision"): {"32-true": "float32", "bf16-mixed": "bfloat16"},
    ("ExamplesConfig", "empty"): {"refuse": "error"},
    ("ExamplesConfig", "reader"): {"pairs": "sentence_pairs", "senses": "word_senses"},
}
# Name of the config class, then fields that no longer exist and the only value they could have.
REMOVED_FIELDS: dict[str, dict[str, Any]] = {}


def upgrade(cls: type, data: Any) -> Any:
    """Return plain data of a config with old names and values replaced by today's, at any depth.

    Args:
        cls: The config dataclass that the data are for.
        data: Plain data as read from YAML or JSON; returned as it is unless it is a mapping.
    """
    if not isinstance(data, dict):
        return data
    fields = RENAMED_FIELDS.get(cls.__name__, {})
    removed = REMOVED_FIELDS.get(cls.__name__, {})
    hints = get_type_hints(cls)
    upgraded: dict[str, Any] = {}
    for old, value in data.items():
        if old in removed and value == removed[old]:
            continue
        name = fields[old] if old in fields else str(old)
        section = hints.get(name)
        if isinstance(section, type) and dataclasses.is_dataclass(section):
            value = upgrade(section, value)
        elif isinstance(value, str):
            value = RENAMED_VALUES.get((cls.__name__, name), {}).get(value, value)
        upgraded[name] = value
    return upgraded


def original_names(cls: type, data: dict[str, Any]) -> dict[str, Any]:
    """Return plain data of a config with today's field names replaced by the original ones.

    Hashes of a config must not change when a field is renamed.

    Args:
        cls: The config dataclass that the data are for.
        data: Plain data with today's names.
    """
    old_names = {new: old for old, new in RENAMED_FIELDS.get(cls.__name__, {}).items()}
    hints = get_type_hints(cls)
    return {
        old_names.get(name, name): original_names(hints[name], value)
        if dataclasses.is_dataclass(hints[name])
        else value
        for name, value in data.items()
    }
