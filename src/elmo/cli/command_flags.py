"""Flags of a command, made from the fields of its config."""

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import typer

from elmo.cli.command_table import Command, FindPresets
from elmo.cli.run_command import run_command
from elmo.config.serialization import Leaf, Preset, leaves, load_config
from elmo.errors import ConfigError
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_flags import all_leaves, inapplicable_flags, named_config, task_leaves

# If the list of choices is longer than this, it is shown in the help text, not in the metavar.
MAX_METAVAR = 60


class Flags(NamedTuple):
    """The flags of a command: fields of its config, which can be positional arguments.

    Inapplicable flags of the named task have an error message. `are_of_task` is whether the
    defaults are those of the named task.
    """

    leaves: list[Leaf]
    inapplicable: Mapping[str, str] = MappingProxyType({})
    are_of_task: bool = False


def command_flags(command: Command, arguments: Sequence[str]) -> Flags:
    """Return the flags of a command; those of `task fit` depend on the named task."""
    if command.config is not TaskConfig:
        return Flags([leaf for leaf in leaves(command.config) if leaf.name not in command.hidden])
    config = named_config(arguments, _known_presets(command), command.synonyms)
    if config is None:
        return Flags(all_leaves())
    shown = task_leaves(config)
    return Flags(shown, inapplicable_flags(config, shown), are_of_task=True)


def _known_presets(command: Command) -> dict[str, Preset]:
    known: dict[str, Preset] = {}
    for find in command.presets.values():
        known |= find()
    return known


def command_function(command: Command, flags: Flags) -> Callable[..., None]:
    """Create a function whose parameters are the config fields, for typer to inspect."""
    fields = flags.leaves

    def run(**values: Any) -> None:
        debug, as_json = values.pop("debug"), values.pop("as_json")
        source, out = values.pop("config", None), values.pop("out_option", None)

        def make_config() -> Any:
            if out is not None and values["out"] is not None:
                raise ConfigError(
                    f"The output is given twice: {values['out']} and --out {out}. Remove one."
                )
            if command.example and out is None and values["out"] is None:
                example = command.example.format(shlex.quote(values[command.positional[0]]))
                raise ConfigError(f"The output (OUT) is missing. Example: {example}")
            return _config(
                command, fields, source, values if out is None else {**values, "out": out}
            )

        run_command(make_config, command, debug, as_json)

    notes = _task_defaults(None if flags.are_of_task else command.presets.get("task"))
    parameters = [_parameter(leaf, command, notes) for leaf in fields]
    if "out" in command.positional:
        text = "Same as the argument OUT."
        parameters.append(
            _flag("out_option", str | None, None, "--out", help=text, metavar="<str>")
        )
    if command.file:
        known = [
            f"a {title} ({', '.join(names)})"
            for title, find in command.presets.items()
            if (names := find())
        ]
        choices = " or ".join([*([", ".join(known)] if known else []), "a YAML config file"])
        text = (
            f"{choices[0].upper()}{choices[1:]}. Flags override its values, which "
            f"{'are' if flags.are_of_task else 'replace'} the defaults shown below."
        )
        parameters.append(_config_file(text, command))
    parameters.append(_flag("as_json", bool, False, "--json", help="Print the result as JSON."))
    parameters.append(_flag("debug", bool, False, "--debug", help="Show a traceback on errors."))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _config(
    command: Command, fields: list[Leaf], source: str | list[str] | None, values: dict[str, Any]
) -> Any:
    """Build the config from command-line values; options not given are None or an empty list.

    The result is a dictionary of configs for a command with several config files.
    """
    typed = {
        leaf.name: leaf.from_text(value) if isinstance(value, str) else value
        for leaf in fields
        if (value := values[leaf.name]) is not None and value != []
    }
    known = _known_presets(command)

    def load(name: str | None) -> Any:
        return load_config(command.config, name, typed, known, command.synonyms)

    if not command.has_many_files:
        assert not isinstance(source, list)
        return load(source)
    names = source or []
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--config {name} is given more than once.")
    return {name: load(name) for name in names} or {"": load(None)}


def _parameter(
    leaf: Leaf, command: Command, task_defaults: Mapping[tuple[str, ...], list[str]]
) -> inspect.Parameter:
    """Return the typer argument or option for a field.

    It accepts any string, which the config parses; errors thus read the same as those for config
    files. `task_defaults` are values that tasks have instead of the default, by path.
    """
    hint: Any = list[str] | None if leaf.is_many else str | None
    if leaf.name in command.positional:
        # The config reports a missing `out`, because it can also be given as --out.
        is_required = leaf.is_required and leaf.name != "out"
        argument = typer.Argument(help=leaf.help, show_default=False, metavar=leaf.name.upper())
        return inspect.Parameter(
            leaf.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if is_required else None,
            annotation=Annotated[hint, argument],
        )
    flag = leaf.flag
    if leaf.is_switch:
        hint = bool | None
        # Switches that can be on by default or in a config file also need a flag to turn them off.
        if command.file or leaf.default is not False:
            flag += f"/--no-{flag.removeprefix('--')}"
    notes = ["repeatable"] if leaf.is_many else []
    if leaf.is_required:
        notes.append("required")
    elif leaf.default is not None and leaf.default is not False and leaf.default not in ((), ""):
        notes.append(f"default: {_default_text(leaf.default)}")
    notes += task_defaults.get((*leaf.path, leaf.name), [])
    text, metavar = leaf.help, f"<{leaf.type_name}>"
    if len(metavar) > MAX_METAVAR:
        text, metavar = f"{text} One of: {leaf.type_name.replace('|', ', ')}.", "<name>"
    # Section names are only needed to write a config file.
    names = f" ({'.'.join(leaf.path)})" if command.file and leaf.path else ""
    return _flag(
        leaf.name,
        hint,
        None,
        flag,
        help=f"{text}  [{'; '.join(notes)}]" if notes else text,
        metavar=None if leaf.is_switch else metavar,
        show_default=False,
        rich_help_panel=f"{leaf.title}{names}" if leaf.title else None,
    )


@cache
def _task_defaults(find: FindPresets | None) -> dict[tuple[str, ...], list[str]]:
    """Return the values that tasks have instead of a default, by the path of the option."""
    if find is None:
        return {}
    import yaml

    notes: dict[tuple[str, ...], list[str]] = {}
    for task, preset in find().items():
        if not isinstance(preset, Path):
            continue  # a task with the defaults
        for name, value in yaml.safe_load(preset.read_text(encoding="utf-8")).items():
            options = value if isinstance(value, dict) else {None: value}
            for option, default in options.items():
                key = (name,) if option is None else (name, option)
                notes.setdefault(key, []).append(f"{task}: {_default_text(default)}")
    notes.pop(("task",))
    return notes


def _config_file(text: str, command: Command) -> inspect.Parameter:
    """Return the positional argument TASK, or the option `--config`."""
    if "config" not in command.positional:
        hint: Any = list[str] | None if command.has_many_files else str | None
        text += "  [repeatable]" * command.has_many_files
        return _flag("config", hint, None, "--config", help=text, metavar=f"<{command.file}>")
    return inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[str, typer.Argument(help=text, show_default=False, metavar="TASK")],
    )


def _default_text(value: Any) -> str:
    """Format a default value as it would be written on the command line."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_default_text, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _flag(name: str, hint: Any, default: Any, flag: str, **settings: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[hint, typer.Option(flag, **settings)],
    )
