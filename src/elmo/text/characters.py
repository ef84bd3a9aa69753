"""Words to character ids: the only file that knows special ids, padding and the shift by one.

Two kinds of scheme: UTF-8 bytes, as bilm-tf and AllenNLP have them, and symbols looked up in a
dictionary: code points, Korean jamo, and code points as ELMoForManyLangs has them. Id 0 is the mask
in all of them: no real token contains it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.errors import FormatError
from elmo.text.jamo import to_jamo

Ids = NDArray[np.int64]

# Raw ids of the byte scheme, before the shift: 0-255 are bytes.
BEGIN_SENTENCE = 256
END_SENTENCE = 257
BEGIN_WORD = 258
END_WORD = 259
PADDING = 260
N_BYTE_CHARACTERS = 261
SHIFT = 1

N_CODE_POINTS = 0x110000
# Narrowest and widest row that is fitted to a text.
WIDTHS = (8, 100)

BEGIN_TOKEN = "<S>"
END_TOKEN = "</S>"


class Characters(Protocol):
    """A character scheme: how many columns, which ids."""

    max_characters: int

    def ids(self, words: Sequence[str]) -> Ids:
        """Spell words, (words, max_characters)."""

    def boundaries(self) -> Ids:
        """Rows of the marks that open and close a sentence, (2, max_characters)."""


def word_width(max_characters: int) -> int:
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
        limit = word_width(self.max_characters)
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


class CodePointCharacters:
    """Code points looked up in a dictionary; what is not in it is `<oov>`."""

    SPECIAL_SYMBOLS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
    WORD_BOUNDARIES = ("<bow>", "<eow>")

    def __init__(self, max_characters: int, dictionary: Mapping[str, int]) -> None:
        """Make a mapper.

        Args:
            max_characters: columns of a row.
            dictionary: raw id of each symbol: code points and the six specials.
        """
        missing = [name for name in self.SPECIAL_SYMBOLS if name not in dictionary]
        if missing:
            raise FormatError(f"the character dictionary has no {', '.join(missing)}")
        self.max_characters = max_characters
        self.dictionary = dict(dictionary)
        points = sorted((ord(s), i) for s, i in dictionary.items() if len(s) == 1)
        self._points = np.array([point for point, _ in points], dtype=np.uint32)
        self._point_ids = np.array([raw_id for _, raw_id in points], dtype=np.int64)

    @classmethod
    def symbols(cls, words: Sequence[str]) -> tuple[NDArray[np.uint32], Ids]:
        """Give the code points of words, end to end, and how many each word has."""
        text = "".join(words).encode("utf-32-le", "surrogatepass")
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        return np.frombuffer(text, dtype="<u4"), lengths

    def ids(self, words: Sequence[str]) -> Ids:
        """Spell words, (words, max_characters), shifted by one."""
        limit = word_width(self.max_characters)
        # A code point is one symbol at least: what is cut here would be cut below.
        points, lengths = self.symbols([word[:limit] for word in words])
        if lengths.max(initial=0) > limit:
            before = np.repeat(np.cumsum(lengths) - lengths, lengths)
            points = points[np.arange(len(points)) - before < limit]
            lengths = lengths.clip(max=limit)
        return self._rows(self._look_up(points), lengths)

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
        begin, end = self.WORD_BOUNDARIES
        return _spread(
            values,
            lengths,
            self.max_characters,
            begin=self.dictionary[begin],
            end=self.dictionary[end],
            padding=self.dictionary["<pad>"],
        )


class DictionaryCharacters(CodePointCharacters):
    """Code points as ELMoForManyLangs reads them.

    Its code writes the id of `<eow>` *before* a word and that of `<bow>` after it. The published
    weights were trained so, and the swap is kept.
    """

    WORD_BOUNDARIES = ("<eow>", "<bow>")


class JamoCharacters(CodePointCharacters):
    """Code points with Hangul syllables taken apart into their letters."""

    @classmethod
    def symbols(cls, words: Sequence[str]) -> tuple[NDArray[np.uint32], Ids]:
        """Give the letters of words, end to end, and how many each word has."""
        return to_jamo(*super().symbols(words))


SYMBOL_SCHEMES: dict[str, type[CodePointCharacters]] = {
    "codepoints": CodePointCharacters,
    "dictionary": DictionaryCharacters,
    "jamo": JamoCharacters,
}
"""Character schemes that look symbols up in a dictionary."""


def build_dictionary(
    words: Iterable[str], counts: Iterable[int], scheme: str, min_count: int = 2
) -> dict[str, int]:
    """Number the symbols of a text: the specials, then symbols by falling frequency.

    Args:
        words: distinct words.
        counts: how often each stands in the text.
        scheme: a key of `SYMBOL_SCHEMES`.
        min_count: symbols seen less often are left to `<oov>`, so that it is met in training.
    """
    symbols = SYMBOL_SCHEMES[scheme].symbols
    totals = np.zeros(N_CODE_POINTS, dtype=np.int64)
    for part, part_counts in _parts(words, counts):
        points, lengths = symbols(part)
        np.add.at(totals, points, np.repeat(part_counts, lengths))
    order = np.argsort(-totals, kind="stable")
    chosen = order[totals[order] >= max(1, min_count)]
    names = [*CodePointCharacters.SPECIAL_SYMBOLS, *map(chr, chosen.tolist())]
    return {name: number for number, name in enumerate(names)}


def fitted_width(words: Iterable[str], counts: Iterable[int], scheme: str) -> int:
    """Find how many columns spell 999 of 1,000 running words whole, marks included.

    Args:
        words: distinct words.
        counts: how often each stands in the text.
        scheme: `bytes`, or a key of `SYMBOL_SCHEMES`.
    """
    totals = np.zeros(WIDTHS[1], dtype=np.int64)
    for part, part_counts in _parts(words, counts):
        if scheme == "bytes":
            encoded = (len(word.encode("utf-8", "ignore")) for word in part)
            lengths = np.fromiter(encoded, dtype=np.int64, count=len(part))
        else:
            lengths = SYMBOL_SCHEMES[scheme].symbols(part)[1]
        np.add.at(totals, lengths.clip(max=len(totals) - 1), part_counts)
    covered = np.cumsum(totals)
    # 999 of 1,000 in whole numbers; a text without words is covered at once.
    longest = int(np.searchsorted(covered * 1000, covered[-1] * 999))
    return min(max(longest + 2, WIDTHS[0]), WIDTHS[1])


def _parts(words: Iterable[str], counts: Iterable[int]) -> Iterator[tuple[list[str], Ids]]:
    """Take words and their counts some thousands at a time."""
    word, count = iter(words), iter(counts)
    while part := list(islice(word, 2**16)):
        yield part, np.fromiter(islice(count, len(part)), dtype=np.int64, count=len(part))


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
