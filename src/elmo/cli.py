"""The command line: a table from command words to functions, and no logic of its own.

A verb is a function that takes one config dataclass; its flags are the fields of that class, at any
depth, and its help is their docstrings. The function is imported when it runs, so help is printed
without torch.
"""

import gc
import inspect
import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Thread
from types import FrameType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

from elmo import __version__
from elmo.config import (
    ConvertConfig,
    DemoConfig,
    EmbedConfig,
    EvaluateConfig,
    FinetuneConfig,
    InfoConfig,
    PrepareConfig,
    PretrainConfig,
    TaskConfig,
    TaskEvaluateConfig,
    TaskPredictConfig,
    VocabConfig,
)
from elmo.config.serialization import Leaf, leaves, load_config, presets
from elmo.errors import ConfigError, ElmoError
from elmo.kernels.native_library import library


class Verb(NamedTuple):
    """A row of the table.

    Attributes:
        config: the dataclass of its arguments.
        home: where the function lives.
        positional: fields that are given by their place.
        file: what `--config` takes, where there is such a flag.
        presets: folder of its presets, where they are not those of `pretrain`.
        is_native: whether it will want the compiled kernels, most likely.
    """

    config: type
    home: str
    positional: tuple[str, ...] = ()
    file: str = ""
    presets: str = ""
    is_native: bool = False


COMMANDS = {
    "vocab": Verb(VocabConfig, "elmo.corpus.vocab_file:vocab", ("input",)),
    "prepare": Verb(PrepareConfig, "elmo.corpus.prepare_corpus:prepare", ("input",)),
    "pretrain": Verb(PretrainConfig, "elmo.train.pretrain_model:pretrain", file="preset|file"),
    "finetune": Verb(FinetuneConfig, "elmo.train.finetune_model:finetune", file="file"),
    "evaluate": Verb(EvaluateConfig, "elmo.evaluate.perplexity:evaluate", ("text",)),
    "embed": Verb(EmbedConfig, "elmo.embed.embed_file:embed", ("input", "out"), is_native=True),
    "info": Verb(InfoConfig, "elmo.formats.info_and_convert:info", ("model",)),
    "convert": Verb(ConvertConfig, "elmo.formats.info_and_convert:convert", ("model", "output")),
    "task fit": Verb(TaskConfig, "elmo.tasks.fit:fit", ("config",), "preset|file", "tasks"),
    "task evaluate": Verb(TaskEvaluateConfig, "elmo.tasks.predict:evaluate", ("model", "input")),
    "task predict": Verb(
        TaskPredictConfig, "elmo.tasks.predict:predict", ("model", "input", "output")
    ),
    "demo": Verb(DemoConfig, "elmo.demo:demo"),
}
GROUPS = {"task": "Supervised tasks on top of ELMo: fit, evaluate, predict."}

WRONG_USAGE = 2
INTERRUPTED = 130
TERMINATED = 143


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminate)
    # Until the verb is imported: nearly all that imports make stays, and a fifth of the time of
    # `import torch` goes into looking for garbage among it.
    gc.disable()
    application(sys.argv[1:])()


