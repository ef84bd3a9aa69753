"""Raw text to words that know where they came from.

Every word is an exact piece of the text and only white space is left out, so results can be laid
over the source again. This file finds no sentences, changes no case and rewrites no quotes. The
tokenisers that need another package live in `korean.py` and `spacy_pipeline.py`.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol

from elmo.errors import ConfigError

__all__ = [
    "TOKENIZERS",
    "CharacterTokenizer",
    "EnglishTokenizer",
    "Token",
    "Tokenizer",
    "WhitespaceTokenizer",
    "get_tokenizer",
    "tokens_from_spans",
    "replace_surrogates",
]

# What follows is the name of a pipeline.
SPACY = "spacy:"


class Token(NamedTuple):
    """One word and its place: `source[start:end] == text`."""

    text: str
    """The word, exactly as the source spells it."""
    start: int
    """Index of its first character in the source."""
    end: int
    """Index after its last character in the source."""


class Tokenizer(Protocol):
    """What every tokeniser offers; `name` is what a saved model records."""

    @property
    def name(self) -> str:
        """The key under which `get_tokenizer` finds this tokeniser."""

    def tokens(self, text: str) -> list[Token]:
        """Split a text into words with offsets.

        Args:
            text: Any string, of any length.

        Returns:
            The words in the order of the text, without overlap.
        """

    def words(self, text: str) -> list[str]:
        """Split a text into words alone, the faster call where no offset is needed.

        Args:
            text: Any string, of any length.

        Returns:
            The `text` field of each token of `tokens`.
        """


class WhitespaceTokenizer:
    """Splits at Unicode white space and nowhere else, as `str.split()` does."""

    name = "whitespace"

    def tokens(self, text: str) -> list[Token]:
        """Split at white space, with offsets."""
        return _match_tokens(_NOT_SPACE, text)

    def words(self, text: str) -> list[str]:
        """Split at white space."""
        return text.split()


class EnglishTokenizer:
    """Splits raw English the way the Penn Treebank does, without rewriting a character.

    Contractions and possessives come apart (`do n't`, `it 's`), punctuation stands alone, and
    abbreviations, numbers, dates, hyphenated words, links, addresses and emoji stay whole.
    Ordinary text it has already split, joined again with spaces, is split at the same places.
    Letters of other scripts stay together between white space and punctuation. Time grows
    linearly with the text, whatever the text is.
    """

    name = "english"

    def __init__(self) -> None:
        """Compile the rules, once for the whole process."""
        self._pattern = _english_pattern()

    def tokens(self, text: str) -> list[Token]:
        """Split English text into words with offsets."""
        return _match_tokens(self._pattern, text)

    def words(self, text: str) -> list[str]:
        """Split English text into words."""
        return self._pattern.findall(text)


class CharacterTokenizer:
    """Makes every character a word, for scripts without spaces.

    Combining marks, joiners and variation selectors stay with the character before them.
    """

    name = "characters"

    def __init__(self) -> None:
        """Compile the rule, once for the whole process."""
        self._pattern = _character_pattern()

    def tokens(self, text: str) -> list[Token]:
        """Split into characters, with offsets."""
        return _match_tokens(self._pattern, text)

    def words(self, text: str) -> list[str]:
        """Split into characters."""
        return self._pattern.findall(text)


def _korean() -> Tokenizer:
    tokenizer: Tokenizer = import_module("elmo.text.korean").KoreanTokenizer()
    return tokenizer


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    CharacterTokenizer.name: CharacterTokenizer,
    EnglishTokenizer.name: EnglishTokenizer,
    "korean": _korean,
    WhitespaceTokenizer.name: WhitespaceTokenizer,
}
"""Name to factory. A factory may import what it needs, so that listing names costs nothing."""


def get_tokenizer(name: str) -> Tokenizer:
    """Build the tokeniser a model or a command names.

    Args:
        name: A key of `TOKENIZERS`, or `spacy:` and the name of a pipeline: `spacy:blank-ja` is
            the bare tokeniser of a language, anything else is a pipeline that is installed.

    Returns:
        A tokeniser ready for use.

    Raises:
        ConfigError: If no tokeniser has this name.
        MissingExtra: If the package it needs is not installed.
    """
    require_known(name)
    if name.startswith(SPACY):
        tokenizer: Tokenizer = import_module("elmo.text.spacy_pipeline").SpacyTokenizer(
            name.removeprefix(SPACY)
        )
        return tokenizer
    return TOKENIZERS[name]()


def require_known(name: str) -> None:
    """Refuse a name that no tokeniser has, without building the one that has it."""
    if not name.startswith(SPACY) and name not in TOKENIZERS:
        known = ", ".join([*sorted(TOKENIZERS), f"{SPACY}NAME"])
        raise ConfigError(f"unknown tokenizer {name!r}; use one of: {known}")


def tokens_from_spans(text: str, spans: Iterable[tuple[int, int]]) -> list[Token]:
    """Make words of what another program says about a text, so that nothing but space is lost.

    Spans that overlap become one word, what stands between two spans becomes a word too, and white
    space inside a span divides it.

    Args:
        text: the source.
        spans: where words begin and end, by rising begin; empty ones are passed over.
    """
    found: list[Token] = []
    start = end = 0
    for first, last in (*spans, (len(text), len(text))):
        if first >= end:
            found += _not_space(text, start, end)
            found += _not_space(text, end, first)
            start = first
        end = max(end, last)
    return found + _not_space(text, start, end)


def replace_surrogates(text: str) -> str:
    """Put U+FFFD in place of halves of surrogate pairs, which compiled programs refuse."""
    return _SURROGATE.sub("\ufffd", text)


def _not_space(text: str, start: int, end: int) -> list[Token]:
    return [
        Token(match[0], match.start(), match.end())
        for match in _NOT_SPACE.finditer(text, start, end)
    ]


def _match_tokens(pattern: re.Pattern[str], text: str) -> list[Token]:
    return [Token(match[0], match.start(), match.end()) for match in pattern.finditer(text)]


_NOT_SPACE = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")

# Abbreviations that hold on to their full stop wherever they stand.
_ABBREVIATIONS = """
    Mr Mrs Ms Mx Messrs Mme Mlle Dr Drs Prof Rev Hon Fr St Ste mr mrs ms dr prof
    Gen Col Lt Sgt Capt Cpl Maj Cmdr Adm Brig Gov Lieut Pres Sen Sens Rep Reps Supt
    Jr Sr Esq Inc Ltd Corp Co Cos Bros Assn Dept Univ Ave Blvd Rd Mt Ft
    Jan Feb Apr Aug Sept Oct Nov Dec Tue Tues Wed Thu Thur Thurs Fri
    Ala Ariz Ark Calif Colo Conn Fla Ga Ky Md Mich Minn Mont Neb Nev Okla Ore Pa Penn
    Tenn Tex Va Vt Wis Wyo
    etc vs al cf viz approx dept Ph.D Ed.D Th.D B.Sc M.Sc LL.B LL.D LL.M
