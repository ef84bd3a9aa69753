"""Tests that modules only import from lower layers and that there are no import cycles."""

import ast
from pathlib import Path

import pytest

import elmo

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
    ["compat", "tasks"],
    ["demo", "cli"],
    ["__init__", "__main__"],
]
LAYER_OF = {package: number for number, packages in enumerate(LAYERS) for package in packages}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")
}


def imports(path):
    """Return the `elmo` modules that a file imports, including imports inside functions."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("elmo"):
            base = node.module.removeprefix("elmo").removeprefix(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".strip(".")
                imported.add(whole if whole in MODULES else base)
        elif isinstance(node, ast.Import):
            imported |= {
                alias.name.removeprefix("elmo.")
                for alias in node.names
                if alias.name.startswith("elmo.")
            }
    # Only the version is imported from the package itself.
    return {name for name in imported if name}


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
