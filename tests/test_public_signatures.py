"""Tests that public signatures have no `Any`, which would switch off type checks for callers."""

import ast
from pathlib import Path

import pytest

import elmo

SOURCE = Path(elmo.__file__).parent
TREES = {
    str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(SOURCE.rglob("*.py"))
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def names_in(annotation):
    """Return the names in a type, also in those that are written as strings."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from names_in(ast.parse(node.value, mode="eval").body)
            except SyntaxError:
                continue  # a value of Literal
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def aliases_of_any(trees):
    """Return `Any` and the names of type aliases that contain it, directly or through others."""
    assigned = [
        (target.id, set(names_in(node.value)))
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    found = {"Any"}
    while new := {name for name, names in assigned if names & found} - found:
        found |= new
    return found


def is_public(name):
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def signature_types(function):
    """Yield the name and annotation of each parameter, and of the result."""
    arguments = function.args
    parameters = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    for parameter in (*parameters, arguments.vararg, arguments.kwarg):
        if parameter is not None and parameter.annotation is not None:
            yield f"{function.name}({parameter.arg})", parameter.annotation
    if function.returns is not None:
        yield f"{function.name}()", function.returns


def public_types(tree):
    """Yield the name and annotation of each public parameter, result and field of a class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and is_public(node.name):
            for name, annotation in public_types(node):
                yield f"{node.name}.{name}", annotation
        elif isinstance(node, FUNCTION) and is_public(node.name):
            yield from signature_types(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(tree, ast.ClassDef):
            if is_public(node.target.id):
                yield node.target.id, node.annotation
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from public_types(node)


ALIASES = aliases_of_any(TREES.values())


@pytest.mark.parametrize("module", TREES)
def test_public_signatures_have_no_any(module):
    found = [
        f"{name}: {ast.unparse(annotation)}"
        for name, annotation in public_types(TREES[module])
        if ALIASES & set(names_in(annotation))
    ]
    assert not found


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f(x: Any) -> int: ...", ["f(x)"]),
        ("def f(x, *, y: 'list[Any]' = []) -> dict[str, Any]: ...", ["f(y)", "f()"]),
        ("async def f(*x: Any, **y: typing.Any): ...", ["f(x)", "f(y)"]),
        ("def _f(x: Any): ...", []),
        (
            "class C:\n    x: Any\n    _y: Any\n    def __init__(self, z: Any): ...",
            ["C.x", "C.__init__(z)"],
        ),
        ("class _C:\n    def f(self, x: Any): ...", []),
        ("if True:\n    def f(x: Any): ...", ["f(x)"]),
        ("Rows = list[Any]\nTable = dict[str, Rows]\ndef f(x: Table): ...", ["f(x)"]),
        ("def f(x: Literal['not a type']): ...", []),
    ],
)
def test_any_in_a_signature_is_found(code, names):
    tree = ast.parse(code)
    aliases = aliases_of_any([tree])
    found = [name for name, annotation in public_types(tree) if aliases & set(names_in(annotation))]
    assert found == names
