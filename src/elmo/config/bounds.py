"""Checks of option values that several config classes have."""

from elmo.errors import ConfigError


def require_at_least_one(config: object, *names: str) -> None:
    """Raise an error if an option is below 1; None, the default of many options, is valid."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1 (got {value}).")
