"""Tests that modules only import from lower layers and that there are no import cycles."""

import ast
import re
from pathlib import Path

import pytest

import elmo
from elmo.cli.command_table import COMMANDS
from elmo.tasks.registry.task_rows import TASKS

SOURCE = Path(elmo.__file__).parent
# Lowest layer first. Packages in the same layer do not import each other.
LAYERS = [
    ["cache_folder", "installation", "lazy", "threads"],
    ["errors"],
    ["config", "files", "child_processes", "progress", "kernels"],
    ["text", "model"],
    ["export"],
    ["formats", "corpus"],
    ["inference"],
    ["evaluate"],
    ["embed", "train"],
    ["compat", "semantics", "tasks"],
    ["lab"],
    ["demo"],
    ["integrations", "serve"],
    ["cli"],
    ["__init__", "__main__"],
]
LAYER_OF = {package: number for number, packages in enumerate(LAYERS) for package in packages}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")
}
# A module in a string, as "elmo.package.module" or "elmo.package.module:name". The registry of
# tasks, the table of commands and the tables of lazy imports name modules for `import_module` so.
MODULE_IN_STRING = re.compile(r"elmo((\.[a-z0-9_]+)+)(:\w*)?")


def imports(path):
    """Return the `elmo` modules that a file imports, also inside functions and by name.

    A package stands for its `__init__`, which depends on the modules of its lazy imports.
    """
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("elmo"):
            base = node.module.removeprefix("elmo").removeprefix(".")
            wholes = {f"{base}.{alias.name}".strip(".") for alias in node.names}
            # The version is not imported from another module.
            imported |= {
                whole if known(whole) else base or "__init__" for whole in wholes - {"__version__"}
            }
        elif isinstance(node, ast.Import):
            imported |= {
                alias.name.removeprefix("elmo.")
                for alias in node.names
                if alias.name.startswith("elmo.")
            }
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if match := MODULE_IN_STRING.fullmatch(node.value):
                imported.add(match[1].removeprefix("."))
    # A module can start itself as a program.
    return {known(name) or name for name in imported if MODULES.get(name) != path}


def known(name):
    """Return the name of a module or of the `__init__` of a package; None if there is neither."""
    return next((each for each in (name, f"{name}.__init__") if each in MODULES), None)


def package_of(module):
    return module.split(".")[0]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_module_imports_only_from_lower_layers(module):
    assert package_of(module) in LAYER_OF, f"{package_of(module)} has no layer: add it to LAYERS"
    for other in imports(MODULES[module]):
        if package_of(other) != package_of(module):
            assert LAYER_OF[package_of(other)] < LAYER_OF[package_of(module)], (
                f"{module} imports {other}"
            )


def test_imports_have_no_cycles():
    graph = {module: imports(path) & MODULES.keys() for module, path in MODULES.items()}
    done, path = set(), []

    def visit(module):
        if module in done:
            return
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        path.append(module)
        for other in graph[module]:
            visit(other)
        done.add(path.pop())

    for module in graph:
        visit(module)


def test_training_loop_imports_at_most_eight_modules_of_its_package():
    siblings = {name for name in imports(MODULES["train.loop"]) if package_of(name) == "train"}
    assert len(siblings) <= 8


def test_imports_helper_finds_known_imports():
    assert "kernels.torch_kernels" in imports(MODULES["model.lstm"])
    assert "formats.model_folder" in imports(MODULES["formats.load"])


def test_imports_helper_finds_modules_that_are_imported_by_name():
    for table, places in {
        "tasks.registry.task_rows": [
            *(row.task for row in TASKS.values()),
            *(reader.place for row in TASKS.values() for reader in row.readers.values()),
        ],
        "cli.command_table": [command.function for command in COMMANDS.values()],
    }.items():
        modules = {place.split(":")[0].removeprefix("elmo.") for place in places}
        assert {known(module) for module in modules} <= imports(MODULES[table])
    assert "embed.embedder" in imports(MODULES["__init__"])
    assert "config.__init__" in imports(MODULES["train.pretrain_model"])


def test_only_modules_with_known_tables_import_by_name():
    """The tables of these modules are strings in their package, which `imports` finds."""
    by_name = {
        module
        for module, path in MODULES.items()
        if re.search(r"import_module|__import__", path.read_text(encoding="utf-8"))
    }
    assert by_name == {"lazy", "cli.run_command", "tasks.registry.task_rows"}