def _terminate(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, which removes what is half-written on its way out."""
    # Some senders, timeout(1) among them, send it twice; the second must not stop the clearing up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(TERMINATED)


def application(typed: Sequence[str] | None = None) -> typer.Typer:
    """Build the command line from the table.

    Args:
        typed: what follows the program's name. Flags are made for the command that is named there
            alone: those of all take a quarter of a second. None makes all.
    """
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        help="ELMo: vectors for words in context.",
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
    for words, verb in COMMANDS.items():
        *outer, word = words.split()
        place = groups[outer[0]] if outer else app
        # The mark keeps the lines of the examples apart.
        text = inspect.cleandoc(verb.config.__doc__ or "").replace("Examples:", "\b\nExamples:")
        short = re.split("[:,.]", text)[0]
        is_named = named is None or words.split() == named[: len(outer) + 1]
        command = _command(verb) if is_named else _only_named
        place.command(word, cls=SectionedCommand, help=text, short_help=short)(command)
    return app


def _only_named() -> None:
    """Stand in the list of commands for one that was not typed, and so is never run."""
    raise AssertionError("the flags of this command were not made")


class SectionedCommand(TyperCommand):
    """A command whose help has its options under headings; typer has them with rich only."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options, and the sections of the config."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = f"{parameter.param_type_name.capitalize()}s"
                title = getattr(parameter, "rich_help_panel", None) or usual
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _command(verb: Verb) -> Callable[..., None]:
    """Make a function whose parameters are the fields of a config, for typer to read."""
    fields = leaves(verb.config)

    def run(**values: Any) -> None:
        debug, source = values.pop("debug"), values.pop("config", None)
        _run(lambda: _config(verb, fields, source, values), verb, debug)

    parameters = [_parameter(leaf, verb) for leaf in fields]
    if verb.file:
        known = "A"
        if "preset" in verb.file:
            known = f"A preset ({', '.join(presets(verb.presets))}) or a"
        text = f"{known} YAML file of all that can be set here; flags win over it."
        parameters.append(_file(text, verb))
    parameters.append(
        _flag("debug", bool, False, "--debug", help="Show a traceback when something fails.")
    )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _config(verb: Verb, fields: list[Leaf], source: str | None, values: dict[str, Any]) -> Any:
    """Build the config from what was typed; what was not typed is None or an empty list."""
    given = {
        leaf.name: leaf.from_text(value) if isinstance(value, str) else value
        for leaf in fields
        if (value := values[leaf.name]) is not None and value != []
    }
    known = presets(verb.presets) if "preset" in verb.file else {}
    return load_config(verb.config, source, given, known)


def _parameter(leaf: Leaf, verb: Verb) -> inspect.Parameter:
    """Make an argument or a flag; its text is read by the config, so that both speak alike."""
    hint: Any = list[str] | None if leaf.is_many else str | None
    if leaf.name in verb.positional:
        argument = typer.Argument(help=leaf.help, show_default=False)
        return inspect.Parameter(
            leaf.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if leaf.is_required else None,
            annotation=Annotated[hint, argument],
        )
    flag = leaf.flag
    if leaf.is_switch:
        hint = bool | None
        # What a file, a default or a model may have switched on can be switched off.
        if verb.file or leaf.default is not False:
            flag += f"/--no-{flag.removeprefix('--')}"
    notes = ["may be repeated"] if leaf.is_many else []
    if leaf.is_required:
        notes.append("required")
    elif leaf.default is not None and leaf.default is not False and leaf.default != ():
        notes.append(f"default: {_shown(leaf.default)}")
    # The names of the sections are needed only by who writes a file.
    names = f" ({'.'.join(leaf.path)})" if verb.file else ""
    section = f"{leaf.title}{names}" if leaf.path else None
    return _flag(
        leaf.name,
        hint,
        None,
        flag,
        help=f"{leaf.help}  [{'; '.join(notes)}]" if notes else leaf.help,
        metavar=None if leaf.is_switch else f"<{leaf.kind}>",
        show_default=False,
        rich_help_panel=section,
    )


def _file(text: str, verb: Verb) -> inspect.Parameter:
    """Make the argument or the flag that names a file of settings."""
    if "config" not in verb.positional:
        return _flag("config", str | None, None, "--config", help=text, metavar=f"<{verb.file}>")
    return inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[str, typer.Argument(help=text, show_default=False)],
    )


def _shown(value: Any) -> str:
    """Write a default as it would be typed."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


def _flag(name: str, hint: Any, default: Any, flag: str, **settings: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[hint, typer.Option(flag, **settings)],
    )


def _run(make_config: Callable[[], Any], verb: Verb, debug: bool) -> None:
    """Call a verb and print its result; every failure becomes one line and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        config = make_config()  # first: a wrong flag need not wait for torch
        if verb.is_native:
            # The first time on a machine: the compiler works while torch is imported.
            Thread(target=library, name="compile").start()
        module, name = verb.home.split(":")
        function = getattr(import_module(module), name)
        _collect_garbage()
        told = str(function(config))
        if told:  # of several processes only one has something to say
            typer.echo(told)
    except KeyboardInterrupt:
        typer.echo("elmo: interrupted; nothing was left half-written", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Who reads the answers has read enough; the end of the process must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except Exception as error:
        if debug:
            traceback.print_exc(file=sys.stderr)
        elif isinstance(error, ElmoError):
            typer.echo(f"elmo: {error}", err=True)
        else:
            kind = type(error).__name__
            reason = " ".join(str(error).split())[:300]
            typer.echo(f"elmo: {kind}: {reason} (--debug shows where)", err=True)
        raise typer.Exit(WRONG_USAGE if isinstance(error, ConfigError) else 1) from None


def _collect_garbage() -> None:
    """Collect garbage again where `main` has stopped it, but never among what was imported.

    The end of the process would look through that too: a quarter of the time of `import torch`.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
