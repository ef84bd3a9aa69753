"""Korean tokenizer that splits text into morphemes with kiwipiepy."""

from functools import cache
from typing import Any

from elmo.errors import MissingExtra
from elmo.text.tokenizer import Token, replace_surrogates, tokens_from_spans


class KoreanTokenizer:
    """Splits Korean text into morphemes that are exact substrings of the text.

    Kiwi returns morphemes in dictionary form; this tokenizer returns the original text. Morphemes
    that share a syllable, such as `하` and `었` in `했`, become one word.
    """

    name = "korean"

    def __init__(self) -> None:
        """Load the kiwipiepy language model, once per process."""
        self._kiwi = _kiwi()

    def tokens(self, text: str) -> list[Token]:
        """Split Korean text into morphemes with offsets."""
        morphemes = self._kiwi.tokenize(replace_surrogates(text))
        return tokens_from_spans(
            text, sorted((token.start, token.start + token.len) for token in morphemes)
        )

    def words(self, text: str) -> list[str]:
        """Split Korean text into morphemes."""
        return [token.text for token in self.tokens(text)]


@cache
def _kiwi() -> Any:
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        raise MissingExtra(
            "The korean tokenizer (not needed for tokenized text: lists of words in Python, or "
            "--pretokenized)",
            "ko",
        ) from None
    return Kiwi(num_workers=1)
