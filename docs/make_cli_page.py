"""Writes docs/cli.md from the real help; a test compares the two."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = "import sys; sys.argv[0] = 'elmo'; from elmo.cli import main; main()"
PAGE = Path(__file__).with_name("cli.md")


def help_text(*words: str) -> str:
    """Give what `elmo ... --help` prints, at a fixed width."""
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "--help"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.rstrip()


def page() -> str:
    """Give the whole page."""
    from elmo.cli import COMMANDS

    parts = [
        "# Command line",
        "",
        "Written by `docs/make_cli_page.py` from the program's own help.",
        "",
        "Exit codes: 0 success, 2 wrong usage, 130 Ctrl-C, 143 SIGTERM, 1 any other failure, with",
        "one line on standard error (`--debug` shows a traceback).",
        "",
        "```text",
        help_text(),
        "```",
    ]
    for word in COMMANDS:
        parts += ["", f"## elmo {word}", "", "```text", help_text(*word.split()), "```"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
