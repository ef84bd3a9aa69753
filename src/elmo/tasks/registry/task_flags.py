"""Flags of `elmo task fit` that apply to the task on the command line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, replace
from typing import Literal

from elmo.config.serialization import Leaf, Preset, leaves, load_config
from elmo.errors import ConfigError
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_rows import AUTO, TASKS, TaskRow, all_readers, task_row

# Options without a flag, because a task is trained on one device without gradient accumulation.
HIDDEN = ("devices", "num_nodes", "accumulate")


def named_config(
    arguments: Sequence[str], known: Mapping[str, Preset], synonyms: Mapping[str, str]
) -> TaskConfig | None:
    """Return the config given on the command line; None if it is missing or invalid.

    The arguments are those after `elmo task fit`. Synonyms map other names to the preset to
    suggest.
    """
    switches = {leaf.flag for leaf in all_leaves() if leaf.is_switch}
    switches |= {flag.replace("--", "--no-", 1) for flag in switches}
    switches |= {"--help", "-h", "--json", "--debug"}
    source, task = None, None
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            source = source or word
        elif word not in switches and "=" not in word:
            value = next(words, None)
            task = value if word == "--task" else task
        elif word.startswith("--task="):
            task = word.partition("=")[2]
    if source is None:
        return None
    overrides = {"out": "", **({} if task is None else {"task": task})}
    try:
        return load_config(TaskConfig, source, overrides, known, synonyms)
    except ConfigError:
        return None  # reported when the command is run


def task_leaves(config: TaskConfig) -> list[Leaf]:
    """Return the options that apply to the task of a config, with its values as defaults."""
    row = task_row(config.task)
    applying = [
        leaf
        for leaf in leaves(TaskConfig, base=config)
        if _applies(leaf, row) and not _hidden(leaf)
    ]
    return [
        replace(leaf, default=MISSING) if leaf.name == "out" else _with_choices(leaf, row.readers)
        for leaf in applying
    ]


def all_leaves() -> list[Leaf]:
    """Return the options of all tasks; those of one task are grouped by task."""
    found: dict[str, Leaf] = {}
    for name in TASKS:
        for leaf in leaves(TaskConfig, data={"task": name}):
            before = found.get(leaf.name, leaf)
            if leaf.path == ("options",) and leaf.title not in before.title.split(", "):
                leaf = replace(before, title=f"{before.title}, {leaf.title.lower()}")
            found[leaf.name] = leaf
    return [_with_choices(leaf, all_readers()) for leaf in found.values() if not _hidden(leaf)]


def inapplicable_flags(config: TaskConfig, shown: Iterable[Leaf]) -> dict[str, str]:
    """Return the flags of other tasks, with an error message."""
    flags = {leaf.flag for leaf in shown}
    message = f"does not apply to {config.task}. `elmo task fit TASK --help` shows what does."
    return {leaf.flag: f"{leaf.flag} {message}" for leaf in all_leaves() if leaf.flag not in flags}


def _with_choices(leaf: Leaf, readers: Iterable[str]) -> Leaf:
    """Return an option with the names of readers or tasks as its choices."""
    choices = {"reader": (AUTO, *readers), "task": tuple(TASKS)}.get(leaf.name)
    return leaf if choices is None else replace(leaf, hint=Literal[choices])


def _applies(leaf: Leaf, row: TaskRow) -> bool:
    return leaf.name not in row.unused and not set(leaf.path) & set(row.unused)


def _hidden(leaf: Leaf) -> bool:
    return leaf.name in HIDDEN
