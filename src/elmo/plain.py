"""Config dataclasses to plain data and back, and the help text under each of their fields."""

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmo.errors import ConfigError

Config = TypeVar("Config")


def to_dict(config: Any) -> dict[str, Any]:
    """Give a config as plain data, tuples as lists."""
    plain: dict[str, Any] = dataclasses.asdict(config, dict_factory=dict)
    return typing.cast(dict[str, Any], _untuple(plain))


def _untuple(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untuple(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_untuple(item) for item in value]
    return value


def from_dict(cls: type[Config], data: Any, where: str = "config") -> Config:
    """Build a config dataclass from plain data; unknown names and wrong types are refused.

    Args:
        cls: the dataclass.
        data: a mapping from field names to plain data.
        where: what to call the data in an error message.
    """
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: found {_kind(data)}, expected names with values")
    hints = get_type_hints(cls)
    names = [item.name for item in dataclasses.fields(typing.cast(Any, cls))]
    unknown = sorted(set(map(str, data)) - set(names))
    if unknown:
        raise ConfigError(f"{where}: unknown name {', '.join(unknown)}; known: {', '.join(names)}")
    values = {
        name: _convert(hints[name], data[name], f"{where}.{name}") for name in names if name in data
    }
    try:
        return cls(**values)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from None


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(type[Any], hint), value, where)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(
                f"{where}: found {value!r}, expected one of {', '.join(map(str, arguments))}"
            )
        return value
    if origin is tuple and isinstance(value, list | tuple):
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise ConfigError(f"{where}: found {len(value)} values, expected {len(arguments)}")
        return tuple(_convert(arguments[0], item, where) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    plain = origin or hint
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        raise ConfigError(f"{where}: found {_kind(value)}, expected {plain.__name__}")
    return value


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"[:80]


def field_help(cls: type) -> dict[str, str]:
    """Map each field of a config dataclass to the docstring under it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts: dict[str, str] = {}
    for statement, below in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            texts[statement.target.id] = str(below.value.value)
    return texts
