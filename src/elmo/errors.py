"""Exceptions. Every error that a user can cause is one of these, with a self-contained message.

ElmoError
├── ConfigError   an option or argument is invalid, or conflicts with another or the model
├── FormatError   a file is missing, damaged, of another format, or has wrong shapes
├── InputError    the input text cannot be read or has no defined result
├── OutputError   a result could not be written; no partial file is left under its name
├── TrainingError a run stopped: out of memory, or diverged; its saved checkpoints are intact
└── MissingExtra  an optional dependency is not installed; the message has the install command

A message states what is wrong, the value found, what was expected, and what to do.
"""


class ElmoError(Exception):
    """Base class of all errors raised by this package."""


class ConfigError(ElmoError):
    """An option or argument is invalid, or conflicts with another one or with the model."""


class FormatError(ElmoError):
    """A file is missing, damaged or of another format, or its parts do not fit together."""


class InputError(ElmoError):
    """The input text cannot be read, or has no defined result with this model."""


class OutputError(ElmoError):
    """A result could not be written; no partial file is left under its name."""


class TrainingError(ElmoError):
    """A training run stopped; its saved checkpoints are intact."""


class MissingExtra(ElmoError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        """Build the message.

        Args:
            feature: The requested feature, as the subject of a sentence.
            extra: Name of the extra that installs the missing package.
        """
        super().__init__(
            f"{feature} requires an optional package: pip install 'elmo-torch[{extra}]'"
        )
