"""Creates tasks by name, and checks their examples."""

from collections.abc import Mapping, Sequence
from typing import cast

from elmo.config.tasks import TaskOptions
from elmo.errors import InputError, shortened
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import LookupTask, Task, TrainedTask
from elmo.tasks.registry.task_rows import imported, task_row

# Only a task knows the types of its targets and answers. All code that handles tasks in general
# treats them as objects, and `check_targets` verifies the targets.
GeneralTask = Task[object, object]
GeneralTrainedTask = TrainedTask[object, object, object]
GeneralLookupTask = LookupTask[object, object]


def task_class(task: str) -> type[GeneralTask]:
    """Return the class of a task."""
    return cast(type[GeneralTask], imported(task_row(task).task))


def trained_class(task: str) -> type[GeneralTrainedTask]:
    """Return the class of a trained task."""
    assert issubclass(task_class(task), TrainedTask)
    return cast(type[GeneralTrainedTask], task_class(task))


def lookup_class(task: str) -> type[GeneralLookupTask]:
    """Return the class of a lookup task."""
    assert issubclass(task_class(task), LookupTask)
    return cast(type[GeneralLookupTask], task_class(task))


def make_task(task: str, settings: Mapping[str, object]) -> GeneralTrainedTask:
    """Create a trained task from its name and saved settings."""
    return trained_class(task).from_settings(settings)


def check_targets(task: str, examples: Sequence[Example[object]]) -> None:
    """Check that examples have valid targets and the number of texts that the task requires."""
    cls = task_class(task)
    for example in examples:
        if cls.n_texts not in (None, len(example.texts)):
            raise InputError(
                f"Task {task}: the example {_describe(example)} has {len(example.texts)} texts "
                f"(expected {cls.n_texts})."
            )
        if not cls.has_valid_target(example):
            raise InputError(
                f"Task {task}: the example {_describe(example)} has the target "
                f"{example.target!r}; expected {cls.target_description}."
            )


def check_labels(
    task: GeneralTrainedTask, labels: Sequence[str], dev_labels: Sequence[str]
) -> None:
    """Raise an error if there is only one label to choose from, so that nothing can be learned."""
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
    task: str, examples: Sequence[Example[object]], options: TaskOptions | None = None
) -> GeneralTrainedTask:
    """Create a trained task with settings from its options or inferred from the examples."""
    check_targets(task, examples)
    options = options or task_row(task).options()
    return trained_class(task).from_examples(examples, options)
