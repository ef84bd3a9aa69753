"""Tokenizers, which split raw text into words with character offsets.

Every word is an exact substring of the text, and at most white space is dropped, so that words can
be aligned with the source. Tokenizers do not split sentences, change case or rewrite quotes.
Tokenizers that need another package are in `korean.py` and `spacy_pipeline.py`;
`tokenizers_by_name.py` has all of them.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, Protocol


class Token(NamedTuple):
    """A word and its offsets: `source[start:end] == text`."""

    text: str
    """The word, exactly as in the source."""
    start: int
    """Index of its first character in the source."""
    end: int
    """Index after its last character in the source."""


class Tokenizer(Protocol):
    """Interface of all tokenizers. Saved models store the tokenizer's `name`."""

    @property
    def name(self) -> str:
        """Name of this tokenizer, as accepted by `get_tokenizer`."""

    def tokens(self, text: str) -> list[Token]:
        """Split a text of any length into words with offsets, in order and without overlaps."""

    def words(self, text: str) -> list[str]:
        """Return the words of `tokens` as strings; faster if offsets are not needed."""


class _PatternTokenizer:
    """Tokenizer whose words are the matches of a regular expression without groups."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def tokens(self, text: str) -> list[Token]:
        """Split a text into words with offsets."""
        return _match_tokens(self._pattern, text)

    def words(self, text: str) -> list[str]:
        """Split a text into words."""
        return self._pattern.findall(text)


class WhitespaceTokenizer:
    """Splits only at Unicode white space, as `str.split()` does."""

    name = "whitespace"

    def tokens(self, text: str) -> list[Token]:
        """Split at white space, with offsets."""
        return _match_tokens(_NOT_SPACE, text)

    def words(self, text: str) -> list[str]:
        """Split at white space."""
        return text.split()


class EnglishTokenizer(_PatternTokenizer):
    """Splits raw English text in Penn Treebank style, without changing any characters.

    Contractions and possessives are split (`do n't`, `it 's`), and punctuation is separated.
    Abbreviations, numbers, dates, hyphenated words, links, addresses and emoji are not split.
    Joining the words of ordinary text with spaces and splitting the result again yields the same
    words. In non-Latin scripts, the characters between white space and punctuation form one word.
    The running time is linear in the length of the text, for any input.
    """

    name = "english"

    def __init__(self) -> None:
        super().__init__(_english_pattern())


class CharacterTokenizer(_PatternTokenizer):
    """Makes every character a separate word, for scripts without spaces.

    Combining marks, joiners and variation selectors are attached to the preceding character.
    """

    name = "characters"

    def __init__(self) -> None:
        super().__init__(_character_pattern())


class CharactersAndSpacesTokenizer(_PatternTokenizer):
    """Makes every character a separate word, including spaces, for character language models.

    Each space, tab or other white-space character is a word. Only line feeds and carriage returns
    are dropped, because they end lines. Combining marks are attached as in `CharacterTokenizer`.
    """

    name = "characters-and-spaces"

    def __init__(self) -> None:
        super().__init__(_character_and_space_pattern())


def tokens_from_spans(text: str, spans: Iterable[tuple[int, int]]) -> list[Token]:
    """Convert the word spans found by another tokenizer to tokens, dropping only white space.

    The spans are sorted by start. Overlapping spans are joined, text between two spans becomes a
    token, spans are split at white space, and empty ones are ignored.
    """
    tokens: list[Token] = []
    start = end = 0
    for first, last in (*spans, (len(text), len(text))):
        if first >= end:
            tokens += _split_spaces(text, start, end)
            tokens += _split_spaces(text, end, first)
            start = first
        end = max(end, last)
    return tokens + _split_spaces(text, start, end)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates with U+FFFD, because native libraries do not accept them."""
    return _SURROGATE.sub("\ufffd", text)


def _split_spaces(text: str, start: int, end: int) -> list[Token]:
    return [
        Token(match[0], match.start(), match.end())
        for match in _NOT_SPACE.finditer(text, start, end)
    ]


