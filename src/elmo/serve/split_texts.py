"""The operation that splits texts into words, which has a queue and a thread of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from elmo.serve.queued_request import Item, Operation, Result
from elmo.text.tokenizer import (
    CharactersAndSpacesTokenizer,
    CharacterTokenizer,
    EnglishTokenizer,
    WhitespaceTokenizer,
)

# Characters that are split before it is the turn of another host; a longer text is split as a
# whole.
TURN_CHARACTERS = 4096
# Texts up to this length are split on the event loop if the tokenizer is fast: in 5 ms at most.
MAX_INLINE_CHARACTERS = 1000
FAST_TOKENIZERS = frozenset(
    {
        CharacterTokenizer.name,
        CharactersAndSpacesTokenizer.name,
        EnglishTokenizer.name,
        WhitespaceTokenizer.name,
    }
)


@dataclass(frozen=True, eq=False)
class SplitTexts(Operation[Item, Result]):
    """Splits the texts of one request into words.

    Attributes:
        tokenizer: Name of the tokenizer.
        n_characters: Function that returns the number of characters of an item.
        split: Function that splits the next item. If it raises an error, the rest is not split.
    """

    name: ClassVar[str] = "split"
    tokenizer: str
    n_characters: Callable[[Item], int]
    split: Callable[[Item], Result]

    @property
    def subject(self) -> str:
        """Name of the tokenizer."""
        return self.tokenizer

    def n_positions(self, item: Item) -> int:
        """Return the number of characters, at least 1."""
        return max(1, self.n_characters(item))

    def is_short(self, n_characters: int) -> bool:
        """Return whether so many characters can be split on the event loop."""
        return n_characters <= (MAX_INLINE_CHARACTERS if self.tokenizer in FAST_TOKENIZERS else 0)

    def run(self, items: Sequence[Item]) -> list[Result]:
        """Return the words of each item."""
        return [self.split(item) for item in items]
