"""One labelled text, whatever file it came from."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """What a task is trained on, measured on, or asked.

    Attributes:
        texts: the word sequences to be embedded: one for classification and tagging.
        target: what is to be found: a label for classification, a tuple of tags for tagging; None
            where it is not known.
        id: name of the example in its file, empty where it has none.
    """

    texts: tuple[tuple[str, ...], ...]
    target: Any = None
    id: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The first text."""
        return self.texts[0]
