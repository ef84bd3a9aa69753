"""Parsing of arguments and the help text of a command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from elmo.cli.command_table import COMMANDS
from elmo.compat.allennlp_command import allennlp_flags, explain_allennlp
from elmo.config.tasks import OPTION_SYNONYMS

if TYPE_CHECKING:
    # typer contains its own copy of click and does not export these classes.
    from typer._click import Command, Context, HelpFormatter

WRONG_USAGE = 2

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


class OrderedGroup(TyperGroup):
    """Command group that lists commands and subgroups in the order of `COMMANDS`."""

    def list_commands(self, ctx: "Context") -> list[str]:
        """Return the command names in the order of `COMMANDS`."""
        return list(dict.fromkeys(words.split()[0] for words in COMMANDS))

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> tuple[str | None, "Command | None", list[str]]:
        """Return the command that the arguments name, and explain the one of AllenNLP."""
        if args[0] == "elmo":
            _reject(f"The command allennlp elmo is elmo embed here. {explain_allennlp(args[1:])}")
        return super().resolve_command(ctx, args)


class SectionedCommand(TyperCommand):
    """Command whose help groups options under headings, which typer only supports with rich."""

    # Flags that other tasks have, with an error message.
    inapplicable: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
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

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
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
