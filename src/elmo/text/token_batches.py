"""Sentences to batches of token rows: sentence marks, word ids, distinct words, padding.

A token row is the characters of a word followed by a word id where the model has a word table.
Training streams are another matter and not made here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from elmo.config import ModelConfig
from elmo.errors import ConfigError, InputError
from elmo.text.characters import (
    SHIFT,
    SYMBOL_SCHEMES,
    ByteCharacters,
    Characters,
    Ids,
    word_width,
)

Sentence = Sequence[str]


@dataclass(frozen=True)
class WordTable:
    """Input word ids: the last column of a token row, 0 being the mask.

    Attributes:
        ids: id of each word, at least 1.
        begin: id of the mark that opens a sentence.
        end: id of the mark that closes it.
        unknown: id of a word which is not in the table; 0 where its characters stand for it, None
            where such a word has no defined result.
        max_characters: words are looked up cut to this length, where one is set.
    """

    ids: Mapping[str, int]
    begin: int
    end: int
    unknown: int | None
    max_characters: int | None = None

    def column(self, words: Sequence[str]) -> Ids:
        """Look words up, (words, 1)."""
        cut = self.max_characters
        found = [self.ids.get(word if cut is None else word[:cut], self.unknown) for word in words]
        if self.unknown is None and None in found:
            word = words[found.index(None)]
            raise InputError(
                f"the word {word[:40]!r} is not in the model's word table, which has no <UNK>, and "
                "the model has no characters to spell it with: replace it, or use a model with "
                "character input"
            )
        return np.array(found, dtype=np.int64).reshape(len(words), 1)


@dataclass(frozen=True)
class DistinctTokens:
    """A batch without repetition: its tokens are numbered, the two sentence marks first.

    Attributes:
        words: the tokens from number 2 on.
        index: token number of each position, (batch, time), 0 at padding.
        lengths: tokens of each sentence, marks included, (batch,).
    """

    words: list[str]
    index: Ids
    lengths: Ids


class TokenMapper:
    """Words to token rows; sentences to batches with their marks."""

    def __init__(self, characters: Characters | None, words: WordTable | None = None) -> None:
        """Make a mapper.

        Args:
            characters: the character scheme, or None for word ids alone.
            words: the word table, or None for characters alone.
        """
        if characters is None and words is None:
            raise ConfigError("a token row needs characters, a word id, or both")
        self.characters = characters
        self.words = words

    def rows(self, words: Sequence[str]) -> Ids:
        """Give the rows of words, (words, columns)."""
        parts = [] if self.characters is None else [self.characters.ids(words)]
        if self.words is not None:
            parts.append(self.words.column(words))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def boundaries(self) -> Ids:
        """Give the rows of the two sentence marks, (2, columns)."""
        parts = [] if self.characters is None else [self.characters.boundaries()]
        if self.words is not None:
            parts.append(np.array([[self.words.begin], [self.words.end]], dtype=np.int64))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def distinct(self, sentences: Sequence[Sentence]) -> DistinctTokens:
        """Give each distinct word of a batch once, and where it stands."""
        everything = list(chain.from_iterable(sentences))
        known = {word: number for number, word in enumerate(dict.fromkeys(everything), 2)}
        numbers = np.fromiter(map(known.__getitem__, everything), np.int64, len(everything))
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences)) + 2
        index = np.zeros((len(sentences), int(lengths.max(initial=2))), dtype=np.int64)
        steps = np.arange(index.shape[1])
        inside = (steps >= 1) & (steps < lengths[:, None] - 1)
        index[inside] = numbers
        index[np.arange(len(sentences)), lengths - 1] = 1
        return DistinctTokens(list(known), index, lengths)

    def rows_with_boundaries(self, words: Sequence[str]) -> Ids:
        """Give the rows of the two sentence marks, then those of words."""
        marks = self.boundaries()
        return np.concatenate([marks, self.rows(words)]) if words else marks

    def batch(self, sentences: Sequence[Sentence]) -> Ids:
        """Give a padded batch of ids, (batch, words + 2, columns), marks in, 0 at padding."""
        tokens = self.distinct(sentences)
        ids = self.rows_with_boundaries(tokens.words)[tokens.index]
        ids[np.arange(ids.shape[1]) >= tokens.lengths[:, None]] = 0
        return ids


def token_mapper(
    config: ModelConfig,
    character_dictionary: Mapping[str, int] | None,
    word_dictionary: Mapping[str, int] | None,
) -> TokenMapper:
    """Build what turns the words of a model into its ids.

    Args:
        config: the model.
        character_dictionary: raw id of each symbol, in a scheme that has a dictionary.
        word_dictionary: raw id of each input word, where the model has a word table.
    """
    text = config.text
    characters: Characters | None = None
    if text.characters == "bytes":
        characters = ByteCharacters(text.max_characters)
    elif text.characters != "none":
        scheme = SYMBOL_SCHEMES[text.characters]
        characters = scheme(text.max_characters, character_dictionary or {})
    if word_dictionary is None:
        return TokenMapper(characters)
    begin, end, unknown = text.special_tokens
    ids = {word: raw_id + SHIFT for word, raw_id in word_dictionary.items()}
    marks = {mark: ids.pop(mark, 0) for mark in (begin, end)}
    cached = config.encoder.word_role == "cache"
    if not cached and 0 in marks.values():
        raise ConfigError(
            f"the word table has no {begin} or {end}; no sentence can be made with it"
        )
    table = WordTable(
        ids,
        begin=marks[begin],
        end=marks[end],
        # A cached table leaves unknown words to the characters.
        unknown=0 if cached else ids.get(unknown),
        max_characters=word_width(text.max_characters) if text.cut_words else None,
    )
    return TokenMapper(characters, table)
