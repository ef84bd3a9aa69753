"""The `elmo` command-line interface.

Each command calls a function that takes a config dataclass. The flags of a command are the fields
of that class and its sections, and their help texts are the field docstrings. The function is
imported only when the command runs, so that `--help` does not import torch.
"""

from elmo.cli.build_application import application, main
from elmo.cli.command_table import COMMANDS

__all__ = ["COMMANDS", "application", "main"]
