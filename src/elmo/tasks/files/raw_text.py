"""Tokenization of raw text, and handling of texts without words."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from elmo.errors import ConfigError, FormatError
from elmo.progress import format_count
from elmo.tasks.core.example import Example, Target_co
from elmo.tasks.files.json_location import Location
from elmo.text.line_splitter import SplitFunction

logger = logging.getLogger(__name__)

# Handling of a text without words: raise an error; keep the example with the placeholder word
# below, so that a score counts every text of an official file (NSMC has 5 such texts in 150,000
# training examples and 3 in 50,000 test examples); or skip the example.
EmptyTextPolicy = Literal["error", "keep", "skip"]
PLACEHOLDER = "."
# Decides from the columns or fields of an example and its location whether to read it.
RowFilter = Callable[[Mapping[str, object], Location], bool]

_CHOICES = get_args(EmptyTextPolicy)


def to_words(
    texts: Sequence[str | Sequence[str]],
    split: SplitFunction,
    empty: EmptyTextPolicy,
    location: Location,
) -> tuple[tuple[str, ...], ...] | None:
    """Tokenize the texts of an example; return None if one has no words and is to be skipped."""
    if empty not in _CHOICES:
        raise ConfigError(
            f"Unknown value {empty!r} for empty. Expected one of: {', '.join(_CHOICES)}."
        )
    word_lists = []
    for text in texts:
        words = tuple(split(text) if isinstance(text, str) else text)
        if not words and empty == "skip":
            return None
        if not words and empty == "error":
            raise FormatError(
                f"{location}: a text has no words. Correct the file, or use --empty keep (reads "
                f"the text as the word {PLACEHOLDER!r}) or --empty skip."
            )
        word_lists.append(words or (PLACEHOLDER,))
    return tuple(word_lists)


def report_skipped(path: Path, n_skipped: int) -> None:
    """Log the number of rows that were skipped because a text has no words, if there are any."""
    if n_skipped:
        rows = format_count(n_skipped, "row")
        logger.warning("%s: skipped %s with a text without words.", path, rows)


def with_placeholder(example: Example[Target_co]) -> Example[Target_co]:
    """Return an example in which the placeholder replaces texts without words."""
    return replace(example, texts=tuple(words or (PLACEHOLDER,) for words in example.texts))
