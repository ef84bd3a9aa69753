"""The `elmo` command-line interface.

Each command calls a function that takes a config dataclass. The flags of a command are the fields
of that class and its sections, and their help texts are the field docstrings. The function is
imported only when the command runs, so that `--help` does not import torch.
"""

import dataclasses
import gc
import inspect
import json
import logging
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import FrameType, MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup

from elmo import __version__
from elmo.compat.allennlp_command import allennlp_flags, explain_allennlp
from elmo.config import (
    ConvertConfig,
    DemoConfig,
    DownloadConfig,
    EmbedConfig,
    EvaluateConfig,
    FinetuneConfig,
    InfoConfig,
    PrepareConfig,
    PretrainConfig,
    TaskEvaluateConfig,
    TaskPredictConfig,
    VocabConfig,
)
from elmo.config.serialization import Leaf, leaves, load_config, presets
from elmo.config.tasks import OPTION_SYNONYMS
from elmo.errors import ConfigError, ElmoError, shortened
from elmo.kernels.native_library import library
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_flags import all_leaves, inapplicable_flags, named_config, task_leaves
from elmo.tasks.registry.task_rows import synonyms
from elmo.threads import BusyCores, choose_threads


class Command(NamedTuple):
    """Definition of a command.

    Attributes:
        config: Config dataclass whose fields are the arguments.
        function: Module and name of the function, separated by a colon.
        positional: Fields that are positional arguments. If `out` is one of them, it can also be
            given as `--out`.
        file: Metavar of `--config`; empty if the command takes no config file.
        presets: For each type of preset, the subfolder that contains the presets.
        synonyms: Names that users may try instead of a preset, with the preset to suggest.
        is_native: Whether the command will probably need the native kernels.
        shows_threads: Whether to print a reduced number of threads. It does not matter for commands
            that only read and write files.
        example: Example of a command with the required output; {} is replaced by its input.
    """

    config: type
    function: str
    positional: tuple[str, ...] = ()
    file: str = ""
    presets: Mapping[str, str] = MappingProxyType({})
    synonyms: Mapping[str, str] = MappingProxyType({})
    is_native: bool = False
    shows_threads: bool = True
    example: str = ""


# Ordered as a new user would need them.
COMMANDS = {
    "demo": Command(DemoConfig, "elmo.demo:demo"),
    "embed": Command(
        EmbedConfig,
        "elmo.embed.embed_file:embed",
        ("input", "out"),
        is_native=True,
        example="elmo embed {} vectors.h5",
    ),
    "download": Command(
        DownloadConfig, "elmo.formats.download_model:download", ("name",), shows_threads=False
    ),
    "info": Command(
        InfoConfig, "elmo.tasks.prediction.task_info:info", ("model",), shows_threads=False
    ),
    "convert": Command(
        ConvertConfig,
        "elmo.formats.info_and_convert:convert",
        ("model", "out"),
        shows_threads=False,
        example="elmo convert {} my-elmo",
    ),
    "task fit": Command(
        TaskConfig,
        "elmo.tasks.training.fit:fit",
        ("config",),
        file="preset|file",
        presets={"task": "task_types", "data set": "tasks"},
        synonyms=synonyms(),
    ),
    "task evaluate": Command(
        TaskEvaluateConfig, "elmo.tasks.prediction.predict:evaluate", ("model", "input")
    ),
    "task predict": Command(
        TaskPredictConfig, "elmo.tasks.prediction.predict:predict", ("model", "input", "out")
    ),
    "vocab": Command(VocabConfig, "elmo.corpus.vocab_file:vocab", ("input",), shows_threads=False),
    "prepare": Command(
        PrepareConfig, "elmo.corpus.prepare_corpus:prepare", ("input",), shows_threads=False
    ),
    "pretrain": Command(
        PretrainConfig,
        "elmo.train.pretrain_model:pretrain",
        file="preset|file",
        presets={"preset": ""},
    ),
    "finetune": Command(FinetuneConfig, "elmo.train.finetune_model:finetune", file="file"),
    "evaluate": Command(EvaluateConfig, "elmo.evaluate.evaluate_model:evaluate", ("text",)),
}
GROUPS = {"task": "Train and use models for supervised tasks."}

