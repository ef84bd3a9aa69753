"""`python -m elmo`, the same as the command `elmo`."""

from elmo.cli import main

main()
