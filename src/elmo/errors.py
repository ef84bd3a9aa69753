"""Exceptions for all errors that a user can cause.

ElmoError
├── ConfigError   an option or argument is invalid, or conflicts with another one or with the model
├── FormatError   a file is missing or damaged, or has the wrong format or shapes
├── InputError    the input text cannot be read or processed
├── OutputError   a result could not be written; no partial file is left behind
├── TrainingError training ran out of memory or diverged; existing checkpoints are intact
└── MissingExtra  an optional dependency is not installed; the message has the install command

Each message states what is wrong, the value found, what was expected, and what to do.
`did_you_mean` adds the nearest known name to a message about an unknown one.
"""

from collections.abc import Iterable


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
        """Build the message.

        Args:
            feature: Name of the requested feature, used as the subject of the message.
            extra: Name of the extra that installs the missing package.
        """
        # Only this error needs the metadata of the package, which take time to import.
        from elmo.installation import install_command

        super().__init__(f"{feature} requires an optional package: {install_command(extra)}")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to an unknown one; None if none is similar."""
    from difflib import get_close_matches

    by_folded = {_folded(candidate): candidate for candidate in known}
    matches = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.7)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the most similar known name, or an empty string.

    Args:
        name: The unknown name.
        known: All known names.

    Returns:
        The sentence with a space before it, to be appended to the message.
    """
    nearest = nearest_name(name, known)
    return "" if nearest is None else f" Did you mean {nearest}?"


def _folded(name: str) -> str:
    return name.lower().replace("_", "-").strip()