def _match_tokens(pattern: re.Pattern[str], text: str) -> list[Token]:
    return [Token(match[0], match.start(), match.end()) for match in pattern.finditer(text)]


_NOT_SPACE = re.compile(r"\S+")
_SURROGATE = re.compile("[\ud800-\udfff]")

# Abbreviations that keep their full stop in every context.
_ABBREVIATIONS = """
    Mr Mrs Ms Mx Messrs Mme Mlle Dr Drs Prof Rev Hon Fr St Ste mr mrs ms dr prof
    Gen Col Lt Sgt Capt Cpl Maj Cmdr Adm Brig Gov Lieut Pres Sen Sens Rep Reps Supt
    Jr Sr Esq Inc Ltd Corp Co Cos Bros Assn Dept Univ Ave Blvd Rd Mt Ft
    Jan Feb Apr Aug Sept Oct Nov Dec Tue Tues Wed Thu Thur Thurs Fri
    Ala Ariz Ark Calif Colo Conn Fla Ga Ky Md Mich Minn Mont Neb Nev Okla Ore Pa Penn
    Tenn Tex Va Vt Wis Wyo
    etc vs al cf viz approx dept Ph.D Ed.D Th.D B.Sc M.Sc LL.B LL.D LL.M
""".split()

# These are also ordinary words, names or initials, so they only count before a number or a comma.
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
def _character_and_space_pattern() -> re.Pattern[str]:
    return re.compile(rf"[^\S\r\n]|{_character_pattern().pattern}")


@cache
def _mark_spans() -> str:
    r"""Return the ranges of all combining marks, for use in a regular-expression character class.

    `\w` does not match combining marks. Neighboring ranges are merged, including any word
    characters between them, but no punctuation or white space, because each range beyond U+FFFF
    costs one comparison per matched character.
    """
    # All combining marks are in these two ranges of Unicode.
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

    It has no capturing groups, so that `findall` returns the words themselves. Alternatives are
    listed in order of preference. For linear running time, each alternative consumes the text it
    scans, scans a bounded number of characters, or scans text that is not scanned from any other
    word start. Possessive quantifiers are applied only to single characters, because on groups they
    are broken before Python 3.11.5.
    """
    # Soft hyphens and zero-width (non-)joiners are part of the word around them.
    marks = _mark_spans() + "\u00ad\u200c\u200d"
    mark = rf"(?:(?!\w)[{marks}])"
    no_mark_next = r"(?![^\x00-\u02ff])"
    in_word = rf"[\w{marks}]"
    capital = "[A-ZÀ-ÖØ-ÞΑ-ΩЀ-Я]"
    apostrophe = r"['\u2019]"
    clitic = r"(?:[sSmMdD]|re|RE|ve|VE|ll|LL)(?!\w)"

    # The last lookahead leaves the n of "n't" to the next word.
    part = rf"[^\W_]{in_word}*(?<!_)(?!(?<=[nN]){apostrophe}[tT](?!\w))"
    joint = (
        rf"(?:[-\u2010\u2011]|\.(?!{capital})|(?<=\d)[,:/\u2044](?=\d)"
        rf"|(?<=[A-Z])&(?=[A-Z])|(?<!\d){apostrophe}(?!\d|{clitic}))"
    )
    sign = r"(?<![^\s(\[{=<>~])[-+\u2212±]\.?(?=\d)|(?<![\w.])\.(?=\d)"
    # No part of "a.b.com" is an acronym; of "U.S.Army" the first four characters are.
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
        # An initial, but not the pronoun I, and not at the end of the text or a paragraph.
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
        # Years and words with an omitted beginning.
        r"(?<!\w['\u2019])(?:\d\d(?:s(?!\w)|(?![\w'\u2019.,:/%]))|[nN]['\u2019]?(?!\w)"
        r"|(?:em|til|cause|bout|Em|Til|Cause|Bout)(?!\w)|[tT](?=(?:is|was|were|will)(?!\w)))",
    ]
    alternatives = [
        r"[Cc][Aa][Nn](?=[Nn][Oo][Tt](?![\w'\u2019-]))",
        # The next two match most words of ordinary text.
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
