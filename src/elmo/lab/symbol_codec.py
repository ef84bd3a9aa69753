"""Conversion between text and the symbols of a recurrent language model, for generation."""

import codecs
import logging
from collections.abc import Callable, Sequence

import numpy as np

from elmo.errors import listing
from elmo.lab.stepwise_model import TextWriter
from elmo.lab.stop_string import StopString
from elmo.lab.symbols import SPECIAL_WORDS, Ids, Symbols
from elmo.lab.text_bytes import utf8_bytes
from elmo.lab.word_writers import WordText, WordWriter, separator_of
from elmo.text.tokenizer import replace_surrogates
from elmo.text.tokenizers_by_name import get_tokenizer

logger = logging.getLogger(__name__)

AddWords = Callable[[Sequence[str]], Sequence[int]]


class SymbolCodec:
    """Implementation of `TextCodec` for characters, bytes and words.

    A prompt is read as the beginning of a line: after a line break, as in `predictions`. Without a
    symbol for line breaks, an empty prompt is replaced by the most frequent symbol.
    """

    def __init__(self, symbols: Symbols, add_words: AddWords | None = None) -> None:
        """Set the symbols.

        Args:
            symbols: The symbols.
            add_words: Function that returns the ids of words that are not symbols. Default: they
                are read as `<UNK>`.
        """
        self.symbols, self.add_words = symbols, add_words

    @property
    def excluded(self) -> tuple[int, ...]:
        """`<UNK>`, which is not text."""
        return () if self.symbols.unknown is None else (self.symbols.unknown,)

    def input_ids(self, text: str) -> Ids:
        """Return the ids that the model reads for a text."""
        if self.add_words is None:
            return self.symbols.encode(text)
        ids, new_words = self.symbols.open_ids(text)
        table = [*range(len(self.symbols)), *self.add_words(new_words)]
        return np.array(table, dtype=np.int32)[ids]

    def prompt_ids(self, prompt: str) -> list[int]:
        """Return the symbols of a prompt after a line break; warn about unknown ones."""
        ids = self.input_ids(prompt).tolist()
        if self.add_words is None and self.symbols.unknown in ids:
            names = unknown_names(prompt, self.symbols)
            if names:
                logger.warning(
                    "The prompt contains %s that the model does not know: %s. They are read as "
                    "<UNK>.",
                    self.symbols.unit,
                    listing([repr(name) for name in names], 10),
                )
        if self.symbols.end is not None:
            return [self.symbols.end, *ids]
        # Symbols are sorted by frequency, and the first is <UNK>.
        return ids or [min(1, len(self.symbols) - 1)]

    def writer(self, prompt: str, stop: str | None) -> TextWriter:
        """Return a writer of the text after a prompt."""
        symbols = self.symbols
        if symbols.unit == "words":
            assert symbols.end is not None
            separator = separator_of(symbols.tokenizer)
            return WordWriter(WordText(symbols.names, symbols.end, separator), prompt, stop)
        return CharacterWriter(symbols, prompt, stop)


def unknown_names(text: str, symbols: Symbols) -> list[str]:
    """Return the distinct characters or words of a text that are not symbols, in text order."""
    if symbols.unit == "bytes":
        return []
    parts = text if symbols.unit == "characters" else get_tokenizer(symbols.tokenizer).words(text)
    known = {*symbols.names[1:], *(SPECIAL_WORDS if symbols.unit == "words" else ())}
    return [name for name in dict.fromkeys(parts) if name not in known]


class CharacterWriter:
    """Implementation of `TextWriter` for characters and bytes.

    Bytes are decoded as UTF-8 once a character is complete.
    """

    def __init__(self, symbols: Symbols, prompt: str, stop: str | None) -> None:
        """Begin with a prompt."""
        self.symbols, self.prompt = symbols, prompt
        self._stop = StopString(stop)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_stopped(self) -> bool:
        """Whether the stop string was found."""
        return self._stop.is_found

    def begin(self) -> str:
        """Return the prompt; bytes of an incomplete last character are held back."""
        if self.symbols.unit == "bytes":
            return self._utf8.decode(utf8_bytes(self.prompt))
        return replace_surrogates(self.prompt)

    def add(self, symbol: int) -> str:
        """Add a symbol; text that can be part of the stop string is held back."""
        if self.symbols.unit == "bytes":
            return self._stop.add(self._utf8.decode(bytes([symbol])))
        return self._stop.add(self.symbols.names[symbol])

    def end(self) -> str:
        """Return what was held back; an incomplete character becomes a replacement character."""
        return self._stop.add(self._utf8.decode(b"", final=True)) + self._stop.end()
