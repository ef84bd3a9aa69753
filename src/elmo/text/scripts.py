"""The script of a text, and a warning about text that an English model was not trained on."""

import logging
import re
from collections.abc import Sequence

logger = logging.getLogger(__name__)

_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")
_HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]")
_ALPHABETIC = re.compile(r"[^\W\d_]")
# Part of a text that is checked: number of sentences, and of words of each.
MAX_SENTENCES = 100
MAX_WORDS = 50


class ScriptCheck:
    """Warns once, about the first text that a model reads."""

    def __init__(self, language: str | None) -> None:
        """Store the language of the model, a code or a name; None if it is not known."""
        self._language = language
        self._is_done = False

    def check(self, sentences: Sequence[Sequence[str]]) -> None:
        """Check the first sentences of a text, given as words, unless a text was checked before."""
        if self._is_done or not sentences:
            return
        self._is_done = True
        words = (word for sentence in sentences[:MAX_SENTENCES] for word in sentence[:MAX_WORDS])
        warn_if_not_latin(" ".join(words), self._language)


def is_mostly_hangul(text: str) -> bool:
    """Whether most alphabetic characters of a text are Hangul."""
    return 2 * len(_HANGUL.findall(text)) > len(_ALPHABETIC.findall(text))


def warn_if_not_latin(text: str, language: str | None) -> None:
    """Warn if most characters of a text are not of the script of an English model."""
    language = language or ""
    if text.isascii() or (language != "en" and not language.startswith("English")):
        return
    if is_mostly_hangul(text):
        remedy = "Use the model small-ko for Korean (--model small-ko)"
    elif 2 * len(_LATIN.findall(text)) < len(_ALPHABETIC.findall(text)):
        remedy = "elmo download --list shows models of other languages"
    else:
        return
    logger.warning(
        "The model was trained on English text, but most characters of this text are not Latin, so "
        "its vectors and perplexities mean little. %s.",
        remedy,
    )
