"""Entry point for `python -m elmo`, which is equivalent to the `elmo` command."""

from elmo.cli import main

main()
