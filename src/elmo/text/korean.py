"""Korean text to morphemes, with kiwipiepy."""

from functools import cache
from typing import Any

from elmo.errors import MissingExtra
from elmo.text.tokenizer import Token, tokens_from_spans, replace_surrogates


class KoreanTokenizer:
    """Splits Korean into morphemes that are exact pieces of the text.

    Kiwi gives the dictionary form of a morpheme; here the text itself is kept. Where morphemes
    share a syllable, as `하` and `었` do in `했`, they are one word.
    """

    name = "korean"

    def __init__(self) -> None:
        """Load the language model of kiwipiepy, once for the whole process."""
        self._kiwi = _kiwi()

    def tokens(self, text: str) -> list[Token]:
        """Split Korean text into morphemes with offsets."""
        found = self._kiwi.tokenize(replace_surrogates(text))
        return tokens_from_spans(text, sorted((token.start, token.start + token.len) for token in found))

    def words(self, text: str) -> list[str]:
        """Split Korean text into morphemes."""
        return [token.text for token in self.tokens(text)]


@cache
def _kiwi() -> Any:
    try:
        from kiwipiepy import Kiwi
    except ImportError:
        raise MissingExtra("the korean tokenizer", "ko") from None
    return Kiwi(num_workers=1)
