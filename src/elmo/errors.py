"""The exception tree. Every error a user can cause is one of these, and its message stands alone.

ElmoError
├── ConfigError   a dial, option or argument contradicts itself or the model
├── FormatError   a file is not what it should be: missing, torn, of another kind, of wrong shape
├── InputError    the text given cannot be read or has no defined result
├── OutputError   a result could not be written; nothing was left under the final name
├── TrainingError a run had to stop: out of memory, diverged; what it had saved is intact
└── MissingExtra  an optional dependency is not installed; the message holds the install command

A message tells what was found, what was expected and what to do.
"""


class ElmoError(Exception):
    """Root of every error raised on purpose by this package."""


class ConfigError(ElmoError):
    """A dial, option or argument contradicts itself, another one or the model."""


class FormatError(ElmoError):
    """A file is missing, torn, of another kind, or its parts do not fit together."""


class InputError(ElmoError):
    """The text given cannot be read, or has no defined result with this model."""


class OutputError(ElmoError):
    """A result could not be written; nothing was left under its final name."""


class TrainingError(ElmoError):
    """A run had to stop; what it had saved before is intact."""


class MissingExtra(ElmoError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        """Say which feature asked for which extra.

        Args:
            feature: what the user wanted, as the subject of a sentence.
            extra: name of the extra which brings the missing package.
        """
        super().__init__(f"{feature} needs an optional package: pip install 'elmo-torch[{extra}]'")
