"""Conversion of words to character ids, with special symbols and padding.

There are two kinds of character schemes: UTF-8 bytes, as in bilm-tf and AllenNLP, and symbols from
a dictionary (code points, Korean jamo, or code points as in ELMoForManyLangs). In all schemes, id 0
is reserved for the mask. Raw ids, which start at 0, are therefore shifted by one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmo.errors import FormatError
from elmo.text.jamo import to_jamo

Ids = NDArray[np.int64]

# Raw ids of the byte scheme, before the shift by one; 0 to 255 are bytes.
BEGIN_SENTENCE = 256
END_SENTENCE = 257
BEGIN_WORD = 258
END_WORD = 259
PADDING = 260
N_BYTE_CHARACTERS = 261
SHIFT = 1

N_CODE_POINTS = 0x110000
# Minimum and maximum of `fitted_width`.
WIDTHS = (8, 100)

BEGIN_TOKEN = "<S>"
END_TOKEN = "</S>"


class Characters(Protocol):
    """Interface of a character scheme, which converts words to character ids."""

    max_characters: int

    def ids(self, words: Sequence[str]) -> Ids:
        """Return the character ids of words, (words, max_characters)."""

    def boundaries(self) -> Ids:
        """Return the ids of the two sentence boundary tokens, (2, max_characters)."""


def word_width(max_characters: int) -> int:
    """Return the number of columns for the word itself, without its begin and end ids."""
    return max_characters - 2


class ByteCharacters:
    """UTF-8 bytes between begin-of-word and end-of-word ids, padded to a fixed width.

    Words are truncated to `max_characters - 2` *bytes*, possibly in the middle of a character. Lone
    surrogates are removed.
    """

    def __init__(
        self, max_characters: int = 50, special_words: Mapping[str, int] | None = None
    ) -> None:
        """Create a byte scheme with the given width and special words.

        Args:
            max_characters: Number of ids per word, including the begin-of-word and end-of-word ids.
            special_words: Words that are encoded as a single raw id. Default: none, so that a
                literal `<S>` in a text is encoded character by character like any word. AllenNLP
                uses `{"<S>": 256, "</S>": 257}`.
        """
        self.max_characters = max_characters
        self.special_words = dict(special_words or {})

    def ids(self, words: Sequence[str]) -> Ids:
        """Return the character ids of words, shifted by one, (words, max_characters)."""
        limit = word_width(self.max_characters)
        encoded = [word.encode("utf-8", "ignore")[:limit] for word in words]
        values = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        rows = _padded_rows(
            values, lengths, self.max_characters, begin=BEGIN_WORD, end=END_WORD, padding=PADDING
        )
        if self.special_words:
            for position, word in enumerate(words):
                if word in self.special_words:
                    rows[position] = self._special_row(self.special_words[word])
        return rows

    def boundaries(self) -> Ids:
        """Return the ids of the two boundary tokens, (2, max_characters)."""
        return np.stack([self._special_row(BEGIN_SENTENCE), self._special_row(END_SENTENCE)])

    def _special_row(self, raw_id: int) -> Ids:
        row = np.full(self.max_characters, PADDING, dtype=np.int64)
        row[:3] = BEGIN_WORD, raw_id, END_WORD
        return row + SHIFT


class CodePointCharacters:
    """Code points from a dictionary; unknown code points become `<oov>`."""

    SPECIAL_SYMBOLS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
    WORD_BOUNDARIES = ("<bow>", "<eow>")

    def __init__(self, max_characters: int, dictionary: Mapping[str, int]) -> None:
        """Create a scheme from a dictionary, whose ids are those before the shift by one.

        It must contain the six special symbols. `max_characters` includes the begin-of-word and
        end-of-word ids.
        """
        missing = [name for name in self.SPECIAL_SYMBOLS if name not in dictionary]
        if missing:
            raise FormatError(f"The character dictionary has no {', '.join(missing)}.")
        self.max_characters = max_characters
        self.dictionary = dict(dictionary)
        points = sorted((ord(s), i) for s, i in dictionary.items() if len(s) == 1)
        self._points = np.array([point for point, _ in points], dtype=np.uint32)
        self._point_ids = np.array([raw_id for _, raw_id in points], dtype=np.int64)

    @classmethod
    def symbols(cls, words: Sequence[str]) -> tuple[NDArray[np.uint32], Ids]:
        """Return the concatenated code points of words, and the number of code points per word."""
        text = "".join(words).encode("utf-32-le", "surrogatepass")
        lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
        return np.frombuffer(text, dtype="<u4"), lengths

    def ids(self, words: Sequence[str]) -> Ids:
        """Return the character ids of words, shifted by one, (words, max_characters)."""
        limit = word_width(self.max_characters)
        # Every code point is at least one symbol, so this only shortens the work below.
        points, lengths = self.symbols([word[:limit] for word in words])
        if lengths.max(initial=0) > limit:
            before = np.repeat(np.cumsum(lengths) - lengths, lengths)
            points = points[np.arange(len(points)) - before < limit]
            lengths = lengths.clip(max=limit)
        return self._rows(self._look_up(points), lengths)

    def boundaries(self) -> Ids:
        """Return the ids of the two boundary tokens, (2, max_characters)."""
        symbols = [self.dictionary["<bos>"], self.dictionary["<eos>"]]
        return self._rows(np.array(symbols, dtype=np.int64), np.ones(2, dtype=np.int64))

    def _look_up(self, points: NDArray[np.uint32]) -> Ids:
        unknown = np.int64(self.dictionary["<oov>"])
        if not len(self._points):
            return np.full(len(points), unknown)
        index = np.searchsorted(self._points, points).clip(max=len(self._points) - 1)
        return np.where(self._points[index] == points, self._point_ids[index], unknown)

    def _rows(self, values: Ids, lengths: Ids) -> Ids:
        begin, end = self.WORD_BOUNDARIES
        return _padded_rows(
            values,
            lengths,
            self.max_characters,
            begin=self.dictionary[begin],
            end=self.dictionary[end],
            padding=self.dictionary["<pad>"],
        )


class DictionaryCharacters(CodePointCharacters):
    """Code points in the format of ELMoForManyLangs.

    ELMoForManyLangs puts the id of `<eow>` *before* a word and the id of `<bow>` after it. The
    published weights were trained this way, so this class does the same.
    """

    WORD_BOUNDARIES = ("<eow>", "<bow>")


class JamoCharacters(CodePointCharacters):
    """Code points, with Hangul syllables decomposed into jamo."""

    @classmethod
    def symbols(cls, words: Sequence[str]) -> tuple[NDArray[np.uint32], Ids]:
        """Return the concatenated symbols of words, and the number of symbols per word."""
        return to_jamo(*super().symbols(words))


SYMBOL_SCHEMES: dict[str, type[CodePointCharacters]] = {
    "codepoints": CodePointCharacters,
    "dictionary": DictionaryCharacters,
    "jamo": JamoCharacters,
}
"""Character schemes with a dictionary, by name."""


def build_dictionary(
    words: Iterable[str], counts: Iterable[int], scheme: str, min_count: int = 2
) -> dict[str, int]:
    """Build a symbol dictionary: special symbols, then other symbols by decreasing frequency.

    Symbols rarer than `min_count` become `<oov>`, so that the embedding of `<oov>` is trained.
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
    """Return the number of columns with which 99.9% of running words are not truncated."""
    totals = np.zeros(WIDTHS[1], dtype=np.int64)
    for part, part_counts in _parts(words, counts):
        if scheme == "bytes":
            encoded = (len(word.encode("utf-8", "ignore")) for word in part)
            lengths = np.fromiter(encoded, dtype=np.int64, count=len(part))
        else:
            lengths = SYMBOL_SCHEMES[scheme].symbols(part)[1]
        np.add.at(totals, lengths.clip(max=len(totals) - 1), part_counts)
    covered = np.cumsum(totals)
    # 99.9% in integer arithmetic; a text without words gives 0.
    longest = int(np.searchsorted(covered * 1000, covered[-1] * 999))
    return min(max(longest + 2, WIDTHS[0]), WIDTHS[1])


def _parts(words: Iterable[str], counts: Iterable[int]) -> Iterator[tuple[list[str], Ids]]:
    """Yield words and their counts in blocks of 65,536 words."""
    word, count = iter(words), iter(counts)
    while part := list(islice(word, 2**16)):
        yield part, np.fromiter(islice(count, len(part)), dtype=np.int64, count=len(part))


def _padded_rows(
    values: NDArray[np.uint8] | Ids, lengths: Ids, width: int, *, begin: int, end: int, padding: int
) -> Ids:
    """Return rows `begin, word, end, padding...` of ids, shifted by one, (words, width).

    The values are the concatenated raw ids of all words, of which each has at most `width - 2`.
    """
    rows = np.full((len(lengths), width), padding + SHIFT, dtype=np.int64)
    rows[:, 0] = begin + SHIFT
    flat = rows.reshape(-1)
    first = np.arange(len(lengths), dtype=np.int64) * width + 1
    before = np.cumsum(lengths) - lengths
    positions = np.arange(len(values), dtype=np.int64) + np.repeat(first - before, lengths)
    flat[positions] = np.add(values, SHIFT, dtype=np.int64)
    flat[first + lengths] = end + SHIFT
    return rows
