"""The tasks: one row each.

Classes and functions are named by module, because importing them would import PyTorch, which the
help of the commands does not need.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module

from elmo.config.tasks import TaskOptions
from elmo.errors import ConfigError
from elmo.tasks.classification.classification_options import ClassificationOptions
from elmo.tasks.coreference.coreference_options import CoreferenceOptions
from elmo.tasks.nearest_occurrences.nearest_occurrences_options import NearestOccurrencesOptions
from elmo.tasks.question_answering.question_answering_options import QuestionAnsweringOptions
from elmo.tasks.registry.reader_row import ReaderRow
from elmo.tasks.sentence_pairs.sentence_pairs_options import PAIR_COLUMNS, SentencePairsOptions
from elmo.tasks.tagging.tagging_options import TaggingOptions
from elmo.tasks.word_senses.word_senses_options import WordSensesOptions

# Reader that is chosen by the task, the file name and the first lines of the file.
AUTO = "auto"
# Readers of tables and JSON lines, which several tasks have.
_TABLES = {
    "table": ReaderRow("elmo.tasks.files.delimited_tables:read_table", "text", "label", ("empty",)),
    "jsonl": ReaderRow("elmo.tasks.files.json_records:read_jsonl", "text", "label", ("empty",)),
}
# Columns of tags in tables and JSON records.
_TAG_COLUMNS = ("tags", "labels", "ner_tags", "label")
# Options about columns, which have no effect on files in a fixed format.
_COLUMNS = ("text_column", "label_column", "empty")
# Options and sections about training and the task model, which a lookup task does not have.
_TRAINING = (
    *("seeds", "parallel_seeds", "batch_size", "batch_words", "cache", "dev_share", "keep_steps"),
    *("use", "placement", "gamma", "mix_penalty", "mix_learning_rate", "elmo_dropout"),
    *("elmo_learning_rate", "unfreeze_every", "word_features", "encoder", "optimizer"),
    *("epochs", "max_steps", "max_minutes", "max_rollbacks", "precision", "kernel", "log_every"),
    *("evaluate_every", "checkpoint_every", "patience", "mlflow", "mlflow_store"),
)


@dataclass(frozen=True)
class TaskRow:
    """A task.

    Attributes:
        name: Name in options, config files and model folders.
        task: Class of the task, as "module:class".
        options: Class of its own options.
        readers: Readers of its files by name.
        reader: Reader of all its files, if they are in one format or distinguished by the reader.
        formats: Reader of a detected format (`reading/readers.py`), if it is not the usual one.
        text_columns: Names of the text columns of tables and JSON lines, in the order in which they
            are looked for; the first are the default.
        answer_columns: Columns of answers in a table, if an answer fits into a row.
        has_word_tags: Whether a target is one tag per word, as files with one word per line have.
        synonyms: Other names, for which the name is suggested.
        unused: Common options, and sections of them, without effect on this task.
        is_lookup: Whether the task is fitted in one pass instead of training.
        pipeline_tag: Type of the task on the Hugging Face Hub, if it has one.
        example: Estimator and argument of its `predict`, for the example of a model card.
    """

    name: str
    task: str
    options: type[TaskOptions] = TaskOptions
    readers: Mapping[str, ReaderRow] = field(default_factory=dict)
    reader: str | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    text_columns: tuple[tuple[str, ...], ...] = (("text",),)
    answer_columns: tuple[str, ...] = ()
    has_word_tags: bool = False
    synonyms: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    is_lookup: bool = False
    pipeline_tag: str | None = None
    example: tuple[str, str] | None = None


TASKS: dict[str, TaskRow] = {}


def register(row: TaskRow) -> None:
    """Add a task."""
    TASKS[row.name] = row


for _row in (
    TaskRow(
        "classification",
        "elmo.tasks.classification.classification_task:Classification",
        ClassificationOptions,
        {
            **_TABLES,
            **{
                name: ReaderRow(
                    f"elmo.tasks.classification.sentiment_trees:read_{name}", options=("phrases",)
                )
                for name in ("sst2", "sst5")
            },
        },
        formats={"commas": "table"},
        answer_columns=("label", "confidence"),
        synonyms=("sentiment", "classifier", "textcat", "topics"),
        unused=("indicator_dim",),
        pipeline_tag="text-classification",
        example=("Classifier", '["A text."]'),
    ),
    TaskRow(
        "tagging",
        "elmo.tasks.tagging.tagging_task:Tagging",
        TaggingOptions,
        {
            "jsonl": replace(
                _TABLES["jsonl"],
                names="elmo.tasks.files.json_records:field_names",
                labels=_TAG_COLUMNS,
            ),
            "conll": ReaderRow(
                "elmo.tasks.tagging.column_files:read_conll", label="tags", named="tag_table"
            ),
            "conllu": ReaderRow("elmo.tasks.tagging.column_files:read_conllu", label="tags"),
            "klp": ReaderRow("elmo.tasks.tagging.column_files:read_klp"),
            "parallel": ReaderRow("elmo.tasks.tagging.parallel_files:read_parallel"),
            "tag_table": ReaderRow(
                "elmo.tasks.tagging.tag_tables:read_tag_table",
                "text",
                "label",
                names="elmo.tasks.files.delimited_tables:column_names",
                labels=_TAG_COLUMNS,
            ),
        },
        # A file of columns can also have the extension .tsv; a table of tags has a header.
        formats=dict.fromkeys(("table", "commas", "documents", "unknown"), "conll"),
        text_columns=(("words",), ("tokens",), ("text",)),
        has_word_tags=True,
        synonyms=("ner", "pos", "chunking", "tagger", "entities"),
        unused=("indicator_dim", "phrases"),
        pipeline_tag="token-classification",
        example=("Tagger", '["He lives in Seoul."]'),
    ),
    TaskRow(
        "sentence_pairs",
        "elmo.tasks.sentence_pairs.sentence_pairs_task:SentencePairs",
        SentencePairsOptions,
        {
            "sentence_pairs": ReaderRow(
                "elmo.tasks.sentence_pairs.sentence_pair_files:read_pairs",
                *("text", "label", ("empty",)),
            ),
            **_TABLES,
        },
        reader="sentence_pairs",
        text_columns=PAIR_COLUMNS,
        answer_columns=("label", "confidence"),
        synonyms=("nli", "entailment", "paraphrase", "pairs"),
        unused=("phrases",),
        pipeline_tag="text-classification",
        example=("SentencePairClassifier", '[("A text.", "Another text.")]'),
    ),
    TaskRow(
        "question_answering",
        "elmo.tasks.question_answering.question_answering_task:QuestionAnswering",
        QuestionAnsweringOptions,
        {"squad": ReaderRow("elmo.tasks.question_answering.squad:read_squad", "text", "label")},
        reader="squad",
        text_columns=(("question", "context"), ("question", "passage")),
        answer_columns=("answer", "start", "end", "score"),
        synonyms=("qa", "question_answer", "reading"),
        unused=("phrases", "empty"),
        pipeline_tag="question-answering",
        example=("QuestionAnswerer", '[("A question?", "A passage.")]'),
    ),
    TaskRow(
        "semantic_roles",
        "elmo.tasks.semantic_roles.semantic_roles_task:SemanticRoles",
        TaggingOptions,
        {
            name: ReaderRow(f"elmo.tasks.semantic_roles.predicate_frames:read_{name}")
            for name in ("conll2005", "conll2012", "propbank")
        },
        formats={
            **dict.fromkeys(("conll", "commas", "unknown"), "conll2005"),
            **dict.fromkeys(("documents", "folder"), "conll2012"),
            "jsonl": "propbank",
        },
        synonyms=("srl", "roles"),
        unused=("phrases", *_COLUMNS),
        example=("SemanticRoleLabeler", '["She robbed a bank."]'),
    ),
    TaskRow(
        "coreference",
        "elmo.tasks.coreference.coreference_task:Coreference",
        CoreferenceOptions,
        {
            "coreference": ReaderRow("elmo.tasks.coreference.coreference_files:read_coreference"),
            "gap": ReaderRow("elmo.tasks.coreference.gap:read_gap"),
        },
        reader="coreference",
        synonyms=("coref", "clusters"),
        unused=("phrases", *_COLUMNS),
        example=("CoreferenceResolver", '["Ada said that she left."]'),
    ),
    TaskRow(
        "word_senses",
        "elmo.tasks.word_senses.word_sense_lookup:WordSenseLookup",
        WordSensesOptions,
        {"word_senses": ReaderRow("elmo.tasks.word_senses.sense_tagged_files:read_senses")},
        reader="word_senses",
        synonyms=("senses",),
        unused=("phrases", *_COLUMNS, *_TRAINING),
        is_lookup=True,
    ),
    TaskRow(
        "nearest_occurrences",
        "elmo.tasks.nearest_occurrences.occurrence_lookup:OccurrenceLookup",
        NearestOccurrencesOptions,
        {
            "occurrences": ReaderRow(
                "elmo.tasks.nearest_occurrences.occurrence_files:read_occurrences"
            )
        },
        reader="occurrences",
        unused=("phrases", *_COLUMNS, *_TRAINING),
        is_lookup=True,
        example=("NearestOccurrenceFinder", '[("bank", "She robbed a bank.")]'),
    ),
):
    register(_row)


def task_row(name: str) -> TaskRow:
    """Return the row of a task."""
    if name not in TASKS:
        raise ConfigError(f"Unknown task {name!r}. Expected one of: {', '.join(TASKS)}.")
    return TASKS[name]


def all_readers() -> dict[str, ReaderRow]:
    """Return the readers of all tasks by name, in alphabetical order.

    Of a reader that several tasks have, it is the row of the first.
    """
    readers: dict[str, ReaderRow] = {}
    for row in TASKS.values():
        readers = {**row.readers, **readers}
    return dict(sorted(readers.items()))


def reader_row(name: str, task: str | None = None) -> ReaderRow:
    """Return the row of a reader: that of the task if it has one, else that of another task."""
    readers = all_readers() if task is None else {**all_readers(), **task_row(task).readers}
    if name not in readers:
        raise ConfigError(
            f"Unknown reader {name!r}. Expected one of: {', '.join(sorted(readers))}, {AUTO}."
        )
    return readers[name]


def synonyms() -> dict[str, str]:
    """Return other names of tasks, with the name of the preset."""
    return {name: row.name.replace("_", "-") for row in TASKS.values() for name in row.synonyms}


def imported(place: str) -> Callable[..., object]:
    """Import a class or function, given as "module:name"."""
    module, name = place.split(":")
    found: Callable[..., object] = getattr(import_module(module), name)
    return found
