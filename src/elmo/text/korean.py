"""Korean tokenizer that splits text into morphemes with kiwipiepy."""

import logging
import os
import re
import unicodedata
from functools import cache
from typing import Any

from elmo.errors import MissingExtra
from elmo.text.tokenizer import Token, replace_surrogates, tokens_from_spans

logger = logging.getLogger(__name__)

# A syllable of decomposed Hangul (NFD): conjoining initial, vowel and optional final.
_DECOMPOSED = re.compile("[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?")


class KoreanTokenizer:
    """Splits Korean text into morphemes that are exact substrings of the text.

    Kiwi returns morphemes in dictionary form; this tokenizer returns the original text. Morphemes
    that share a syllable, such as `하` and `었` in `했`, become one word. Decomposed Hangul (NFD)
    is split in the same way as composed Hangul, with a warning, because its words have other
    characters and so other vectors.
    """

    name = "korean"

    def __init__(self) -> None:
        """Load the kiwipiepy language model, once per process."""
        self._process, self._kiwi = _kiwi()

    def tokens(self, text: str) -> list[Token]:
        """Split Korean text into morphemes with offsets."""
        composed, offsets = _compose(text)
        morphemes = self._morphemes(replace_surrogates(composed))
        spans = sorted((token.start, token.start + token.len) for token in morphemes)
        if offsets is not None:
            spans = [(offsets[start], offsets[end]) for start, end in spans]
        return tokens_from_spans(text, spans)

    def words(self, text: str) -> list[str]:
        """Split Korean text into morphemes."""
        return [token.text for token in self.tokens(text)]

    def _morphemes(self, text: str) -> Any:
        if os.getpid() != self._process:  # a fork has no thread of Kiwi
            return self._kiwi.tokenize(text)
        # Texts in a list are split in a thread of Kiwi, without the interpreter lock.
        (morphemes,) = self._kiwi.tokenize([text])
        return morphemes


def _compose(text: str) -> tuple[str, list[int] | None]:
    """Compose decomposed Hangul.

    Returns the composed text, and the offset in `text` of each of its characters and of its end;
    None if nothing was composed.
    """
    if _DECOMPOSED.search(text) is None:
        return text, None
    _warn_once()
    parts: list[str] = []
    offsets: list[int] = []
    end = 0
    for match in _DECOMPOSED.finditer(text):
        parts += text[end : match.start()], unicodedata.normalize("NFC", match[0])
        offsets += range(end, match.start() + 1)
        end = match.end()
    return "".join((*parts, text[end:])), [*offsets, *range(end, len(text) + 1)]


def is_decomposed(text: str) -> bool:
    """Whether a text contains decomposed Hangul."""
    return _DECOMPOSED.search(text) is not None


def warn_if_decomposed(text: str) -> None:
    """Warn, once per process, if a text contains decomposed Hangul."""
    if is_decomposed(text):
        _warn_once()


@cache
def _warn_once() -> None:
    logger.warning(
        "The text contains decomposed Hangul (Unicode NFD, as in file names of macOS). Its words "
        "have other vectors than the usual composed form; normalize the text to NFC first."
    )


@cache
def _kiwi() -> tuple[int, Any]:
    """Return the id of the process that loaded Kiwi, and Kiwi."""
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        raise MissingExtra(
            "The korean tokenizer (not needed for text that is already split into morphemes: lists "
            "of morphemes in Python, or separated by spaces with --pretokenized)",
            "ko",
        ) from None
    return os.getpid(), Kiwi(num_workers=1)