# Options of earlier versions, with a message on how to replace them.
REMOVED_FLAGS = {
    "--raw": "--raw was removed, because text is tokenized by default. Omit it.",
    "--no-raw": "--no-raw was removed. Use --pretokenized.",
}

# Earlier names of options, which are still accepted.
RENAMED_FLAGS = {"--text-field": "--text-column"}

# Commands that use the tokenizer of a model.
MODEL_COMMANDS = ("embed", "evaluate", "predict")
TOKENIZER_MESSAGE = (
    "The tokenizer belongs to the model. Store another one with: elmo convert MODEL NEW "
    "--tokenizer NAME, then use --model NEW."
)

# If the list of choices is longer than this, it is shown in the help text, not in the metavar.
MAX_METAVAR = 60

WRONG_USAGE = 2
INTERRUPTED = 130
TERMINATED = 143


def main() -> None:
    """Run the command-line interface."""
    signal.signal(signal.SIGTERM, _terminate)
    # Garbage collection takes a fifth of the time of `import torch` and frees almost nothing, so
    # it is disabled until the command's function has been imported.
    gc.disable()
    application(sys.argv[1:])()


def _terminate(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM by raising SystemExit, so that partially written files are removed."""
    # Some programs, timeout(1) among them, send SIGTERM twice; the second must not interrupt the
    # clean-up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(TERMINATED)


def application(typed: Sequence[str] | None = None) -> typer.Typer:
    """Build the command-line application.

    Args:
        typed: Command-line arguments. If given, only the flags of the command that they name are
            built, which saves a quarter of a second. Default: build the flags of all commands.
    """
    app = typer.Typer(
        cls=OrderedGroup,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="ELMo: contextual word vectors.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True)
    def top(
        version: Annotated[
            bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
        ] = False,
    ) -> None:
        if version:
            typer.echo(f"elmo-torch {__version__}")
            raise typer.Exit

    named = None if typed is None else [word for word in typed if not word.startswith("-")]
    groups = {name: typer.Typer(no_args_is_help=True, rich_markup_mode=None) for name in GROUPS}
    for name, group in groups.items():
        app.add_typer(group, name=name, help=GROUPS[name])
    for words, command in COMMANDS.items():
        *outer, word = words.split()
        parent = groups[outer[0]] if outer else app
        # \b tells click to keep the line breaks of the examples.
        text = inspect.cleandoc(command.config.__doc__ or "").replace("Examples:", "\b\nExamples:")
        short = re.split(r"\.(?:\s|$)", text)[0] + "."
        is_named = named is None or words.split() == named[: len(outer) + 1]
        cls: type[SectionedCommand] = SectionedCommand
        function: Callable[..., None] = _unnamed_command
        if is_named:
            flags = _flags(command, [] if typed is None else _arguments(typed, words))
            function = _command_function(command, flags)
            inapplicable = {"inapplicable": flags.inapplicable}
            cls = cast(type[SectionedCommand], type(cls.__name__, (cls,), inapplicable))
        parent.command(word, cls=cls, help=text, short_help=short)(function)
    return app


class Flags(NamedTuple):
    """The flags of a command.

    Attributes:
        leaves: Fields of the config that have a flag or are positional arguments.
        inapplicable: Flags that do not apply to the named task, with an error message.
        are_of_task: Whether the defaults are those of the named task.
    """

    leaves: list[Leaf]
    inapplicable: Mapping[str, str] = MappingProxyType({})
    are_of_task: bool = False


def _arguments(typed: Sequence[str], words: str) -> list[str]:
    """Return the arguments after the words of a command."""
    rest = list(typed)
    for word in words.split():
        rest = rest[rest.index(word) + 1 :]
    return rest


def _flags(command: Command, arguments: Sequence[str]) -> Flags:
    """Return the flags of a command; those of `task fit` depend on the named task."""
    if command.config is not TaskConfig:
        return Flags(leaves(command.config))
    config = named_config(arguments, _known_presets(command), command.synonyms)
    if config is None:
        return Flags(all_leaves())
    shown = task_leaves(config)
    return Flags(shown, inapplicable_flags(config, shown), are_of_task=True)


def _known_presets(command: Command) -> dict[str, Path]:
    known: dict[str, Path] = {}
    for folder in command.presets.values():
        known |= presets(folder)
    return known


def _unnamed_command() -> None:
    """Serve as a placeholder for commands that are listed in the help but not run."""
    raise AssertionError("The flags of this command were not built.")


class OrderedGroup(TyperGroup):
    """Command group that lists commands and subgroups in the order of `COMMANDS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the command names in the order of `COMMANDS`."""
        return list(dict.fromkeys(words.split()[0] for words in COMMANDS))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, and explain the one of AllenNLP."""
        if args[0] == "elmo":
            _reject(f"The command allennlp elmo is elmo embed here. {explain_allennlp(args[1:])}")
        return super().resolve_command(ctx, args)


class SectionedCommand(TyperCommand):
    """Command whose help groups options under headings, which typer only supports with rich."""

    # Flags that other tasks have, with an error message.
    inapplicable: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and explain how to replace an option of earlier programs."""
        replaced: dict[str, str] = {}
        names = {parameter.name for parameter in self.get_params(ctx)}
        if "pretokenized" in names:
            replaced |= REMOVED_FLAGS
        if "text_column" in names:
            args = [_renamed_flag(word) for word in args]
        if ctx.info_name == "embed":
            if flags := allennlp_flags(args):
                are = "is an option" if len(flags) == 1 else "are options"
                _reject(f"{', '.join(flags)} {are} of allennlp elmo. {explain_allennlp(args)}")
        if ctx.info_name in MODEL_COMMANDS and "tokenizer" not in names:
            replaced["--tokenizer"] = TOKENIZER_MESSAGE
        replaced |= {
            f"--{_dashed(synonym)}": f"There is no option --{_dashed(synonym)}. Did you mean "
            f"--{_dashed(name)}?"
            for synonym, name in OPTION_SYNONYMS.items()
            if name in names and synonym not in names
        }
        replaced |= self.inapplicable
        for word in args:
            flag = word.split("=")[0]
            if message := replaced.get(flag) or replaced.get(flag.replace("--no-", "--", 1)):
                _reject(message)
        ctx.allow_extra_args = ctx.info_name == "embed"
        extra = super().parse_args(ctx, args)
        if extra and ctx.info_name == "embed":
            _reject(
                f"embed has one input and one output, but there are {len(extra) + 2} arguments "
                "without a flag. To embed several files, quote the glob ('*.txt') or name their "
                "directory, and choose a directory as output."
            )
        return extra

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the help of all parameters, grouped under their headings."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = f"{parameter.param_type_name.capitalize()}s"
                title = getattr(parameter, "rich_help_panel", None) or default
                sections.setdefault(title, []).append(record)
        for title, records in sorted(sections.items(), key=lambda item: item[0] != "Arguments"):
            with formatter.section(title):
                formatter.write_dl(records)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _reject(message: str) -> NoReturn:
    """Print a message about wrong usage in one line, and exit."""
    typer.echo(f"elmo: {message}", err=True)
    raise typer.Exit(WRONG_USAGE)


def _renamed_flag(word: str) -> str:
    """Replace the earlier name of an option in a command-line argument."""
    flag, equals, value = word.partition("=")
    return f"{RENAMED_FLAGS.get(flag, flag)}{equals}{value}"


def _command_function(command: Command, flags: Flags) -> Callable[..., None]:
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

        _run(make_config, command, debug, as_json)

    notes = _task_defaults(None if flags.are_of_task else command.presets.get("task"))
    parameters = [_parameter(leaf, command, notes) for leaf in fields]
    if "out" in command.positional:
        text = "Same as the argument OUT."
        parameters.append(
            _flag("out_option", str | None, None, "--out", help=text, metavar="<str>")
        )
    if command.file:
        known = [
            f"a {title} ({', '.join(presets(folder))})" for title, folder in command.presets.items()
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
    command: Command, fields: list[Leaf], source: str | None, values: dict[str, Any]
) -> Any:
    """Build the config from command-line values; options not given are None or an empty list."""
    typed = {
        leaf.name: leaf.from_text(value) if isinstance(value, str) else value
        for leaf in fields
        if (value := values[leaf.name]) is not None and value != []
    }
    known = _known_presets(command)
    return load_config(command.config, source, typed, known, command.synonyms)


def _parameter(
    leaf: Leaf, command: Command, task_defaults: Mapping[tuple[str, ...], list[str]]
) -> inspect.Parameter:
    """Return the typer argument or option for a field.

    It accepts any string, which the config parses; errors thus read the same as those for config
    files.

    Args:
        leaf: The field.
        command: The command.
        task_defaults: Values that tasks have instead of the default, by the path of the option.
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
    elif leaf.default is not None and leaf.default is not False and leaf.default != ():
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
def _task_defaults(folder: str | None) -> dict[tuple[str, ...], list[str]]:
    """Return the values that tasks have instead of a default, by the path of the option.

    Args:
        folder: Subfolder with the presets of the tasks; None if the command has none.
    """
    if folder is None:
        return {}
    import yaml

    notes: dict[tuple[str, ...], list[str]] = {}
    for task, path in presets(folder).items():
        for name, value in yaml.safe_load(path.read_text(encoding="utf-8")).items():
            options = value if isinstance(value, dict) else {None: value}
            for option, default in options.items():
                key = (name,) if option is None else (name, option)
                notes.setdefault(key, []).append(f"{task}: {_default_text(default)}")
    notes.pop(("task",))
    return notes


def _config_file(text: str, command: Command) -> inspect.Parameter:
    """Return the positional argument TASK, or the option `--config`."""
    if "config" not in command.positional:
        return _flag("config", str | None, None, "--config", help=text, metavar=f"<{command.file}>")
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


def _run(
    make_config: Callable[[], Any], command: Command, debug: bool, as_json: bool = False
) -> None:
    """Run a command and print its result, or print an error and exit with an error code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        config = make_config()  # first, to report wrong flags before torch is imported
        if command.is_native:
            # On first use, compile the kernels while torch is being imported.
            Thread(target=library, name="compile").start()
        busy = None if "torch" in sys.modules else BusyCores()
        module, name = command.function.split(":")
        function = getattr(import_module(module), name)
        _collect_garbage()
        if busy is not None and "torch" in sys.modules:
            # The kernels of `embed` give a thread on a busy core less work.
            message = choose_threads(busy, is_dynamic=command.is_native)
            if message and command.shows_threads:
                typer.echo(message, err=True)
        result = function(config)
        # In distributed training, only the first process has a result to print.
        if text := str(result):
            typer.echo(_json_text(result) if as_json else text)
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code != TERMINATED:
            raise
        is_interrupt = isinstance(error, KeyboardInterrupt)
        kept = getattr(error, "__notes__", ["No partial output was left."])[-1]
        typer.echo(f"elmo: {'Interrupted' if is_interrupt else 'Terminated'}. {kept}", err=True)
        raise typer.Exit(INTERRUPTED if is_interrupt else TERMINATED) from None
    except BrokenPipeError:
        # The reader closed the pipe. Keep the interpreter from reporting that again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except Exception as error:
        if debug:
            traceback.print_exc(file=sys.stderr)
        elif isinstance(error, ElmoError):
            typer.echo(f"elmo: {error}", err=True)
        else:
            reason = shortened(error, 500)
            message = f"{type(error).__name__}: {reason} (use --debug for a traceback)"
            typer.echo(f"elmo: {message}", err=True)
        raise typer.Exit(WRONG_USAGE if isinstance(error, ConfigError) else 1) from None


def _json_text(result: Any) -> str:
    """Convert a result to JSON, using its `to_dict()` method if it has one, else its fields."""
    data = result.to_dict() if hasattr(result, "to_dict") else dataclasses.asdict(result)
    return json.dumps(data, indent=2, ensure_ascii=False, default=str)


def _collect_garbage() -> None:
    """Re-enable garbage collection if `main` disabled it, excluding objects that exist already.

    Scanning the imported modules at exit would take a quarter of the time of `import torch`.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
