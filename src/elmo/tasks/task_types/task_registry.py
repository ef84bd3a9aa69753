"""The kinds of tasks by their names."""

from collections.abc import Mapping, Sequence
from typing import Any

from elmo.config import TaskConfig, TaskName
from elmo.errors import ConfigError, InputError
from elmo.tasks.examples import Example
from elmo.tasks.task_types.classification import Classification
from elmo.tasks.task_types.coreference import Coreference
from elmo.tasks.task_types.question_answering import QuestionAnswering
from elmo.tasks.task_types.semantic_roles import SemanticRoles
from elmo.tasks.task_types.sentence_pairs import SentencePairs
from elmo.tasks.task_types.tagging import Tagging
from elmo.tasks.task_types.task import Task

TASKS: dict[TaskName, type[Task]] = {
    "classification": Classification,
    "tagging": Tagging,
    "sentence_pairs": SentencePairs,
    "question_answering": QuestionAnswering,
    "semantic_roles": SemanticRoles,
    "coreference": Coreference,
}


def make_task(task: TaskName, settings: Mapping[str, Any]) -> Task:
    """Make a kind of task anew from its settings."""
    if task not in TASKS:
        raise ConfigError(f"task is {task!r}; expected one of {', '.join(TASKS)}")
    return TASKS[task](**settings)


def check_targets(task: TaskName, examples: Sequence[Example]) -> None:
    """Refuse examples of another kind of task, or without an answer."""
    kind = TASKS[task]
    for example in examples:
        if len(example.texts) != kind.n_texts and not kind.has_sentences:
            raise InputError(
                f"{task}: the example {_named(example)} has {len(example.texts)} texts, expected "
                f"{kind.n_texts}"
            )
        if not kind.has_valid_target(example):
            raise InputError(
                f"{task}: the example {_named(example)} has {example.target!r} for its target, "
                f"expected {kind.target_description}"
            )


def _named(example: Example) -> str:
    name = repr(example.id or " ".join(example.words)[:40])
    where = str(example.location)
    return f"{name} ({where})" if where else name


def task_for(task: TaskName, examples: Sequence[Example], config: TaskConfig | None = None) -> Task:
    """Make the kind of task that examples are for.

    Args:
        task: its name.
        examples: to learn from and to choose by.
        config: dials of the task; the usual ones where None.
    """
    check_targets(task, examples)
    return TASKS[task].from_examples(examples, config or TaskConfig(out=""))