""".split()

# These are also plain words, names or letters, so a number or a comma has to follow.
_ABBREVIATIONS_BEFORE_NUMBER = """
    No Nos no nos Fig Figs fig figs Eq Eqs Sec Secs Art Arts Ch Chap Vol vol Vols p pp P c ca
    Mar Jun Jul Sat Sun Mon
""".split()


def _any_of(words: Iterable[str]) -> str:
    return "(?:" + "|".join(re.escape(word) for word in words) + ")"


@cache
def _character_pattern() -> re.Pattern[str]:
    return re.compile(rf"\S(?:(?!\w)[{_mark_spans()}\u200c\u200d])*")


@cache
def _mark_spans() -> str:
    """List the combining marks as the inside of a regular-expression class.

    `re` counts no mark as part of a word. Neighbouring marks are merged over the letters between
    them, since each range beyond U+FFFF is one more comparison for each character matched.

    Returns:
        Ranges of all marks, which may cover letters but never punctuation or white space.
    """
    # No mark stands outside these two stretches of Unicode.
    candidates = "".join(map(chr, (*range(0x300, 0x1F000), *range(0xE0100, 0xE01F0))))
    spans: list[tuple[str, str]] = []
    mergeable = False
    for character in re.findall(r"\W", candidates):
        category = unicodedata.category(character)
        if category[0] == "M":
            first = spans.pop()[0] if mergeable else character
            spans.append((first, character))
            mergeable = True
        elif category != "Cn":
            mergeable = False
    return "".join(f"{first}-{last}" for first, last in spans)


@cache
def _english_pattern() -> re.Pattern[str]:
    """Compile the English rules into one pattern whose matches are the words.

    The order of the alternatives is the order of preference. To keep time linear, each of them
    either takes what it has looked at, or looks at a bounded number of characters, or at a stretch
    that no other word start looks at. Possessive quantifiers stand on single characters only, as
    those on groups are faulty before Python 3.11.5.

    Returns:
        A pattern without capturing groups, so that `findall` gives the words themselves.
    """
    # Soft hyphen and the zero-width (non-)joiners belong to the word they stand in.
    marks = _mark_spans() + "\u00ad\u200c\u200d"
    mark = rf"(?:(?!\w)[{marks}])"
    no_mark_next = r"(?![^\x00-\u02ff])"
    in_word = rf"[\w{marks}]"
    capital = "[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я]"
    apostrophe = r"['\u2019]"
    clitic = r"(?:[sSmMdD]|re|RE|ve|VE|ll|LL)(?!\w)"

    # The last look-ahead gives the n of "n't" back.
    part = rf"[^\W_]{in_word}*(?<!_)(?!(?<=[nN]){apostrophe}[tT](?!\w))"
    joint = (
        rf"(?:[-\u2010\u2011]|\.(?!{capital})|(?<=\d)[,:/\u2044](?=\d)"
        rf"|(?<=[A-Z])&(?=[A-Z])|(?<!\d){apostrophe}(?!\d|{clitic}))"
    )
    sign = r"(?<![^\s(\[{=<>~])[-+\u2212±]\.?(?=\d)|(?<![\w.])\.(?=\d)"
    # Of "a.b.com" nothing is an acronym; of "U.S.Army" the first four characters are.
    acronym = r"[A-Za-z](?:\.[A-Za-z]){1,15}(?!\w|\.[a-z\d_])\.?"
    hanging_hyphen = r"-(?=\s?,?\s(?:and|or|to)\s)"

    link_part = r"""[^\s()<>"“”«»]*"""
    link_end = rf"{link_part}(?:\({link_part}\){link_part})*(?<![.,;:!?'\u2019…*\]}}。\uff0c、])"
    after_domain = (
        r"(?:(?<=\.(?:com|org|net|edu|gov|int|dev|app))"
        r"|(?<=\.(?:ai|au|ca|co|de|eu|fr|io|me|uk|us)))"
    )

    emoji = r"[\u2190-\u2bff\U0001f000-\U0001faff]"
    emoji_tail = rf"(?:{mark}|[\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f])*"

    word_like = [
        rf"(?:(?:https?|HTTPS?|Https?|ftps?|sftp|ssh|git|file|s3|gs)://|www\.(?=\w)){link_end}",
        r"\w[\w.+-]{0,63}+@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)",
        rf"(?=[A-Za-z]{{1,6}}+\.)(?:{_any_of(_ABBREVIATIONS)}\.(?:(?:-\w++)+|(?![a-z_]|\.\.))"
        rf"|{_any_of(_ABBREVIATIONS_BEFORE_NUMBER)}\.(?=\s?\d|,))",
        # An initial, but not the pronoun, and not the last letter of the text or paragraph.
        rf"(?!I\.(?!\s?{capital}\.)){capital}\."
        r"""(?![a-z\d_."'”\u2019)\]]|[A-Z]\.|\s*\Z|[^\S\n]*\n[^\S\n]*\n)""",
        r"(?:US|HK|NZ|AU|CA|[ACRS])\$(?=\s?[\d.])|(?:[CF]#|C\+\+)(?![\w+#])",
        r"\d{1,2}(?::\d\d)?(?=[AaPp]\.[Mm]\.)",
        rf"(?:{acronym}|(?:{sign})?{part})(?:{joint}{part})*"
        rf"(?:{after_domain}/{link_end}|{hanging_hyphen})?",
        rf"[nN]{apostrophe}[tT](?!\w)",
    ]
    after_apostrophe = [
        rf"(?<=[^\s(\[{{“\u2018]['\u2019]){clitic}",
        rf"(?:{clitic}|[tT](?!\w))(?!['\u2019-])",
        # Years and words that have lost their beginning.
        r"(?<!\w['\u2019])(?:\d\d(?:s(?!\w)|(?![\w'\u2019.,:/%]))|[nN]['\u2019]?(?!\w)"
        r"|(?:em|til|cause|bout|Em|Til|Cause|Bout)(?!\w)|[tT](?=(?:is|was|were|will)(?!\w)))",
    ]
    alternatives = [
        r"[Cc][Aa][Nn](?=[Nn][Oo][Tt](?![\w'\u2019-]))",
        # The next two take most of ordinary text at the first try.
        r"""[^\W_]\w*+(?<!_)(?=[\s;!?)"”]|,(?!\d)|\Z)""",
        rf'(?:[,;:!?()"]|\.(?=\s|\Z)){no_mark_next}',
        r"[0-9#*]\ufe0f?\u20e3",
        rf"(?=[\w.+\u2212±-])(?:{'|'.join(word_like)})",
        rf"{apostrophe}(?:{'|'.join(after_apostrophe)})",
        rf"(?<![\w&])[#@](?=\d*+[^\W\d]){in_word}+",
        r"\.{2,}|-{2,}|_+|={2,}|\*{2,}|~{2,}|\+{2,}|#{2,}|``|''|…+|[\u2013—―]+",
        rf"[!-/:-@\[-^`{{-~]{no_mark_next}",
        rf"(?:[\U0001f1e6-\U0001f1ff]{{2}}|\S){emoji_tail}(?:(?<=\u200d){emoji}{emoji_tail})*",
    ]
    return re.compile(rf"(?=\S)(?:{'|'.join(alternatives)})")
