"""Words to character ids: the only file that knows special ids, padding and the shift by one.

Two schemes: UTF-8 bytes, as bilm-tf and AllenNLP have them, and a dictionary of code points, as
ELMoForManyLangs has it. Id 0 is the mask in both: no real token contains it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.errors import FormatError

Ids = NDArray[np.int64]

# Raw ids of the byte scheme, before the shift: 0-255 are bytes.
BEGIN_SENTENCE = 256
END_SENTENCE = 257
BEGIN_WORD = 258
END_WORD = 259
PADDING = 260
N_BYTE_CHARACTERS = 261
SHIFT = 1

BEGIN_MARK = "<S>"
END_MARK = "</S>"


class Characters(Protocol):
    """A character scheme: how many columns, which ids."""

    max_characters: int

    def ids(self, words: Sequence[str]) -> Ids:
        """Spell words, (words, max_characters)."""

    def boundaries(self) -> Ids:
        """Rows of the marks that open and close a sentence, (2, max_characters)."""


def room(max_characters: int) -> int:
    """Count the columns of a row that its word may fill, beside its begin and its end mark."""
    return max_characters - 2


class ByteCharacters:
    """UTF-8 bytes between a begin and an end mark, padded to a fixed width.

    A word is cut to `max_characters - 2` *bytes*, even inside a character; lone surrogates vanish.
    """

    def __init__(
        self, max_characters: int = 50, special_words: Mapping[str, int] | None = None
    ) -> None:
        """Make a mapper.

        Args:
            max_characters: columns of a row.
            special_words: words spelled as one raw id. None here: a literal `<S>` in a text is
                text. AllenNLP has `{"<S>": 256, "</S>": 257}`.
        """
        self.max_characters = max_characters
        self.special_words = dict(special_words or {})

    def ids(self, words: Sequence[str]) -> Ids:
        """Spell words, (words, max_characters), shifted by one."""
        limit = room(self.max_characters)
        spelled = [word.encode("utf-8", "ignore")[:limit] for word in words]
        values = np.frombuffer(b"".join(spelled), dtype=np.uint8)
        lengths = np.fromiter(map(len, spelled), dtype=np.int64, count=len(spelled))
        rows = _spread(
            values, lengths, self.max_characters, begin=BEGIN_WORD, end=END_WORD, padding=PADDING
        )
        if self.special_words:
            for position, word in enumerate(words):
                if word in self.special_words:
                    rows[position] = self._single(self.special_words[word])
        return rows

    def boundaries(self) -> Ids:
        """Rows of the sentence marks: words of one special character each."""
        return np.stack([self._single(BEGIN_SENTENCE), self._single(END_SENTENCE)])

    def _single(self, raw_id: int) -> Ids:
        row = np.full(self.max_characters, PADDING, dtype=np.int64)
        row[:3] = BEGIN_WORD, raw_id, END_WORD
        return row + SHIFT


class DictionaryCharacters:
    """Code points looked up in a dictionary, as ELMoForManyLangs reads them.

    Its code writes the id of `<eow>` *before* a word and that of `<bow>` after it. The published
    weights were trained so, and the swap is kept.
    """

    SPECIALS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")

    def __init__(self, max_characters: int, dictionary: Mapping[str, int]) -> None:
        """Make a mapper.

        Args:
            max_characters: columns of a row.
            dictionary: raw id of each symbol: code points and the six specials.
        """
        missing = [name for name in self.SPECIALS if name not in dictionary]
        if missing:
            raise FormatError(f"the character dictionary has no {', '.join(missing)}")
        self.max_characters = max_characters
        self.dictionary = dict(dictionary)
        points = sorted((ord(s), i) for s, i in dictionary.items() if len(s) == 1)
        self._points = np.array([point for point, _ in points], dtype=np.uint32)
        self._point_ids = np.array([raw_id for _, raw_id in points], dtype=np.int64)

    def ids(self, words: Sequence[str]) -> Ids:
        """Spell words, (words, max_characters), shifted by one."""
        limit = room(self.max_characters)
        cut = [word[:limit] for word in words]
        text = "".join(cut).encode("utf-32-le", "surrogatepass")
        lengths = np.fromiter(map(len, cut), dtype=np.int64, count=len(cut))
        return self._rows(self._look_up(np.frombuffer(text, dtype="<u4")), lengths)

    def boundaries(self) -> Ids:
        """Rows of the sentence marks: words of one special character each."""
        marks = [self.dictionary["<bos>"], self.dictionary["<eos>"]]
        return self._rows(np.array(marks, dtype=np.int64), np.ones(2, dtype=np.int64))

    def _look_up(self, points: NDArray[np.uint32]) -> Ids:
        unknown = np.int64(self.dictionary["<oov>"])
        if not len(self._points):
            return np.full(len(points), unknown)
        place = np.searchsorted(self._points, points).clip(max=len(self._points) - 1)
        return np.where(self._points[place] == points, self._point_ids[place], unknown)

    def _rows(self, values: Ids, lengths: Ids) -> Ids:
        return _spread(
            values,
            lengths,
            self.max_characters,
            begin=self.dictionary["<eow>"],
            end=self.dictionary["<bow>"],
            padding=self.dictionary["<pad>"],
        )


def _spread(
    values: NDArray[np.uint8] | Ids, lengths: Ids, width: int, *, begin: int, end: int, padding: int
) -> Ids:
    """Lay words end to end in `values` out as rows `begin, word, end, padding...`, shifted."""
    rows = np.full((len(lengths), width), padding + SHIFT, dtype=np.int64)
    rows[:, 0] = begin + SHIFT
    flat = rows.reshape(-1)
    first = np.arange(len(lengths), dtype=np.int64) * width + 1
    before = np.cumsum(lengths) - lengths
    places = np.arange(len(values), dtype=np.int64) + np.repeat(first - before, lengths)
    flat[places] = np.add(values, SHIFT, dtype=np.int64)
    flat[first + lengths] = end + SHIFT
    return rows
