"""Options that have no effect, which users are not to give."""

import dataclasses
from collections.abc import Collection, Iterator
from typing import Protocol, runtime_checkable

from elmo.errors import ConfigError


@runtime_checkable
class WithUnusedOptions(Protocol):
    """A config, or a section of one, whose options can make others useless."""

    def unused_options(self) -> dict[str, str]:
        """Return the options without effect, and with or without which option that is so."""


def reject_unused(config: object, given: Collection[str]) -> None:
    """Raise an error if an option that the user gave has no effect with the others.

    Values of presets and config files are not checked: a given option can make them useless.

    Args:
        config: The config.
        given: Names of the options that the user gave, apart from those with their defaults.

    Raises:
        ConfigError: A given option has no effect.
    """
    for section in _sections(config):
        if isinstance(section, WithUnusedOptions):
            for name, condition in section.unused_options().items():
                if name in given:
                    raise ConfigError(f"{name} has no effect {condition}.")


def _sections(config: object) -> Iterator[object]:
    """Yield a config and its sections."""
    if dataclasses.is_dataclass(config):
        yield config
        for field in dataclasses.fields(config):
            yield from _sections(getattr(config, field.name))
