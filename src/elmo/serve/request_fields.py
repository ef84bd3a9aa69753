"""Fields of a JSON object with the expected types; other values are errors with their place."""

from collections.abc import Collection, Sequence

from elmo.errors import did_you_mean, shortened
from elmo.serve.api_error import invalid

# Characters of names and options. Messages quote them.
MAX_CHARACTERS = 1000
# Types of JSON values, for messages.
_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class RequestFields:
    """The fields of a request. Each method reads one; all errors have the status 422.

    A field that is not required can be null, which is the same as leaving it out.
    """

    def __init__(self, data: object, allowed: Collection[str]) -> None:
        """Check the names of the fields."""
        if not isinstance(data, dict):
            raise invalid(f"The body must be an object, not {kind(data)}.")
        for name in data:
            if name not in allowed:
                shown = shortened(name[:MAX_CHARACTERS], 40)
                raise invalid(
                    f"Unknown field {shown!r}.{did_you_mean(shown, allowed)} Expected: "
                    f"{', '.join(allowed)}."
                )
        self._data: dict[str, object] = data

    def required(self, name: str) -> object:
        """Return a field of any type that must be there."""
        if name not in self._data:
            raise invalid(f"The field {name} is missing.")
        return self._data[name]

    def optional(self, name: str) -> object:
        """Return a field of any type; None if it is missing."""
        return self._data.get(name)

    def string(self, name: str) -> str | None:
        """Return a string; None if it is missing or null."""
        value = self._data.get(name)
        if value is not None and not isinstance(value, str):
            raise invalid(f"{name} must be a string, not {kind(value)}.")
        return value if value is None else _short(value, name)

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return one of several strings."""
        value = self.string(name)
        if value is not None and value not in choices:
            raise invalid(
                f"{name} must be one of {', '.join(choices)} (got {shortened(repr(value), 40)})."
            )
        return default if value is None else value

    def integer(self, name: str, default: int, minimum: int, maximum: int) -> int:
        """Return an integer within bounds."""
        value = self._data.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid(f"{name} must be an integer, not {kind(value)}.")
        if not minimum <= value <= maximum:
            bounds = f"from {minimum} to {maximum}" if minimum < maximum else f"{minimum}"
            raise invalid(f"{name} must be {bounds} (got {value}).")
        return value

    def layers(self) -> str:
        """Return the name or number of layers as a string; the model checks it."""
        value = self._data.get("layers")
        if value is None:
            return "average"
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise invalid(f"layers must be a string or an integer, not {kind(value)}.")
        return _short(str(value), "layers")


def _short(value: str, name: str) -> str:
    """Return a name or option whose length is limited."""
    if len(value) > MAX_CHARACTERS:
        raise invalid(f"{name} has {len(value)} characters, more than {MAX_CHARACTERS}.")
    return value


def as_list(value: object, place: str, maximum: int) -> list[object]:
    """Return a value that is a list of limited length."""
    if not isinstance(value, list):
        raise invalid(f"{place} must be a list, not {kind(value)}.")
    if len(value) > maximum:
        raise invalid(f"{place} has {len(value)} items, more than {maximum}.")
    return value


def as_index(value: object, place: str, length: int) -> int:
    """Return a value that is a valid index of a sequence."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{place} must be an integer, not {kind(value)}.")
    if not 0 <= value < length:
        valid = f"from 0 to {length - 1}" if length else "absent: there are no items"
        raise invalid(f"{place} must be {valid} (got {value}).")
    return value


def kind(value: object) -> str:
    """Return the type of a JSON value as text."""
    return _NAMES[type(value)]
