"""Where a value stands in a JSON file, for messages.

A parser tells no places, and few values are ever told of: the line is looked for when it is.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

_BETWEEN = re.compile(r"[\s,:]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Inside:
    """The place of a value in a file that was parsed as a whole.

    Attributes:
        path: of the file.
        text: of the file.
        keys: names and numbers, from 0, that lead to the value.
        name: what it is called, such as record 1.
    """

    path: Path
    text: str = field(repr=False)
    keys: tuple[str | int, ...]
    name: str

    def inner(self, *keys: str | int, name: str) -> "Inside":
        """Give the place of a value in this one."""
        return Inside(self.path, self.text, (*self.keys, *keys), f"{self.name}, {name}")

    def __str__(self) -> str:
        """Say it, with its line."""
        return f"{self.path}, line {_line_of(self.text, self.keys)}, {self.name}"


# Said, or to be looked for.
Where = str | Inside


def _line_of(text: str, keys: tuple[str | int, ...]) -> int:
    """Give the line on which a value begins, from 1."""
    at = _next(text, 0)
    for key in keys:
        # As in parsing, the last of several values of one name counts.
        at = dict(_values(text, at))[key]
    return text.count("\n", 0, at) + 1


def _values(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Give the values of the list or record that begins at a place: names or numbers, and where."""
    is_list = text[at] == "["
    at = _next(text, at + 1)
    for number in count():
        if text[at] in "]}":
            return
        name: str | int = number
        if not is_list:
            name, at = _DECODER.raw_decode(text, at)
            at = _next(text, at)
        yield name, at
        _, at = _DECODER.raw_decode(text, at)
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    """Give where something stands again."""
    match = _BETWEEN.match(text, at)
    assert match is not None
    return match.end()
