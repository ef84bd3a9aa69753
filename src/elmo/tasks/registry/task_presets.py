"""Presets of the tasks themselves, as opposed to those of data sets."""

from elmo.config.serialization import Preset, presets
from elmo.tasks.registry.task_rows import TASKS


def task_presets() -> dict[str, Preset]:
    """Return the preset of each task, by its name with dashes.

    It is the file in `presets/task_types`; a task without one has the defaults of all options.
    """
    files = presets("task_types")
    tasks = {name.replace("_", "-"): name for name in sorted(TASKS)}
    return {preset: files.get(preset) or {"task": name} for preset, name in tasks.items()}
