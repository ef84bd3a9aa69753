"""Writers of text that consists of words, from left to right and from right to left."""

from collections.abc import Sequence
from dataclasses import dataclass

from elmo.lab.stop_string import StopString
from elmo.text.tokenizer import (
    CharactersAndSpacesTokenizer,
    CharacterTokenizer,
    replace_surrogates,
)


@dataclass(frozen=True)
class WordText:
    """How words become text: lines of words.

    Attributes:
        names: Words in the order of their ids.
        border: Id of the symbol between two lines.
        separator: Text between two words.
    """

    names: Sequence[str]
    border: int
    separator: str = " "


def separator_of(tokenizer: str | None) -> str:
    """Return the text between two words of a tokenizer: none if its words are characters."""
    characters = (CharacterTokenizer.name, CharactersAndSpacesTokenizer.name)
    return "" if tokenizer in characters else " "


class WordWriter:
    """Implementation of `TextWriter` that writes words after a prompt."""

    def __init__(self, text: WordText, prompt: str, stop: str | None) -> None:
        """Begin with a prompt, whose last word is complete."""
        self.text, self.prompt = text, prompt
        self._stop = StopString(stop)
        self._is_after_word = bool(prompt) and not prompt[-1].isspace()

    @property
    def is_stopped(self) -> bool:
        """Whether the stop string was found."""
        return self._stop.is_found

    def begin(self) -> str:
        """Return the prompt."""
        return replace_surrogates(self.prompt)

    def add(self, symbol: int) -> str:
        """Add a word or line break; text that can be part of the stop string is held back."""
        text = self.text
        is_after_word, self._is_after_word = self._is_after_word, symbol != text.border
        if symbol == text.border:
            return self._stop.add("\n")
        name = text.names[symbol]
        return self._stop.add(f"{text.separator}{name}" if is_after_word else name)

    def end(self) -> str:
        """Return the text that was held back."""
        return self._stop.end()


class BackwardWordWriter:
    """Implementation of `TextWriter` that writes words before a prompt, the end of the text.

    Since the beginning of the text is written last, the text is returned as a whole. It begins
    after the stop string.
    """

    def __init__(self, text: WordText, prompt: str, stop: str | None) -> None:
        """End with a prompt, whose first word is complete."""
        self.text, self.prompt, self.stop = text, prompt, stop
        self.is_stopped = False
        self._written = ""
        self._is_before_word = bool(prompt) and not prompt[0].isspace()

    def begin(self) -> str:
        """Return nothing."""
        return ""

    def add(self, symbol: int) -> str:
        """Add a word or line break at the left, and return nothing."""
        text = self.text
        is_before_word, self._is_before_word = self._is_before_word, symbol != text.border
        name = "\n" if symbol == text.border else text.names[symbol]
        if is_before_word and symbol != text.border:
            name += text.separator
        self._written = name + self._written
        if self.stop is not None and self.stop in self._written:
            self._written = self._written.rpartition(self.stop)[2]
            self.is_stopped = True
        return ""

    def end(self) -> str:
        """Return the whole text."""
        return self._written + replace_surrogates(self.prompt)
