"""Config dataclasses to plain data and back: mappings, YAML, flags, and the help of each field."""

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmo.config.renamed import upgrade
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


def from_dict(
    cls: type[Config], data: Any, where: str = "config", base: Config | None = None
) -> Config:
    """Build a config dataclass from plain data; unknown names and wrong types are refused.

    A section that is given in part keeps the rest of its default, which is the default that the
    config around it has for it, not that of the section's class.

    Args:
        cls: the dataclass.
        data: a mapping from field names to plain data.
        where: what to call the data in an error message.
        base: gives what the data do not; the defaults of the class where None.
    """
    _check_mapping(data, where)
    data = upgrade(cls, data)
    hints = get_type_hints(cls)
    fields = dataclasses.fields(typing.cast(Any, cls))
    names = [item.name for item in fields]
    unknown = sorted(set(map(str, data)) - set(names))
    if unknown:
        raise ConfigError(f"{where}: unknown name {', '.join(unknown)}; known: {', '.join(names)}")
    values: dict[str, Any] = {}
    for item in fields:
        default = _default(item, base)
        if item.name in data:
            place = f"{where}.{item.name}"
            values[item.name] = _convert(hints[item.name], data[item.name], place, default)
        elif default is dataclasses.MISSING:
            raise ConfigError(f"{where}: {item.name} is missing and has no default")
        else:
            values[item.name] = default
    return cls(**values)


def _default(item: "dataclasses.Field[Any]", base: Any) -> Any:
    """Give the default of a field, or `MISSING`."""
    if base is not None:
        return getattr(base, item.name)
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default


def _check_mapping(data: Any, where: str) -> None:
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: found {_kind(data)}, expected names with values")


def _convert(hint: Any, value: Any, where: str, default: Any = None) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        base = default if dataclasses.is_dataclass(default) else None
        return from_dict(typing.cast(type[Any], hint), value, where, base)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(_without_none(hint), value, where)
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
    if origin is dict and isinstance(value, dict):
        return {
            _convert(arguments[0], key, where): _convert(arguments[1], item, f"{where}.{key}")
            for key, item in value.items()
        }
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # YAML takes an unquoted `layers: 1` for a number
    plain = origin or hint
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        expected = "list" if plain is tuple else plain.__name__
        raise ConfigError(f"{where}: found {_kind(value)}, expected {expected}")
    return value


def _without_none(hint: Any) -> Any:
    """Give what an optional hint is when it is there, or the hint itself."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    return next(argument for argument in get_args(hint) if argument is not type(None))


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"[:80]


# ------------------------------------------------------------------------------------------- YAML


def to_yaml(config: Any) -> str:
    """Write a config as YAML; `load_config` reads it back."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """A line for each name; lists stay on theirs."""

    Dumper.add_representer(
        list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True)
    )
    return yaml.dump(to_dict(config), Dumper=Dumper, sort_keys=False)


def presets(folder: str = "") -> dict[str, Path]:
    """Give the presets that come with the package, by name.

    Args:
        folder: of those for another verb than `pretrain`.
    """
    home = Path(__file__).parents[1] / "presets" / folder
    return {path.stem: path for path in sorted(home.glob("*.yaml"))}


def load_config(
    cls: type[Config],
    source: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    known: Mapping[str, Path] | None = None,
) -> Config:
    """Build a config from a file and single values, which win over the file.

    Args:
        cls: the dataclass.
        source: a YAML file or one of the known names; None means defaults alone.
        overrides: values by the name of a leaf, at whatever depth it is.
        known: names that stand for files.
    """
    data = {} if source is None else _read_settings(source, known or {})
    where = source or "config"
    _check_mapping(data, where)
    for leaf in leaves(cls):
        if overrides and leaf.name in overrides:
            section, place = data, where
            for name in leaf.path:
                place += f".{name}"
                section = section.setdefault(name, {})
                _check_mapping(section, place)
            section[leaf.name] = overrides[leaf.name]
        elif leaf.is_required and leaf.name not in data:
            inside = "" if source is None else f", nor does {source} set {leaf.name}"
            raise ConfigError(f"{leaf.flag} is not given{inside}: {leaf.help}")
    return from_dict(cls, data, where)


def _read_settings(source: str, known: Mapping[str, Path]) -> Any:
    import yaml

    path = known.get(source, Path(source))
    if not path.is_file():
        names = f"; presets: {', '.join(known)}" if known else ""
        raise ConfigError(f"there is no file {source} to read settings from{names}")
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_loader()) or {}
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"cannot read {source} as YAML: {reason}") from None


def _loader() -> Any:
    """Give YAML's safe loader, taught that 3e-3 is a number; YAML 1.1 wants 3.0e-3."""
    import re

    import yaml

    class Loader(yaml.SafeLoader):
        """Numbers may have an exponent without a point."""

    number = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return Loader


# ------------------------------------------------------------------------------------------ flags


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A field that holds a value, not a section of further fields.

    Attributes:
        name: of the field; unique in a config.
        path: names of the sections it is in, from the top.
        title: what its section is, empty at the top.
        hint: its type.
        default: its value where none is given, or `MISSING`.
        help: the docstring under it.
    """

    name: str
    path: tuple[str, ...]
    title: str
    hint: Any
    default: Any
    help: str

    @property
    def flag(self) -> str:
        """The field on a command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is dataclasses.MISSING

    @property
    def is_many(self) -> bool:
        """Whether it is any number of strings: on a command line, words one after another."""
        return bool(self.hint == tuple[str, ...])

    @property
    def is_switch(self) -> bool:
        """Whether it is yes or no, or nothing said."""
        return _without_none(self.hint) is bool

    @property
    def kind(self) -> str:
        """The type in a word, or the choices."""
        hint = _without_none(self.hint)
        if get_origin(hint) is Literal:
            return "|".join(map(str, get_args(hint)))
        if get_origin(hint) is tuple:
            return "str" if self.is_many else "list"
        # That a value may be absent is of interest where it usually is not.
        absent = hint is not self.hint and self.default is not None
        return f"{hint.__name__}|null" if absent else str(hint.__name__)

    def from_text(self, text: str) -> Any:
        """Read a value as it is typed: `null` or `none` where it may be absent, lists as YAML."""
        hint = _without_none(self.hint)
        value: Any = text
        if hint is not self.hint and text.lower() in ("null", "none"):
            value = None
        elif hint in (int, float):
            try:
                value = hint(text)
            except ValueError:
                value = text  # refused below, with what was expected
        elif get_origin(hint) is tuple:
            import yaml

            try:
                value = yaml.safe_load(text)
            except yaml.YAMLError:
                value = text
        return _convert(self.hint, value, self.flag)


def leaves(cls: type, path: tuple[str, ...] = (), title: str = "", base: Any = None) -> list[Leaf]:
    """List the values a config holds, its own before those of its sections.

    Args:
        cls: the dataclass.
        path: names of the sections that lead to it.
        title: what it is.
        base: holds the defaults; those of the class where None.
    """
    hints, texts = get_type_hints(cls), field_help(cls)
    own: list[Leaf] = []
    deeper: list[Leaf] = []
    for item in dataclasses.fields(typing.cast(Any, cls)):
        hint, text, default = hints[item.name], texts[item.name], _default(item, base)
        if dataclasses.is_dataclass(hint):
            section, what = (*path, item.name), text.rstrip(".")
            deeper += leaves(typing.cast(type, hint), section, what, default)
        else:
            own.append(Leaf(item.name, path, title, hint, default, text))
    return own + deeper


@cache
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
            texts[statement.target.id] = " ".join(str(below.value.value).split())
    return texts
