"""Running of a command: its function, its result and its errors."""

import dataclasses
import gc
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from threading import Thread
from typing import Any

import typer

from elmo.cli.command_table import Command
from elmo.cli.usage import WRONG_USAGE
from elmo.errors import ConfigError, ElmoError, interruption_note, shortened
from elmo.kernels.native_library import library
from elmo.threads import BusyCores, choose_threads

INTERRUPTED = 130

TERMINATED = 143


def run_command(
    make_config: Callable[[], object], command: Command, debug: bool, as_json: bool = False
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
        _print_result(result, as_json)
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code != TERMINATED:
            raise
        is_interrupt = isinstance(error, KeyboardInterrupt)
        kept = getattr(error, "__notes__", ["No incomplete files were left."])[-1]
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


def _print_result(result: Any, as_json: bool) -> None:
    """Print a result; one with `parts()` is computed and printed part by part."""
    has_parts = hasattr(result, "parts")
    if has_parts and not as_json:
        _print_parts(result.parts())
    # In distributed training, only the first process has a result to print.
    elif has_parts or str(result):
        typer.echo(_json_text(result) if as_json else str(result))


def _print_parts(parts: Iterator[str]) -> None:
    """Print a text while it is being written; an interruption ends its line."""
    with interruption_note(lambda: "The text is incomplete."):
        try:
            for part in parts:
                typer.echo(part, nl=False)
        except (KeyboardInterrupt, SystemExit):
            typer.echo()
            raise


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
