"""Registry of the tasks by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from elmo.config import TaskConfig, TaskName
from elmo.errors import ConfigError, InputError, shortened
from elmo.tasks.classification.classification_task import Classification
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import Task
from elmo.tasks.coreference.coreference_task import Coreference
from elmo.tasks.question_answering.question_answering_task import QuestionAnswering
from elmo.tasks.semantic_roles.semantic_roles_task import SemanticRoles
from elmo.tasks.sentence_pairs.sentence_pairs_task import SentencePairs
from elmo.tasks.tagging.tagging_task import Tagging

TASKS: dict[TaskName, type[Task]] = {
    "classification": Classification,
    "tagging": Tagging,
    "sentence_pairs": SentencePairs,
    "question_answering": QuestionAnswering,
    "semantic_roles": SemanticRoles,
    "coreference": Coreference,
}


def make_task(task: TaskName, settings: Mapping[str, Any]) -> Task:
    """Create a task from its name and saved settings."""
    if task not in TASKS:
        raise ConfigError(f"Unknown task {task!r}. Expected one of: {', '.join(TASKS)}.")
    return TASKS[task](**settings)


def check_targets(task: TaskName, examples: Sequence[Example]) -> None:
    """Check that examples have valid targets and the number of texts that the task requires.

    Args:
        task: Name of the task.
        examples: Examples to check.

    Raises:
        InputError: An example has the wrong number of texts or no valid target.
    """
    task_class = TASKS[task]
    for example in examples:
        if len(example.texts) != task_class.n_texts and not task_class.has_sentences:
            raise InputError(
                f"Task {task}: the example {_describe(example)} has {len(example.texts)} texts "
                f"(expected {task_class.n_texts})."
            )
        if not task_class.has_valid_target(example):
            raise InputError(
                f"Task {task}: the example {_describe(example)} has the target "
                f"{example.target!r}; expected {task_class.target_description}."
            )


def check_labels(task: TaskName, labels: Sequence[str], dev_labels: Sequence[str]) -> None:
    """Raise an error if there is only one label to choose from, so that nothing can be learned.

    Args:
        task: Name of the task.
        labels: Labels of the training set.
        dev_labels: Labels of the development set.
    """
    if len(labels) != 1 or task not in ("classification", "sentence_pairs", "tagging"):
        return
    unit = "words" if task == "tagging" else "examples"
    others = [label for label in dev_labels if label != labels[0]]
    if others:
        raise InputError(
            f"All training {unit} have the label {labels[0]!r}; the label {others[0]!r} only "
            "occurs in the development set, which is split off the training set if none is given. "
            "Add training examples, or provide a development set (--dev, or dev= in Python)."
        )
    raise InputError(
        f"All training {unit} have the label {labels[0]!r}. Training requires at least two "
        "different labels."
    )


def _describe(example: Example) -> str:
    name = repr(example.id or shortened(" ".join(example.words), 40))
    location = str(example.location)
    return f"{name} ({location})" if location else name


def task_for(task: TaskName, examples: Sequence[Example], config: TaskConfig | None = None) -> Task:
    """Create a task with settings from the config or inferred from the examples.

    Args:
        task: Name of the task.
        examples: Training and development examples.
        config: Task options. Default: the default value of every option.

    Raises:
        InputError: An example has the wrong number of texts or no valid target.
    """
    check_targets(task, examples)
    return TASKS[task].from_examples(examples, config or TaskConfig(out=""))
