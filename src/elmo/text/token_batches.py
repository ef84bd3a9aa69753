"""Conversion of sentences to padded batches of token rows, with sentence boundary tokens.

A token row contains the character ids of a word, followed by a word id if the model has a word
table. Segments for language model training are built in `elmo.corpus` instead.
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
    """Table of input word ids, which are the last column of a token row; id 0 is the mask.

    Attributes:
        ids: Id of each word; ids start at 1.
        begin: Word id of the begin-of-sentence token.
        end: Word id of the end-of-sentence token.
        unknown: Id for words that are not in the table; 0 if the model represents them by their
            characters, None if it cannot represent them.
        max_characters: Number of characters to which words are truncated before the lookup.
            Default: no limit.
    """

    ids: Mapping[str, int]
    begin: int
    end: int
    unknown: int | None
    max_characters: int | None = None

    def column(self, words: Sequence[str]) -> Ids:
        """Return the word ids as a column, (words, 1)."""
        cut = self.max_characters
        ids = [self.ids.get(word if cut is None else word[:cut], self.unknown) for word in words]
        if self.unknown is None and None in ids:
            word = words[ids.index(None)]
            raise InputError(
                f"The word {word[:40]!r} is not in the model's word table. The table has no <UNK>, "
                "and the model has no character input. Replace the word, or use a model with "
                "character input."
            )
        return np.array(ids, dtype=np.int64).reshape(len(words), 1)


@dataclass(frozen=True)
class DistinctTokens:
    """The distinct tokens of a batch. Tokens 0 and 1 are the boundary tokens.

    `words[i]` is token 2 + i. The index is that of the token at each position, (batch, time), 0 at
    padding. The lengths of sentences, (batch,), include the boundary tokens.
    """

    words: list[str]
    index: Ids
    lengths: Ids


class TokenMapper:
    """Converts words to token rows, and sentences to batches with boundary tokens."""

    def __init__(self, characters: Characters | None, words: WordTable | None = None) -> None:
        if characters is None and words is None:
            raise ConfigError("A token row must contain characters, a word id, or both.")
        self.characters = characters
        self.words = words

    def rows(self, words: Sequence[str]) -> Ids:
        """Return the token rows of words, (words, columns)."""
        parts = [] if self.characters is None else [self.characters.ids(words)]
        if self.words is not None:
            parts.append(self.words.column(words))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def boundaries(self) -> Ids:
        """Return the token rows of the two boundary tokens, (2, columns)."""
        parts = [] if self.characters is None else [self.characters.boundaries()]
        if self.words is not None:
            parts.append(np.array([[self.words.begin], [self.words.end]], dtype=np.int64))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def distinct(self, sentences: Sequence[Sentence]) -> DistinctTokens:
        """Return the distinct words of a batch, and the token index for each position."""
        all_words = list(chain.from_iterable(sentences))
        numbers = {word: number for number, word in enumerate(dict.fromkeys(all_words), 2)}
        index_values = np.fromiter(map(numbers.__getitem__, all_words), np.int64, len(all_words))
        lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences)) + 2
        index = np.zeros((len(sentences), int(lengths.max(initial=2))), dtype=np.int64)
        steps = np.arange(index.shape[1])
        inside = (steps >= 1) & (steps < lengths[:, None] - 1)
        index[inside] = index_values
        index[np.arange(len(sentences)), lengths - 1] = 1
        return DistinctTokens(list(numbers), index, lengths)

    def rows_with_boundaries(self, words: Sequence[str]) -> Ids:
        """Return the token rows of the boundary tokens and the words, (2 + words, columns)."""
        boundaries = self.boundaries()
        return np.concatenate([boundaries, self.rows(words)]) if words else boundaries

    def batch(self, sentences: Sequence[Sentence]) -> Ids:
        """Return token rows with boundary tokens, zero at padding, (batch, words + 2, columns)."""
        tokens = self.distinct(sentences)
        ids = self.rows_with_boundaries(tokens.words)[tokens.index]
        ids[np.arange(ids.shape[1]) >= tokens.lengths[:, None]] = 0
        return ids


def token_mapper(
    config: ModelConfig,
    character_dictionary: Mapping[str, int] | None,
    word_dictionary: Mapping[str, int] | None,
) -> TokenMapper:
    """Build the token mapper for a model.

    The dictionaries have the ids as stored in their files. They are None if the character scheme
    uses none, or if the model has no word table.
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
    boundaries = {token: ids.pop(token, 0) for token in (begin, end)}
    cached = config.encoder.word_role == "cache"
    if not cached and 0 in boundaries.values():
        raise ConfigError(
            f"The word table lacks {begin} or {end}. Both boundary tokens are required."
        )
    table = WordTable(
        ids,
        begin=boundaries[begin],
        end=boundaries[end],
        # With a cached table, unknown words are computed from their characters.
        unknown=0 if cached else ids.get(unknown),
        max_characters=word_width(text.max_characters) if text.cut_words else None,
    )
    return TokenMapper(characters, table)
