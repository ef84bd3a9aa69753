"""Exceptions for all errors that a user can cause.

ElmoError
├── ConfigError   an option or argument is invalid, or conflicts with another one or with the model
├── FormatError   a file is missing or damaged, or has the wrong format or shapes
├── InputError    the input text cannot be read or processed
├── OutputError   a result could not be written; no partial file is left behind
├── TrainingError training ran out of memory or diverged; existing checkpoints are intact
└── MissingExtra  an optional dependency is not installed; the message has the install command

Each message states what is wrong, the value found, what was expected, and what to do.
`did_you_mean` adds the nearest known name to a message about an unknown one. `shortened` and
`listing` limit the length of a message; they never cut it within a word without a mark.
`interruption_note` adds to Ctrl-C and SIGTERM what the command keeps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager


class ElmoError(Exception):
    """Base class of all errors raised by this package."""


class ConfigError(ElmoError):
    """An option or argument is invalid, or conflicts with another one or with the model."""


class FormatError(ElmoError):
    """A file is missing or damaged, or has the wrong format or inconsistent contents."""


class InputError(ElmoError):
    """The input text cannot be read, or the model cannot process it."""


class OutputError(ElmoError):
    """A result could not be written. No partial file is left behind."""


class TrainingError(ElmoError):
    """A training run failed. Its existing checkpoints are intact."""


class MissingExtra(ElmoError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        """Build the message, whose subject is the feature that the extra provides."""
        # Only this error needs the metadata of the package, which take time to import.
        from elmo.installation import install_command

        super().__init__(f"{feature} requires an optional package: {install_command(extra)}")


@contextmanager
def interruption_note(note: Callable[[], str | None]) -> Iterator[None]:
    """Add a note on the remaining output if Ctrl-C or SIGTERM interrupts the block.

    The command line prints the note of the outermost block. There is none if the function returns
    None.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        if text := note():
            error.add_note(text)
        raise


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one; None if none is similar."""
    from difflib import get_close_matches

    by_folded = {_folded(candidate): candidate for candidate in known}
    matches = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.7)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence, after a space, that suggests the most similar known name, or ""."""
    nearest = nearest_name(name, known)
    return "" if nearest is None else f" Did you mean {nearest}?"


def shortened(text: object, limit: int = 200) -> str:
    """Return a text on one line; a longer one is cut after a word and ends with " ..."."""
    line = " ".join(str(text).split())
    if len(line) <= limit:
        return line
    end = line.rfind(" ", 0, limit + 1)
    # A single long word, such as an address, is cut within the word.
    return f"{line[: end if end > limit // 2 else limit]} ..."


def listing(names: Sequence[str], limit: int = 4) -> str:
    """Return the first names and the number of others as text, or "none"."""
    shown = ", ".join(names[:limit]) or "none"
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def _folded(name: str) -> str:
    return name.lower().replace("_", "-").strip()
