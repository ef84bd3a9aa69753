"""Checks of option values that several config classes have."""

from numbers import Integral, Real
from os import PathLike

from elmo.errors import ConfigError, shortened

_TYPES: dict[str, tuple[type, ...]] = {
    "an integer": (Integral,),
    "a number": (Real,),
    "a string": (str,),
    "a path": (str, PathLike),
}


def require_at_least_one(config: object, *names: str) -> None:
    """Raise an error if an option is below 1; None, the default of many options, is valid."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be at least 1 (got {value}).")


def require_type(name: str, value: object, expected: str, optional: bool = False) -> None:
    """Raise an error if a value that was passed in Python has another type than expected.

    Args:
        name: Name of the option.
        value: Its value. NumPy numbers are valid, booleans are not numbers.
        expected: "an integer", "a number", "a string" or "a path".
        optional: Whether None is valid.
    """
    if optional and value is None:
        return
    if not isinstance(value, _TYPES[expected]) or isinstance(value, bool):
        kind = "" if value is None else f"{type(value).__name__} "
        raise ConfigError(f"{name} must be {expected} (got {kind}{shortened(repr(value), 80)}).")
