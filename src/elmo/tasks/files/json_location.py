"""Locations of values in a JSON file, for error messages.

The JSON parser does not report positions. The line of a value is therefore searched for, but only
when an error message needs it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

_SEPARATORS = re.compile(r"[\s,:]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class JSONLocation:
    """Location of a value in a file that was parsed as one JSON value.

    Field names and list indices lead to the value, which is described by a name such as "record 1".
    """

    path: Path
    text: str = field(repr=False)
    keys: tuple[str | int, ...]
    name: str

    def child(self, *keys: str | int, name: str) -> "JSONLocation":
        """Return the location of a value nested in this one."""
        return JSONLocation(self.path, self.text, (*self.keys, *keys), f"{self.name}, {name}")

    def __str__(self) -> str:
        return f"{self.path}, line {_line_number(self.text, self.keys)}, {self.name}"


# A description of the location, or an object that determines it on demand.
Location = str | JSONLocation


def _line_number(text: str, keys: tuple[str | int, ...]) -> int:
    """Return the number of the line on which a value begins, counted from 1."""
    position = _skip_separators(text, 0)
    for key in keys:
        # As in the parser, the last of several values with the same name counts.
        position = dict(_values(text, position))[key]
    return text.count("\n", 0, position) + 1


def _values(text: str, position: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key and the position of each value in the list or object at a position."""
    is_list = text[position] == "["
    position = _skip_separators(text, position + 1)
    for number in count():
        if text[position] in "]}":
            return
        name: str | int = number
        if not is_list:
            name, position = _DECODER.raw_decode(text, position)
            position = _skip_separators(text, position)
        yield name, position
        _, position = _DECODER.raw_decode(text, position)
        position = _skip_separators(text, position)


def _skip_separators(text: str, position: int) -> int:
    """Return the next position that is not white space, a comma or a colon."""
    match = _SEPARATORS.match(text, position)
    assert match is not None
    return match.end()
