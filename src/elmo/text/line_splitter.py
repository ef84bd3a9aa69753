"""How lines of text are split into words: by a tokenizer or, if they are tokenized, at spaces.

A warning reports text that does not look as expected: raw text that is split at spaces, tokenized
text that is tokenized again, tokenized text with units that the tokenizer splits further, text in
another script than that of the model, or paragraphs instead of one sentence per line.
"""

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple

from elmo.errors import ElmoError, shortened
from elmo.text.korean import KoreanTokenizer, warn_if_decomposed
from elmo.text.scripts import is_mostly_hangul, warn_if_not_latin
from elmo.text.sentences import split_sentences
from elmo.text.tokenizer import (
    CharactersAndSpacesTokenizer,
    EnglishTokenizer,
    Tokenizer,
    WhitespaceTokenizer,
)
from elmo.text.tokenizers_by_name import get_tokenizer, require_known

logger = logging.getLogger(__name__)

SplitFunction = Callable[[str], list[str]]

# Size of the sample that is checked.
MAX_LINES = 1000
MAX_WORDS = 20000
# Fraction of the words of the sample. Ordinary raw text has 5 to 15 %, and tokenized text without
# separate punctuation (Penn Treebank for language models) has 2 %.
MIN_SHARE = 0.04
# Number of characters of an example in a warning.
MAX_EXAMPLE = 80
# Part of the sample that is tokenized to see whether its words are split further.
MAX_TOKENIZED_WORDS = 2000
# Fraction of the words that a tokenizer splits further. The korean tokenizer splits 68 % of the
# Hangul words of raw text, and 0.2 % of those of its own output joined with spaces.
MIN_SPLIT_SHARE = 0.3
# A line with this number of sentences is a paragraph, and a text of paragraphs is only reported if
# it has at least this number of lines.
PARAGRAPH_SENTENCES = 3
MIN_PARAGRAPH_LINES = 5
# Remedies for raw text that is split at spaces because there is no other tokenizer.
CONVERT_REMEDY = "Store a tokenizer in the model with elmo convert --tokenizer"
OPTION_REMEDY = "Choose a tokenizer with --tokenizer"

# Fraction of the words that are dictionary forms of Korean endings, which are part of a syllable in
# text as it is written.
MIN_ENDING_SHARE = 0.01
# Endings that begin with a final consonant, as an ordinary letter or a conjoining one.
_KOREAN_ENDING = re.compile("[ㄴㄹㅁㅂㅆ\u11ab\u11af\u11b7\u11b8\u11bb][\uac00-\ud7a3]*")

_ALPHABETIC = re.compile(r"[^\W\d_]")
_FINAL_PUNCTUATION = re.compile(r"\w.*[^\w\s]")
# Not the dashes and signs that raw text also has between spaces.
_PUNCTUATION = re.compile(r"[,.;:!?\"'()“”‘’、。，！？]|``|''|\.\.\.")
# Words of tokenized text. Raw text can quote them.
_TOKENIZED_WORDS = re.compile(r"<unk>|@[-,.]@|-[LR][RSC]B-", re.IGNORECASE)


def line_splitter(tokenizer: str | None, *, pretokenized: bool = False) -> SplitFunction:
    """Return the function that splits a line of text into words, by default at white space.

    The tokenizer is not applied to `pretokenized` text, whose words are separated by spaces.
    """
    if tokenizer is not None:
        require_known(tokenizer)
    if pretokenized or tokenizer is None or splits_at_spaces(tokenizer):
        return str.split
    return get_tokenizer(tokenizer).words


def splits_at_spaces(tokenizer: str | None) -> bool:
    """Whether a tokenizer only splits at white space."""
    return tokenizer in (None, WhitespaceTokenizer.name)


