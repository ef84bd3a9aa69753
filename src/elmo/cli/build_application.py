"""Building of the `elmo` command-line application."""

import gc
import inspect
import re
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Annotated, cast

import typer

from elmo import __version__
from elmo.cli.command_flags import command_flags, command_function
from elmo.cli.command_table import COMMANDS, GROUPS
from elmo.cli.run_command import TERMINATED
from elmo.cli.usage import OrderedGroup, SectionedCommand


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

    With the typed arguments, only the flags of the command that they name are built, which saves a
    quarter of a second.
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
            flags = command_flags(command, [] if typed is None else _arguments(typed, words))
            function = command_function(command, flags)
            if flags.are_of_task:  # the examples are those of other tasks
                text = text.partition("\b\nExamples:")[0].rstrip()
            inapplicable = {"inapplicable": flags.inapplicable}
            cls = cast(type[SectionedCommand], type(cls.__name__, (cls,), inapplicable))
        parent.command(word, cls=cls, help=text, short_help=short)(function)
    return app


def _arguments(typed: Sequence[str], words: str) -> list[str]:
    """Return the arguments after the words of a command."""
    rest = list(typed)
    for word in words.split():
        rest = rest[rest.index(word) + 1 :]
    return rest


def _unnamed_command() -> None:
    """Stand for a command that the help lists but that is not run: its flags are not built."""
    raise AssertionError("The flags of this command were not built.")
