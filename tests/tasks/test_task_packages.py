"""Tests of the structure of `elmo.tasks`: imports between its packages and the registry."""

import ast
import inspect

import pytest
import yaml
from test_import_layers import MODULES, imports

from elmo.config.serialization import leaves, presets
from elmo.tasks.core.task import LookupTask, TrainedTask
from elmo.tasks.registry.task_classes import task_class
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_flags import all_leaves
from elmo.tasks.registry.task_presets import task_presets
from elmo.tasks.registry.task_rows import TASKS, all_readers, imported

MAX_IMPORTS, MAX_LAYERS = 80, 12


def package_imports():
    """Return, for each package of `tasks`, the packages that it imports."""
    graph = {}
    for module, path in MODULES.items():
        _, package, *rest = [*module.split("."), "", ""]
        if module.startswith("tasks.") and any(rest):
            others = {name.split(".")[1] for name in imports(path) if name.startswith("tasks.")}
            graph.setdefault(package, set()).update(others - {package})
    return graph


def test_imports_between_packages_are_few_and_have_no_cycle():
    graph = package_imports()
    assert {"core", "files", "registry", "training", *TASKS} <= graph.keys()
    assert sum(map(len, graph.values())) < MAX_IMPORTS
    n_layers, below = 0, set()
    while len(below) < len(graph):
        layer = {name for name in graph.keys() - below if graph[name] <= below}
        assert layer, f"a cycle among {sorted(graph.keys() - below)}"
        below |= layer
        n_layers += 1
    assert n_layers <= MAX_LAYERS


def test_packages_of_tasks_import_only_shared_code_and_the_task_they_are_a_variant_of():
    shared = {"core", "files"}
    variants = {
        "semantic_roles": {"tagging"},
        "sentence_pairs": {"classification"},
        "question_answering": {"sentence_pairs"},
    }
    for name in TASKS:
        assert package_imports()[name] <= shared | variants.get(name, set())


def test_general_code_names_no_task_and_no_reader():
    general = ("core", "files", "reading", "fitted", "training", "prediction")
    for module, path in MODULES.items():
        if module.startswith(tuple(f"tasks.{name}." for name in general)):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
            assert not TASKS.keys() & strings, module
            # The names of readers are also those of the formats that are detected or written.
            if not module.startswith(("tasks.reading.readers", "tasks.prediction.")):
                assert not all_readers().keys() & strings, module


@pytest.mark.parametrize("name", list(TASKS))
def test_row_of_each_task_is_complete(name):
    row = TASKS[name]
    base = LookupTask if row.is_lookup else TrainedTask
    assert issubclass(task_class(name), base)
    for reader in row.readers.values():
        parameters = [each for each in (reader.text, reader.label, *reader.options) if each]
        assert set(parameters) <= inspect.signature(imported(reader.place)).parameters.keys()
        assert reader.named is None or reader.named in row.readers
        assert (reader.names is None) == (not reader.labels)
    assert row.reader is None or row.reader in row.readers
    # Every unused option exists, and is not one of the task itself.
    common = [leaf for leaf in leaves(TaskConfig, data={"task": name}) if leaf.path != ("options",)]
    names = {leaf.name for leaf in common} | {part for leaf in common for part in leaf.path}
    assert set(row.unused) <= names


def test_preset_of_each_task_has_values():
    tasks = {}
    for name, path in presets("task_types").items():
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        tasks[name] = values.pop("task").replace("_", "-")
        assert values, f"{path} has no values; a task without a preset has the defaults"
    assert all(name == task for name, task in tasks.items())
    assert tasks.keys() <= task_presets().keys()


def test_names_of_options_are_unique_over_all_tasks():
    common = {leaf.name for leaf in all_leaves() if leaf.path != ("options",)}
    for name in TASKS:
        own = [
            leaf.name
            for leaf in leaves(TaskConfig, data={"task": name})
            if leaf.path == ("options",)
        ]
        assert not set(own) & common
