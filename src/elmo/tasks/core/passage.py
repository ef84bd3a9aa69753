"""Positions of words in a raw text."""

from collections.abc import Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo.tasks.core.example import IndexRange


@dataclass(frozen=True)
class Passage:
    """A raw text and the character range (start, end) of each word in it."""

    text: str
    word_offsets: tuple[IndexRange, ...]

    @classmethod
    def align(cls, text: str, words: Sequence[str]) -> "Passage":
        """Find each word in the raw text; raise `InputError` if a word is not found in order."""
        offsets: list[IndexRange] = []
        end = 0
        for word in words:
            start = text.find(word, end)
            if start < 0:
                raise InputError(
                    f"The word {word!r} was not found after character {end} of its text. The "
                    "tokenizer must not change the spelling of words."
                )
            end = start + len(word)
            offsets.append((start, end))
        return cls(text, tuple(offsets))

    def text_of(self, word_range: IndexRange) -> str:
        """Return the raw text covered by a range of words."""
        start, end = word_range
        return self.text[self.word_offsets[start][0] : self.word_offsets[end - 1][1]]

    def find_words(self, answer: str, start: int | None = None) -> IndexRange | None:
        """Return the word range of a substring; None if the text does not contain it.

        `start` is the index of its first character. Default: the first occurrence that starts and
        ends at word boundaries or, if there is none, the first occurrence.
        """
        if start is not None:
            is_there = start >= 0 and self.text.startswith(answer, start)
            return self._overlapping(start, start + len(answer)) if is_there else None
        word_starts = {first for first, _ in self.word_offsets}
        word_ends = {last for _, last in self.word_offsets}
        best: int | None = None
        position = self.text.find(answer)
        while position >= 0:
            best = position if best is None else best
            if position in word_starts and position + len(answer) in word_ends:
                best = position
                break
            position = self.text.find(answer, position + 1)
        return None if best is None else self._overlapping(best, best + len(answer))

    def _overlapping(self, start: int, end: int) -> IndexRange | None:
        """Return the range of words that overlap the characters from `start` to `end`."""
        indices = [
            index
            for index, (first, last) in enumerate(self.word_offsets)
            if first < end and start < last
        ]
        return (indices[0], indices[-1] + 1) if indices else None
