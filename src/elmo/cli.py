"""The command line: a table from command words to functions, and no logic of its own.

A verb is a function that takes one config dataclass; its flags are the fields of that class and its
help is their docstrings. The function is imported when it runs, so help is printed without torch.
"""

import dataclasses
import inspect
import logging
import re
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, get_type_hints

import typer

from elmo import __version__
from elmo.config import ConvertConfig, DemoConfig, EmbedConfig, InfoConfig
from elmo.errors import ConfigError, ElmoError
from elmo.plain import field_help

# Command word: (config, where the function lives, which fields are positional).
COMMANDS: dict[str, tuple[type, str, tuple[str, ...]]] = {
    "embed": (EmbedConfig, "elmo.embed.embed_file:embed", ("input", "output")),
    "info": (InfoConfig, "elmo.formats.verbs:info", ("model",)),
    "convert": (ConvertConfig, "elmo.formats.verbs:convert", ("model", "output")),
    "demo": (DemoConfig, "elmo.demo:demo", ()),
}

WRONG_USAGE = 2
INTERRUPTED = 130
TERMINATED = 143


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminate)
    application()()


def _terminate(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, which removes what is half-written on its way out."""
    # Some senders, timeout(1) among them, send it twice; the second must not stop the clearing up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(TERMINATED)


def application() -> typer.Typer:
    """Build the command line from the table."""
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

    for word, (config, home, positional) in COMMANDS.items():
        # The mark keeps the lines of the examples apart.
        text = inspect.cleandoc(config.__doc__ or "").replace("Examples:", "\b\nExamples:")
        app.command(word, help=text, short_help=re.split("[:,.]", text)[0])(
            _command(config, home, positional)
        )
    return app


def _command(config: type, home: str, positional: tuple[str, ...]) -> Callable[..., None]:
    """Make a function whose parameters are the fields of a config, for typer to read."""

    def run(**values: Any) -> None:
        debug = values.pop("debug")
        _run(lambda: config(**values), home, debug)

    hints, texts = get_type_hints(config), field_help(config)
    parameters = [
        _parameter(item, hints[item.name], texts[item.name], item.name in positional)
        for item in dataclasses.fields(config)
    ]
    debug = Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")]
    parameters.append(
        inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=debug)
    )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameter(
    item: "dataclasses.Field[Any]",
    hint: Any,
    text: str,
    positional: bool,
) -> inspect.Parameter:
    if positional:
        return inspect.Parameter(
            item.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=Annotated[hint, typer.Argument(help=text, show_default=False)],
        )
    flag = "--" + item.name.replace("_", "-")
    return inspect.Parameter(
        item.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=item.default,
        annotation=Annotated[hint, typer.Option(flag, help=text)],
    )


def _run(make_config: Callable[[], Any], home: str, debug: bool) -> None:
    """Call a verb and print its result; every failure becomes one line and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        module, name = home.split(":")
        typer.echo(getattr(import_module(module), name)(make_config()))
    except KeyboardInterrupt:
        typer.echo("elmo: interrupted; nothing was left half-written", err=True)
        raise typer.Exit(INTERRUPTED) from None
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