class TextCheck:
    """Warns if the first lines of a text do not look as expected; the text need not be complete."""

    def __init__(
        self,
        tokenizer: str | None,
        *,
        pretokenized: bool,
        remedy: str,
        language: str | None = None,
        finds_paragraphs: bool = False,
    ) -> None:
        """Start with an empty sample.

        `remedy` is what to do if raw text is split at spaces for lack of a tokenizer. The language
        of the model is a code or a name. `finds_paragraphs` reports lines of several sentences,
        which --sentences split would split.
        """
        self._tokenizer = tokenizer
        self._pretokenized = pretokenized
        self._remedy = remedy
        self._language = language
        self._finds_paragraphs = finds_paragraphs
        self._sample: list[str] = []
        self._n_words = 0
        self._is_done = False

    def add(self, line: str) -> None:
        """Add a line to the sample, and check the sample once it is large enough."""
        if self._is_done or not line.strip():
            return
        self._sample.append(line)
        self._n_words += len(line.split())
        if len(self._sample) == MAX_LINES or self._n_words >= MAX_WORDS:
            self.finish()

    def finish(self) -> None:
        """Check the sample, unless it was checked before."""
        if not self._is_done:
            self._is_done = True
            warn_if_not_latin("\n".join(self._sample), self._language)
            if self._finds_paragraphs and self._tokenizer != CharactersAndSpacesTokenizer.name:
                self._check_paragraphs()
            if self._pretokenized and self._tokenizer == KoreanTokenizer.name:
                warn_if_decomposed("\n".join(self._sample))
                self._check_endings()
            if self._suggests_korean():
                return
            if self._pretokenized or splits_at_spaces(self._tokenizer):
                if not self._check_raw() and self._pretokenized:
                    self._check_units()
            # Characters are the same words whether or not punctuation is separated.
            elif not _is_of_characters(self._tokenizer):
                self._check_tokenized()

    def check(self, lines: Iterable[str]) -> None:
        """Check the first of the given lines."""
        for line in lines:
            self.add(line)
            if self._is_done:
                return
        self.finish()

    def _check_paragraphs(self) -> None:
        """Warn if most lines contain several sentences."""
        # It separates full stops in any language and needs no extra.
        split = EnglishTokenizer().words
        counts = [len(split_sentences(split(line))) for line in self._sample]
        n_paragraphs = sum(count >= PARAGRAPH_SENTENCES for count in counts)
        if len(counts) >= MIN_PARAGRAPH_LINES and 2 * n_paragraphs > len(counts):
            logger.warning(
                "%.0f %% of the lines contain %d or more sentences, but each line is treated as "
                "one sentence. Use --sentences split to split paragraphs into sentences.",
                100 * n_paragraphs / len(counts),
                PARAGRAPH_SENTENCES,
            )

    def _suggests_korean(self) -> bool:
        """Warn if Korean text for a new model is split by another tokenizer than the Korean one."""
        is_other = splits_at_spaces(self._tokenizer) or self._tokenizer == EnglishTokenizer.name
        if self._pretokenized or self._remedy != OPTION_REMEDY or not is_other:
            return False
        if not is_mostly_hangul("\n".join(self._sample)):
            return False
        logger.warning(
            "Most characters of the text are Hangul, but it is split with the tokenizer %s, which "
            "does not separate particles and endings. Use --tokenizer korean, or --pretokenized if "
            "its words are separated by spaces.",
            self._tokenizer or WhitespaceTokenizer.name,
        )
        return True

    def _check_endings(self) -> None:
        """Warn if the morphemes of tokenized Korean text are in their dictionary form."""
        words = [word for line in self._sample for word in line.split()]
        endings = [word for word in words if _KOREAN_ENDING.fullmatch(word)]
        if endings and len(endings) >= MIN_ENDING_SHARE * len(words):
            logger.warning(
                "The text seems to contain morphemes in their dictionary form, such as %r (%.0f %% "
                "of the words are such endings), but the model was trained on morphemes as they "
                "are written: 했 다, not 하 았 다. Pass raw text without --pretokenized.",
                endings[0],
                100 * len(endings) / len(words),
            )

    def _check_raw(self) -> bool:
        """Warn if the text looks like raw text, and return whether it does."""
        share = attached_share(self._sample)
        if share < MIN_SHARE or looks_tokenized(self._sample):
            return False
        remedy = self._remedy
        if self._pretokenized and splits_at_spaces(self._tokenizer):
            # Without --pretokenized, the text would still be split at spaces.
            remedy += ", and omit --pretokenized"
        elif self._pretokenized:
            remedy = "If it is, omit --pretokenized"
        elif remedy == OPTION_REMEDY:
            remedy += ", or use --pretokenized if the words are separated by spaces"
        words = (word for line in self._sample for word in line.split())
        logger.warning(
            "The text looks like raw text, but it is split only at spaces: %.0f %% of its words "
            "end with punctuation, such as %r. %s.",
            100 * share,
            next(filter(_is_attached, words)),
            remedy,
        )
        return True

    def _check_units(self) -> None:
        """Warn if the tokenizer splits many words of tokenized text further."""
        name = self._tokenizer
        if (
            name is None
            or splits_at_spaces(name)
            or name == EnglishTokenizer.name
            or _is_of_characters(name)
        ):
            return  # these tokenizers do not split alphabetic words, or split all of them
        try:
            tokenizer = get_tokenizer(name)
        except ElmoError:  # its package is not installed, and tokenized text does not need it
            return
        units = split_words(tokenizer, self._sample)
        if units.share >= MIN_SPLIT_SHARE:
            logger.warning(
                "The words of the text are not those of the tokenizer (%s), which splits %.0f %% "
                "of them further: %r becomes %r. Omit --pretokenized to apply the tokenizer.",
                name,
                100 * units.share,
                units.example,
                " ".join(tokenizer.words(units.example)),
            )

    def _check_tokenized(self) -> None:
        if not looks_tokenized(self._sample):
            return
        assert self._tokenizer is not None
        # Korean separates words with spaces too, but these are not the morphemes of its tokenizer.
        tokenizer = get_tokenizer(self._tokenizer)
        if split_words(tokenizer, self._sample).share >= MIN_SPLIT_SHARE:
            return
        for line in self._sample:
            change = _first_change(tokenizer, line)
            if change is not None:
                logger.warning(
                    "The text looks tokenized, but the tokenizer (%s) splits it again: %r becomes "
                    "%r. If its words are separated by spaces, use --pretokenized.",
                    self._tokenizer,
                    *(shortened(text, MAX_EXAMPLE) for text in change),
                )
                return


