"""Conversion of config dataclasses to and from plain data, YAML and command-line flags."""

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elmo.config.renamed import section_types, upgrade
from elmo.config.unused_options import reject_unused
from elmo.errors import ConfigError, did_you_mean, nearest_name, shortened

Config = TypeVar("Config")
# The YAML file of a preset, or its values.
Preset = Path | Mapping[str, object]


def to_dict(config: object) -> dict[str, object]:
    """Convert a config to plain dicts and lists."""
    plain = dataclasses.asdict(typing.cast(Any, config), dict_factory=dict)
    return {name: _untuple(value) for name, value in plain.items()}


def _untuple(value: object) -> object:
    if isinstance(value, dict):
        return {key: _untuple(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_untuple(item) for item in value]
    return value


def from_dict(
    cls: type[Config], data: object, where: str = "config", base: Config | None = None
) -> Config:
    """Build a config dataclass from plain data, described by `where` in errors.

    Field names from earlier versions are accepted. If a section is only partially specified, its
    missing values come from the enclosing config's default for that section, which can differ from
    the defaults of the section's own class. Other missing values come from `base`, by default from
    the class.
    """
    values = upgrade(cls, _mapping(data, where))
    try:
        hints = get_type_hints(cls) | section_types(cls, values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    fields = dataclasses.fields(typing.cast(Any, cls))
    names = [item.name for item in fields]
    unknown = sorted(set(map(str, values)) - set(names))
    if unknown:
        raise ConfigError(
            f"{where}: unknown option {', '.join(unknown)}.{_suggestion(cls, unknown[0])} "
            f"Expected: {', '.join(names)}."
        )
    arguments: dict[str, Any] = {}
    for item in fields:
        default = _default(item, base)
        if item.name in values:
            name = f"{where}.{item.name}"
            arguments[item.name] = _convert(hints[item.name], values[item.name], name, default)
        elif default is dataclasses.MISSING:
            raise ConfigError(f"{where}: the required option {item.name} is missing.")
        else:
            arguments[item.name] = default
    return cls(**arguments)


def _suggestion(cls: type, name: str) -> str:
    """Return a sentence that suggests an option, with the names of its sections."""
    paths = {path.rpartition(".")[2]: path for path in _option_paths(cls)}
    nearest = nearest_name(name, paths)
    return "" if nearest is None else f" Did you mean {paths[nearest]}?"


def _option_paths(cls: type, section: str = "") -> Iterator[str]:
    """Yield the dotted names of all options and sections of a config."""
    hints = get_type_hints(cls)
    for item in dataclasses.fields(typing.cast(Any, cls)):
        yield f"{section}{item.name}"
        if dataclasses.is_dataclass(hints[item.name]):
            yield from _option_paths(hints[item.name], f"{section}{item.name}.")


def _default(item: "dataclasses.Field[Any]", base: Any) -> Any:
    """Return the default value of a field, or `dataclasses.MISSING` if it is required."""
    if base is not None:
        return getattr(base, item.name)
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return item.default


def _mapping(data: object, where: str) -> dict[str, object]:
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: expected a mapping of options (got {_typed(data)}).")
    return data


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
                f"{where}: expected one of {', '.join(map(str, arguments))} (got {value!r})."
            )
        return value
    if origin is tuple and isinstance(value, list | tuple):
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise ConfigError(f"{where}: expected {len(arguments)} values (got {len(value)}).")
        return tuple(_convert(arguments[0], item, where) for item in value)
    if origin is dict and isinstance(value, dict):
        return {
            _convert(arguments[0], key, where): _convert(arguments[1], item, f"{where}.{key}")
            for key, item in value.items()
        }
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # YAML reads an unquoted `layers: 1` as a number
    plain = origin or hint
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        expected = "list" if plain is tuple else plain.__name__
        raise ConfigError(f"{where}: expected {expected} (got {_typed(value)}).")
    return value


def _without_none(hint: Any) -> Any:
    """Return the type inside an optional type hint, or the hint itself."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    return next(argument for argument in get_args(hint) if argument is not type(None))


def _typed(value: object) -> str:
    return f"{type(value).__name__} {shortened(repr(value), 80)}"


# ------------------------------------------------------------------------------------------- YAML


def to_yaml(config: object) -> str:
    """Convert a config to YAML that `load_config` can read."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """YAML dumper that writes each list on one line."""

    Dumper.add_representer(
        list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True)
    )
    return yaml.dump(to_dict(config), Dumper=Dumper, sort_keys=False)


def presets(folder: str = "") -> dict[str, Path]:
    """Return the path of each preset in a subfolder, by name; those of `pretrain` by default."""
    home = Path(__file__).parents[1] / "presets" / folder
    return {path.stem: path for path in sorted(home.glob("*.yaml"))}


def load_config(
    cls: type[Config],
    source: str | None = None,
    overrides: Mapping[str, object] | None = None,
    known: Mapping[str, Preset] | None = None,
    synonyms: Mapping[str, str] | None = None,
) -> Config:
    """Build a config from a YAML file or preset and values that override it, by field name.

    `known` has each preset by name; `synonyms` maps other names to the preset to suggest.
    """
    data: dict[str, object] = {}
    given = set()
    where = source or "config"
    if source is not None:
        settings = _read_settings(source, known or {}, synonyms or {})
        data = upgrade(cls, _mapping(settings, where))
    for leaf in leaves(cls, data={**data, **(overrides or {})}):
        if overrides and leaf.name in overrides:
            section, section_name = data, where
            for name in leaf.path:
                section_name += f".{name}"
                section = _mapping(section.setdefault(name, {}), section_name)
            # Users of overrides know an option by its name, not by its section.
            section[leaf.name] = _convert(leaf.hint, overrides[leaf.name], leaf.name)
            # scikit-learn copies an estimator with the defaults of all its options.
            if section[leaf.name] != leaf.default:
                given.add(leaf.name)
        elif leaf.is_required and leaf.name not in data:
            inside = "" if source is None else f", and {source} does not set {leaf.name}"
            raise ConfigError(f"{leaf.flag} is required{inside}: {leaf.help}")
    config = from_dict(cls, data, where)
    reject_unused(config, given)
    return config


def _read_settings(source: str, known: Mapping[str, Preset], synonyms: Mapping[str, str]) -> object:
    import yaml

    path = known.get(source) or known.get(source.replace("_", "-")) or Path(source)
    if isinstance(path, Mapping):
        return dict(path)
    if not path.is_file() and (preset := synonyms.get(source.lower())):
        raise ConfigError(f"There is no preset or file named {source}. Use {preset}.")
    if not path.is_file():
        names = f" Available presets: {', '.join(known)}." if known else ""
        raise ConfigError(
            f"Config file {source} does not exist.{did_you_mean(source, known)}{names}"
        )
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_loader()) or {}
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{source} is not valid YAML: {reason}") from None


def _loader() -> Any:
    """Return a safe YAML loader that also reads 3e-3 as a number (YAML 1.1 requires 3.0e-3)."""
    import re

    import yaml

    class Loader(yaml.SafeLoader):
        """YAML loader that accepts numbers with an exponent but no decimal point."""

    number = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))
    return Loader


# ------------------------------------------------------------------------------------------ flags


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A config field that contains a value, as opposed to a section.

    Attributes:
        name: Field name, unique within a config.
        path: Names of the enclosing sections, outermost first.
        title: Heading of the field's group in the help text; empty for ungrouped fields.
        hint: Type hint.
        default: Default value, or `dataclasses.MISSING` if the field is required.
        help: Help text, which is the docstring below the field.
    """

    name: str
    path: tuple[str, ...]
    title: str
    hint: object
    default: object
    help: str

    @property
    def flag(self) -> str:
        """Command-line flag for the field."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_required(self) -> bool:
        """Whether the field has no default."""
        return self.default is dataclasses.MISSING

    @property
    def is_many(self) -> bool:
        """Whether the field accepts any number of strings."""
        return bool(self.hint == tuple[str, ...])

    @property
    def is_switch(self) -> bool:
        """Whether the field is a boolean, possibly optional."""
        return _without_none(self.hint) is bool

    @property
    def type_name(self) -> str:
        """Type name for the help text, or the choices separated by `|`."""
        hint = _without_none(self.hint)
        if get_origin(hint) is Literal:
            return "|".join(map(str, get_args(hint)))
        if get_origin(hint) is tuple:
            return "str" if self.is_many else "list"
        # Show null as a choice only if it is not the default.
        can_be_null = hint is not self.hint and self.default is not None
        return f"{hint.__name__}|null" if can_be_null else str(hint.__name__)

    def from_text(self, text: str) -> object:
        """Parse a command-line value; lists are YAML, optional ones can be `null` or `none`."""
        hint = _without_none(self.hint)
        value: Any = text
        if hint is not self.hint and text.lower() in ("null", "none"):
            value = None
        elif hint in (int, float):
            try:
                value = hint(text)
            except ValueError:
                value = text  # rejected below with a message about the expected type
        elif get_origin(hint) is tuple:
            import yaml

            try:
                value = yaml.safe_load(text)
            except yaml.YAMLError:
                value = text
        return _convert(self.hint, value, self.flag)


def leaves(
    cls: type,
    path: tuple[str, ...] = (),
    title: str = "",
    base: object = None,
    data: Mapping[str, object] | None = None,
) -> list[Leaf]:
    """Return all fields of a config and its sections as a flat list, the config's own fields first.

    The defaults are those of `base` or of the class. `data` determines the classes of sections.
    Default: the values of `base`. `path` names the enclosing sections, `title` is the heading.
    """
    chosen = section_types(cls, data or ({} if base is None else vars(base)))
    hints, texts = get_type_hints(cls) | chosen, field_help(cls)
    groups = {name: group for group, names in getattr(cls, "GROUPS", {}).items() for name in names}
    values: list[Leaf] = []
    sections: list[Leaf] = []
    for item in dataclasses.fields(typing.cast(Any, cls)):
        hint, text, default = hints[item.name], texts[item.name], _default(item, base)
        if dataclasses.is_dataclass(hint):
            section, heading = (*path, item.name), text.rstrip(".")
            if item.name in chosen:
                heading = inspect.cleandoc(hint.__doc__ or "").splitlines()[0].rstrip(".")
            sections += leaves(typing.cast(type, hint), section, heading, default)
        else:
            heading = groups.get(item.name, title)
            values.append(Leaf(item.name, path, heading, hint, default, text))
    return values + sections


@cache
def field_help(cls: type) -> dict[str, str]:
    """Return the docstring below each field of a config dataclass, by field name."""
    texts: dict[str, str] = {}
    for base in cls.__bases__:
        if dataclasses.is_dataclass(base):
            texts |= field_help(base)
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for statement, below in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            texts[statement.target.id] = " ".join(str(below.value.value).split())
    return texts
