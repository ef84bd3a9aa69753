"""AllenNLP's conversion of tokens to character ids, without its vocabulary and its data classes."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from elmo.compat.allennlp_bilm import CHARACTERS
from elmo.errors import InputError, shortened
from elmo.text.characters import (
    BEGIN_SENTENCE,
    BEGIN_TOKEN,
    BEGIN_WORD,
    END_SENTENCE,
    END_TOKEN,
    END_WORD,
    PADDING,
    SHIFT,
    ByteCharacters,
)

KEY = "elmo_tokens"


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Return the character ids of sentences, (sentences, words, 50), without boundary tokens.

    Args:
        batch: Sentences as lists of words.

    Raises:
        InputError: A sentence is not a list of words.
    """
    check_sentences(batch, "batch_to_ids")
    _check_words(batch)
    max_length = max((len(sentence) for sentence in batch), default=0)
    lengths = np.array([len(sentence) for sentence in batch], dtype=np.int64)
    ids = np.zeros((len(batch), max_length, CHARACTERS.max_characters), dtype=np.int64)
    real = np.arange(max_length) < lengths[:, None]
    ids[real] = CHARACTERS.ids([word for sentence in batch for word in sentence])
    return torch.from_numpy(ids)


def check_sentences(batch: Sequence[Sequence[str]], function: str) -> None:
    """Raise `InputError` if a batch contains a string instead of a list of words."""
    is_text = isinstance(batch, str)
    sentences = [batch] if is_text else batch
    strings = [sentence for sentence in sentences if isinstance(sentence, str)]
    if not strings:
        return
    is_flat = len(strings) == len(sentences) and all(len(word.split()) == 1 for word in strings)
    if is_flat and not is_text:
        raise InputError(
            f"{function} expects a list of sentences, each of which is a list of words (got a list "
            f"of words that starts with {shortened(repr(strings[0]), 60)}). Add another pair of "
            f"brackets: {function}([words])."
        )
    raise InputError(
        f"{function} expects sentences as lists of words (got the string "
        f"{shortened(repr(strings[0]), 60)}). Split it into words first."
    )


def _check_words(batch: Sequence[Sequence[str]]) -> None:
    for sentence in batch:
        for word in sentence:
            if not isinstance(word, str):
                raise InputError(
                    f"Words must be strings (got {shortened(repr(word), 60)} of type "
                    f"{type(word).__name__})."
                )


class ELMoCharacterMapper:
    """Maps words to character ids. The constants are ids before 1 is added for the mask."""

    max_word_length = CHARACTERS.max_characters
    beginning_of_sentence_character = BEGIN_SENTENCE
    end_of_sentence_character = END_SENTENCE
    beginning_of_word_character = BEGIN_WORD
    end_of_word_character = END_WORD
    padding_character = PADDING
    bos_token = BEGIN_TOKEN
    eos_token = END_TOKEN
    beginning_of_sentence_characters: ClassVar[list[int]]
    end_of_sentence_characters: ClassVar[list[int]]
    beginning_of_sentence_characters, end_of_sentence_characters = (
        CHARACTERS.boundaries() - SHIFT
    ).tolist()

    def __init__(self, tokens_to_add: Mapping[str, int] | None = None) -> None:
        """Create a mapper with the character ids of additional special tokens."""
        self.tokens_to_add = dict(tokens_to_add or {})

    def convert_word_to_char_ids(self, word: str) -> list[int]:
        """Return the 50 character ids of a word."""
        ids: list[int] = self._characters().ids([word])[0].tolist()
        return ids

    def _characters(self) -> ByteCharacters:
        boundaries = {BEGIN_TOKEN: BEGIN_SENTENCE, END_TOKEN: END_SENTENCE}
        return ByteCharacters(self.max_word_length, {**boundaries, **self.tokens_to_add})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ELMoCharacterMapper):
            return NotImplemented
        return self.tokens_to_add == other.tokens_to_add

    __hash__ = None  # type: ignore[assignment]


class ELMoTokenCharactersIndexer:
    """Converts tokens to padded tensors of character ids.

    A token is a string or an object with the attribute `text`, such as a token of spaCy or
    AllenNLP. A vocabulary is not needed.
    """

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Mapping[str, int] | None = None,
        token_min_padding_length: int = 0,
    ) -> None:
        """Create an indexer.

        Args:
            namespace: Name of a vocabulary namespace, which is not used, as in AllenNLP.
            tokens_to_add: Character ids of additional special tokens, by token.
            token_min_padding_length: Minimum number of tokens of a padded sentence.
        """
        self._namespace = namespace
        self._mapper = ELMoCharacterMapper(tokens_to_add)
        self._token_min_padding_length = token_min_padding_length

    def count_vocab_items(self, token: object, counter: dict[str, dict[str, int]]) -> None:
        """Do nothing, because character ids need no vocabulary."""

    def get_empty_token_list(self) -> dict[str, list[list[int]]]:
        """Return the result of `tokens_to_indices` for a sentence without tokens."""
        return {KEY: []}

    def tokens_to_indices(
        self, tokens: Sequence[object], vocabulary: object = None
    ) -> dict[str, list[list[int]]]:
        """Return the character ids of tokens as `elmo_tokens`.

        Args:
            tokens: Strings, or objects with the attribute `text`.
            vocabulary: Not used, as in AllenNLP.

        Raises:
            InputError: A token has no text.
        """
        return {KEY: [self._mapper.convert_word_to_char_ids(_text(token)) for token in tokens]}

    def get_padding_lengths(self, indexed_tokens: Mapping[str, Sequence[object]]) -> dict[str, int]:
        """Return the number of tokens after padding, at least the minimum padding length."""
        return {
            name: max(len(tokens), self._token_min_padding_length)
            for name, tokens in indexed_tokens.items()
        }

    def as_padded_tensor_dict(
        self, tokens: Mapping[str, Sequence[Sequence[int]]], padding_lengths: Mapping[str, int]
    ) -> dict[str, Tensor]:
        """Return `elmo_tokens` as a tensor of (padding length, 50), cut or padded with zeros."""
        n_tokens = padding_lengths[KEY]
        ids = torch.zeros(n_tokens, self._mapper.max_word_length, dtype=torch.long)
        kept = list(tokens[KEY])[:n_tokens]
        if kept:
            ids[: len(kept)] = torch.tensor(kept)
        return {KEY: ids}


def _text(token: object) -> str:
    text = token if isinstance(token, str) else getattr(token, "text", None)
    if not isinstance(text, str):
        raise InputError(f"Token {token!r} has no text. Expected a string or a token with text.")
    return text
