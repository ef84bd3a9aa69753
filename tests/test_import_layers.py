"""The floors of the house: a file imports from below its own room, and inside it without loops."""

import ast
from pathlib import Path

import pytest

import elmo

SOURCE = Path(elmo.__file__).parent
# Lowest first; rooms on one floor do not know each other.
FLOORS = [
    ["errors", "lazy"],
    ["config", "files", "child_processes", "progress", "kernels"],
    ["text", "model"],
    ["export"],
    ["formats", "corpus"],
    ["evaluate"],
    ["embed", "train"],
    ["compat", "tasks"],
    ["demo", "cli"],
    ["__init__", "__main__"],
]
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")
}


def imports(path):
    """Give the names of this package's modules that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("elmo"):
            base = node.module.removeprefix("elmo").removeprefix(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".strip(".")
                found.add(whole if whole in MODULES else base)
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("elmo.")
                for alias in node.names
                if alias.name.startswith("elmo.")
            }
    # The package itself is asked for its version only.
    return {name for name in found if name}


def room(module):
    return module.split(".")[0]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_down(module):
    assert room(module) in FLOOR_OF, f"{room(module)} has no floor: add it to FLOORS"
    for other in imports(MODULES[module]):
        if room(other) != room(module):
            assert FLOOR_OF[room(other)] < FLOOR_OF[room(module)], f"{module} imports {other}"


def test_no_loops():
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


def test_the_check_sees_imports():
    assert "kernels.dispatch" in imports(MODULES["model.lstm"])
    assert "formats.model_folder" in imports(MODULES["formats.load"])