def _first_change(tokenizer: Tokenizer, line: str) -> tuple[str, str] | None:
    """Return the first word that a tokenizer splits, with its neighbors, before and after."""
    words = WhitespaceTokenizer().tokens(line)
    tokens = tokenizer.tokens(line)
    # A token has no spaces, so the first difference is where a word ends later than a token.
    pairs = enumerate(zip(words, tokens, strict=False))
    changed = next((index for index, (word, token) in pairs if word != token), None)
    if changed is None:
        return None
    context = words[max(0, changed - 1) : changed + 2]
    start, end = context[0].start, context[-1].end
    after = " ".join(token.text for token in tokens if start <= token.start < end)
    return line[start:end], after


class SplitWords(NamedTuple):
    """Space-separated words of a text that a tokenizer splits further."""

    share: float
    """Fraction of the alphabetic words that are split into several alphabetic words."""
    example: str
    """The first of these words, or an empty string."""


def split_words(tokenizer: Tokenizer, lines: Iterable[str]) -> SplitWords:
    """Count the space-separated words of the first lines that a tokenizer splits further.

    The tokenizer sees whole lines; words after the first `MAX_TOKENIZED_WORDS` are ignored.
    """
    n_words = n_split = 0
    example = ""
    for line in lines:
        starts = [token.start for token in tokenizer.tokens(line) if _ALPHABETIC.search(token.text)]
        for word in WhitespaceTokenizer().tokens(line):
            if _ALPHABETIC.search(word.text):
                n_words += 1
                first = bisect_left(starts, word.start)
                if bisect_left(starts, word.end) - first > 1:
                    n_split += 1
                    example = example or word.text
        if n_words >= MAX_TOKENIZED_WORDS:
            break
    return SplitWords(n_split / max(1, n_words), example)


def _is_of_characters(tokenizer: str | None) -> bool:
    """Whether a tokenizer makes every character a word."""
    return str(tokenizer).startswith("characters")


def attached_share(lines: Iterable[str]) -> float:
    """Return the fraction of words, split at spaces, that end with separable punctuation."""
    words = [word for line in lines for word in line.split()]
    return sum(map(_is_attached, words)) / max(1, len(words))


def _is_attached(word: str) -> bool:
    """Whether a word ends with punctuation that is not part of it, as of an abbreviation."""
    if not _FINAL_PUNCTUATION.fullmatch(word):
        return False
    parts = EnglishTokenizer().words(word)
    return len(parts) > 1 and not re.search(r"\w", parts[-1])


def looks_tokenized(lines: Iterable[str]) -> bool:
    """Whether punctuation is separated by spaces, or there are words of tokenized text only.

    These words are no evidence if much punctuation is attached to other words.
    """
    words = [word for line in lines for word in line.split()]
    n_attached = sum(map(_is_attached, words))
    n_separate = sum(_PUNCTUATION.fullmatch(word) is not None for word in words)
    if n_separate >= MIN_SHARE * len(words) > 0 and n_separate > n_attached:
        return True
    return n_attached < MIN_SHARE * len(words) and any(map(_TOKENIZED_WORDS.fullmatch, words))
