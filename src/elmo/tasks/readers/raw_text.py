"""Raw text to words, and what to do with a text that has none, or is not wanted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from elmo.errors import ConfigError, FormatError
from elmo.tasks.readers.json_location import Where

SplitFunction = Callable[[str], list[str]]
# What becomes of a text without words: an error; an example with the word below, so that a score
# counts every text of an official file (NSMC has 5 of 150,000 and 3 of 50,000); or nothing.
Empty = Literal["error", "keep", "skip"]
STAND_IN = "."
# Tells from the columns or fields of an example, and where it stands, whether to read it.
Wanted = Callable[[Mapping[str, Any], Where], bool]

_CHOICES = get_args(Empty)


class TrackedSplit:
    """Splits raw text, and knows whether there was any: examples may be in words already."""

    def __init__(self, split: SplitFunction) -> None:
        """Take what splits."""
        self.split = split
        self.was_used = False

    def __call__(self, text: str) -> list[str]:
        """Give the words of a text."""
        self.was_used = True
        return self.split(text)


def to_words(
    texts: Sequence[str | Sequence[str]], split: SplitFunction, empty: Empty, where: Where
) -> tuple[tuple[str, ...], ...] | None:
    """Split the texts of an example; None where it is to be left out.

    Args:
        texts: raw, or words already.
        split: makes words of a raw text.
        empty: what to do where there are none.
        where: file and line, for messages.
    """
    if empty not in _CHOICES:
        raise ConfigError(f"empty is {empty!r}; expected one of {', '.join(_CHOICES)}")
    found = []
    for text in texts:
        words = tuple(split(text) if isinstance(text, str) else text)
        if not words and empty == "skip":
            return None
        if not words and empty == "error":
            raise FormatError(
                f"{where} has a text without words; correct it, or say what to do: "
                f"--empty keep (as the word {STAND_IN!r}) or --empty skip"
            )
        found.append(words or (STAND_IN,))
    return tuple(found)
