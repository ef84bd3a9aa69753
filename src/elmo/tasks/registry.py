"""Registry of the tasks by name."""

from collections.abc import Mapping, Sequence
from typing import cast

from elmo.config import TaskConfig, TaskName
from elmo.errors import ConfigError, InputError, shortened
from elmo.tasks.classification.classification_task import Classification
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import LookupTask, Task, TrainedTask
from elmo.tasks.coreference.coreference_task import Coreference
from elmo.tasks.nearest_occurrences.occurrence_lookup import OccurrenceLookup
from elmo.tasks.question_answering.question_answering_task import QuestionAnswering
from elmo.tasks.semantic_roles.semantic_roles_task import SemanticRoles
from elmo.tasks.sentence_pairs.sentence_pairs_task import SentencePairs
from elmo.tasks.tagging.tagging_task import Tagging
from elmo.tasks.word_senses.word_sense_lookup import WordSenseLookup

# Only a task knows the types of its targets and answers. All code that handles tasks in general
# treats them as objects, and `check_targets` verifies the targets.
GeneralTask = Task[object, object]
GeneralTrainedTask = TrainedTask[object, object, object]
GeneralLookupTask = LookupTask[object, object]

TASKS = cast(
    dict[TaskName, type[GeneralTask]],
    {
        "classification": Classification,
        "tagging": Tagging,
        "sentence_pairs": SentencePairs,
        "question_answering": QuestionAnswering,
        "semantic_roles": SemanticRoles,
        "coreference": Coreference,
        "word_senses": WordSenseLookup,
        "nearest_occurrences": OccurrenceLookup,
    },
)


def is_lookup(task: TaskName) -> bool:
    """Whether a task is fitted in one pass instead of training."""
    return issubclass(TASKS[task], LookupTask)


def trained_class(task: TaskName) -> type[GeneralTrainedTask]:
    """Return the class of a trained task."""
    if task not in TASKS:
        raise ConfigError(f"Unknown task {task!r}. Expected one of: {', '.join(TASKS)}.")
    assert issubclass(TASKS[task], TrainedTask)
    return cast(type[GeneralTrainedTask], TASKS[task])


def lookup_class(task: TaskName) -> type[GeneralLookupTask]:
    """Return the class of a lookup task."""
    assert is_lookup(task)
    return cast(type[GeneralLookupTask], TASKS[task])


def make_task(task: TaskName, settings: Mapping[str, object]) -> GeneralTrainedTask:
    """Create a trained task from its name and saved settings."""
    return trained_class(task).from_settings(settings)


def check_targets(task: TaskName, examples: Sequence[Example[object]]) -> None:
    """Check that examples have valid targets and the number of texts that the task requires.

    Args:
        task: Name of the task.
        examples: Examples to check.

    Raises:
        InputError: An example has the wrong number of texts or no valid target.
    """
    task_class = TASKS[task]
    for example in examples:
        if task_class.n_texts not in (None, len(example.texts)):
            raise InputError(
                f"Task {task}: the example {_describe(example)} has {len(example.texts)} texts "
                f"(expected {task_class.n_texts})."
            )
        if not task_class.has_valid_target(example):
            raise InputError(
                f"Task {task}: the example {_describe(example)} has the target "
                f"{example.target!r}; expected {task_class.target_description}."
            )


def check_labels(
    task: GeneralTrainedTask, labels: Sequence[str], dev_labels: Sequence[str]
) -> None:
    """Raise an error if there is only one label to choose from, so that nothing can be learned.

    Args:
        task: The task.
        labels: Labels of the training set.
        dev_labels: Labels of the development set.
    """
    if len(labels) != 1 or not task.labeled_unit:
        return
    unit = task.labeled_unit
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


def _describe(example: Example[object]) -> str:
    name = repr(example.id or shortened(" ".join(example.words), 40))
    location = str(example.location)
    return f"{name} ({location})" if location else name


def task_for(
    task: TaskName, examples: Sequence[Example[object]], config: TaskConfig | None = None
) -> GeneralTrainedTask:
    """Create a trained task with settings from the config or inferred from the examples.

    Args:
        task: Name of the task.
        examples: Training and development examples.
        config: Task options. Default: the default value of every option.

    Raises:
        InputError: An example has the wrong number of texts or no valid target.
    """
    check_targets(task, examples)
    return trained_class(task).from_examples(examples, config or TaskConfig(out=""))
