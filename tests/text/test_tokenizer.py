"""Tests for the tokenizers: expected words, complete coverage of the text, linear running time."""

import sys
import time
import unicodedata
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import ConfigError, MissingExtra
from elmo.text import korean
from elmo.text.tokenizer import (
    EnglishTokenizer,
    Token,
    WhitespaceTokenizer,
    tokens_from_spans,
)
from elmo.text.tokenizers_by_name import TOKENIZERS, get_tokenizer

NAMES = [*sorted(TOKENIZERS), "spacy:blank-en", "spacy:blank-xx"]
# Cached, because some tokenizers take long to load.
cached_tokenizer = cache(get_tokenizer)

ENGLISH = EnglishTokenizer()
WHITESPACE = WhitespaceTokenizer()

# Text and expected words, which are separated by |.
CASES = [
    # Plain punctuation.
    ("", ""),
    (" \t\n\u00a0\u2003 ", ""),
    ("Hello, world!", "Hello|,|world|!"),
    ("One. Two? Three: four; five.", "One|.|Two|?|Three|:|four|;|five|."),
    ("What?! No!!!", "What|?|!|No|!|!|!"),
    ('He said "stop (now)".', 'He|said|"|stop|(|now|)|"|.'),
    ("“Curly,” she said.", "“|Curly|,|”|she|said|."),
    ("'Quoted words' here", "'|Quoted|words|'|here"),
    ("``Treebank quotes'' stay", "``|Treebank|quotes|''|stay"),
    ("a;b,c and/or d", "a|;|b|,|c|and|/|or|d"),
    ("end.Next one", "end|.|Next|one"),
    ("[1] {x} <b>", "[|1|]|{|x|}|<|b|>"),
    # Contractions and possessives.
    ("don't DON'T don’t", "do|n't|DO|N'T|do|n’t"),
    ("can't won't shan't ain't", "ca|n't|wo|n't|sha|n't|ai|n't"),
    ("It's what we'll say; I'm sure.", "It|'s|what|we|'ll|say|;|I|'m|sure|."),
    ("they’re you’ve she’d", "they|’re|you|’ve|she|’d"),
    ("THEY'RE HERE'S", "THEY|'RE|HERE|'S"),
    ("I'd've couldn't've", "I|'d|'ve|could|n't|'ve"),
    ("I cannot. Cannot CANNOT", "I|can|not|.|Can|not|CAN|NOT"),
    ("the dogs' bones, James's", "the|dogs|'|bones|,|James|'s"),
    ("mother-in-law's O'Neill's", "mother-in-law|'s|O'Neill|'s"),
    ("five o'clock, ma'am", "five|o'clock|,|ma'am"),
    ("the U.S.'s and 1990's", "the|U.S.|'s|and|1990|'s"),
    ("'Tis the '90s; ’tis '95", "'T|is|the|'90s|;|’t|is|'95"),
    ("rock 'n' roll, get 'em", "rock|'n'|roll|,|get|'em"),
    ("it 's do n't don 't", "it|'s|do|n't|don|'t"),
    ("the letter 's' and ('d')", "the|letter|'|s|'|and|(|'|d|'|)"),
    # Full stops of abbreviations and of sentences.
    ("Mr. and Mrs. Smith met Dr. No.", "Mr.|and|Mrs.|Smith|met|Dr.|No|."),
    ("the U.S. economy, e.g. at 5 a.m.", "the|U.S.|economy|,|e.g.|at|5|a.m."),
    ("at 5p.m. or 10:30a.m. sharp", "at|5|p.m.|or|10:30|a.m.|sharp"),
    ("J. R. R. Tolkien, J.S. Bach", "J.|R.|R.|Tolkien|,|J.S.|Bach"),
    ("Samuel L. Jackson has vitamin C.", "Samuel|L.|Jackson|has|vitamin|C|."),
    ("Plan B.\n\nThen (plan C.) went", "Plan|B|.|Then|(|plan|C|.|)|went"),
    ("He and I. Then I. M. Pei", "He|and|I|.|Then|I.|M.|Pei"),
    ("No. 5, fig. 2 and no.", "No.|5|,|fig.|2|and|no|."),
    ("the Ph.D. of St.Louis Inc.", "the|Ph.D.|of|St.|Louis|Inc."),
    ("U.S.-based, Calif.-based, U.S.Army", "U.S.-based|,|Calif.-based|,|U.S.|Army"),
    ("cats, dogs, etc. etc...", "cats|,|dogs|,|etc.|etc|..."),
    ("It was 1990. He left.", "It|was|1990|.|He|left|."),
    # Numbers.
    ("1,234.5 and 1,000,000, 3.14.", "1,234.5|and|1,000,000|,|3.14|."),
    ("up 5% or 5.5%-6%", "up|5|%|or|5.5|%|-|6|%"),
    ("$5, £3m, US$10, €.50", "$|5|,|£|3m|,|US$|10|,|€|.50"),
    ("at 10:30 on 12/05/2020 or 2020-12-05", "at|10:30|on|12/05/2020|or|2020-12-05"),
    ("1/2, 3½ and 24/7", "1/2|,|3½|and|24/7"),
    ("-5 degrees (+3), 5-10, x = -1", "-5|degrees|(|+3|)|,|5-10|,|x|=|-1"),
    ("the 2nd, 1990s, 5kg, 3D", "the|2nd|,|1990s|,|5kg|,|3D"),
    ("5'10\"", "5|'|10|\""),
    # Hyphens, dashes, dots, runs.
    ("a bio-identical, state-of-the-art", "a|bio-identical|,|state-of-the-art"),
    ("yes--no -- maybe", "yes|--|no|--|maybe"),
    ("yes—no – 1990–2000", "yes|—|no|–|1990|–|2000"),
    ("pre- and post-war; left- ,", "pre-|and|post-war|;|left|-|,"),
    ("Wait... what… no..", "Wait|...|what|…|no|.."),
    ("_so_ called snake_case ___", "_|so|_|called|snake_case|___"),
    ("**bold** ==== ~~", "**|bold|**|====|~~"),
    # Links, addresses, hashtags and program names.
    ("See http://a.org/x_(y)?q=1#z.", "See|http://a.org/x_(y)?q=1#z|."),
    ("(https://a.org/b), www.c.com!", "(|https://a.org/b|)|,|www.c.com|!"),
    ("github.com/a/b. example.com, Node.js", "github.com/a/b|.|example.com|,|Node.js"),
    ("me.you+x@mail.example.co.uk.", "me.you+x@mail.example.co.uk|."),
    ("#tag, @user_1: #1 @ 5", "#tag|,|@user_1|:|#|1|@|5"),
    ("me@home a@b@c.de", "me|@|home|a|@|b@c.de"),
    ("AT&T, R&D, this & that", "AT&T|,|R&D|,|this|&|that"),
    ("C++, C# and F#.", "C++|,|C#|and|F#|."),
    # Emoji.
    ("ok👍👍🏽 ❤️!", "ok|👍|👍🏽|❤️|!"),
    ("👩‍👩‍👧‍👦👩🏽‍💻🇩🇪🇫🇷", "👩‍👩‍👧‍👦|👩🏽‍💻|🇩🇪|🇫🇷"),
    ("1️⃣2️⃣ 🏴\U000e0067\U000e007f", "1️⃣|2️⃣|🏴\U000e0067\U000e007f"),
    # Other scripts and odd characters.
    ("naïve e\u0301te\u0301, Zürich's", "naïve|e\u0301te\u0301|,|Zürich|'s"),
    ("日本語、テキスト。", "日本語|、|テキスト|。"),
    ("हिन्दी में लिखा।", "हिन्दी|में|लिखा|।"),
    ("می\u200cخواهم، كِتَاب", "می\u200cخواهم|،|كِتَاب"),
    ("안녕하세요, 세계! Привет, мир.", "안녕하세요|,|세계|!|Привет|,|мир|."),
    ("a\x00b \ud800c \ufeffd", "a|\x00|b|\ud800|c|\ufeff|d"),
]

ORDINARY_SENTENCES = [
    "Mr. Smith's dog doesn't like the neighbors' cat, but it's fine.",
    "The U.S. economy grew 5.5% (to $1,234.5bn) by 10:30 a.m. on 12/05/2020.",
    "“We can't,” he said—quietly—“and we won't.” I cannot agree...",
    "Write to me@example.com or see https://example.com/a_(b)?c=d, e.g. today!",
    "In the '90s, rock 'n' roll wasn't dead; 'tis true, J. R. R. Tolkien and I.",
    "U.S.-based AT&T paid US$5 for pre- and post-war goods, No. 5 of 1/2 dozen.",
    "Take vitamin C.",
    "'Hello,' she'd said, 'you've got -5 points #winning @user 👍🏽.'",
    "15-, 16- and 17-year-olds at well-known schools (e.g. St. John's) left -- alas.",
]

SLOW_TEXTS = {
    "one word": "a",
    "apostrophes": "'",
    "stops": ".",
    "links": "http://",
    "link brackets": "http://(a",
    "link ends": "http://a.,",
    "hyphens": "-",
    "digits": "1",
    "thousands": "1,",
    "acronym": "A.",
    "dotted words": "a.b",
    "addresses": "ab.cd@",
    "contractions": "n't",
    "underscores": "a_",
    "hashes": "#1234",
    "combining marks": "a\u0301",
    "joiners": "👍\u200d",
    "spaces": " ",
    "lines": "J.\n",
}

any_text = st.text(st.characters(exclude_categories=()))
# Mostly strings that the rules look for, so that rules interact.
rule_text = st.lists(
    st.sampled_from(
        [
            *"aAnNtsIJ1.,-–—_'’\"/:@#&$%+()[]! \n\t\u00a0\u0301\u200d\ufe0f👍🇩é日\x00\ud800",
            *("http://", "www.", ".com/", "n't", "'s", "cannot", "Mr.", "U.S.", "e.g.", "No. "),
        ]
    )
).map("".join)


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_english_tokenizer_on_worked_examples(text: str, expected: str) -> None:
    assert ENGLISH.words(text) == (expected.split("|") if expected else [])


def test_english_tokenizer_splits_at_pipe_characters() -> None:
    assert ENGLISH.words("a | b|c") == ["a", "|", "b", "|", "c"]


def test_tokens_have_character_offsets() -> None:
    expected = [Token("do", 1, 3), Token("n't", 3, 6), Token("go", 8, 10), Token(".", 10, 11)]
    assert ENGLISH.tokens(" don't  go.\n") == expected
    assert WHITESPACE.tokens(" don't  go.\n") == [Token("don't", 1, 6), Token("go.", 8, 11)]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100)
@given(text=any_text | rule_text)
def test_tokenizers_drop_only_white_space(name: str, text: str) -> None:
    tokens = cached_tokenizer(name).tokens(text)
    end = 0
    for token in tokens:
        assert token.end > token.start >= end
        assert text[token.start : token.end] == token.text
        assert not text[end : token.start].strip()
        end = token.end
    assert not text[end:].strip()
    words = "".join(token.text for token in tokens)
    if name == "characters-and-spaces":
        assert words == text.replace("\n", "").replace("\r", "")
    else:
        assert words == "".join(text.split())


def test_characters_and_spaces_tokenizer_keeps_white_space():
    tokenizer = get_tokenizer("characters-and-spaces")
    assert tokenizer.words(" a  é\u0301\tb\u3000\r\n") == [
        *(" ", "a", " ", " ", "é\u0301", "\t", "b", "\u3000")
    ]
    assert tokenizer.tokens("a b")[1:] == [Token(" ", 1, 2), Token("b", 2, 3)]
    assert tokenizer.words("  ") == [" ", " "]
    assert tokenizer.words("\n") == []


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100)
@given(text=any_text | rule_text)
def test_words_are_deterministic_and_match_tokens(name: str, text: str) -> None:
    words = cached_tokenizer(name).words(text)
    assert words == cached_tokenizer(name).words(text)
    assert words == [token.text for token in cached_tokenizer(name).tokens(text)]


@settings(max_examples=100)
@given(text=any_text | rule_text)
def test_whitespace_tokenizer_matches_str_split(text: str) -> None:
    assert [token.text for token in WHITESPACE.tokens(text)] == text.split()


@pytest.mark.parametrize("sentence", ORDINARY_SENTENCES)
def test_english_tokenizer_is_idempotent_on_ordinary_sentences(sentence: str) -> None:
    words = ENGLISH.words(sentence)
    assert ENGLISH.words(" ".join(words)) == words


@pytest.mark.parametrize("repeated", SLOW_TEXTS.values(), ids=SLOW_TEXTS.keys())
def test_english_tokenizer_runs_in_linear_time(repeated: str) -> None:
    # A megabyte takes about one second; quadratic time would be hours on any machine.
    text = repeated * (1_000_000 // len(repeated.encode()))
    start = time.process_time()
    words = ENGLISH.words(text)
    assert time.process_time() - start < 60
    assert sum(map(len, words)) == len("".join(text.split()))


# ------------------------------------------------------------------------ characters as words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("日本語 です。", "日|本|語|で|す|。"),
        ("e\u0301a नि", "e\u0301|a|नि"),
        ("\u0301a", "\u0301|a"),
        ("가A1", "가|A|1"),
        ("👍🏽", "👍|🏽"),
        ("a\u200db\r\n", "a\u200d|b"),
    ],
)
def test_character_tokenizer_splits_every_character(text: str, expected: str) -> None:
    assert get_tokenizer("characters").words(text) == (expected.split("|") if expected else [])


# -------------------------------------------------------------- spans of other tokenizers


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], "ab|cd|e"),
        ([(0, 2), (3, 5), (6, 7)], "ab|cd|e"),
        ([(0, 1)], "a|b|cd|e"),
        ([(0, 1), (0, 2)], "ab|cd|e"),
        ([(0, 2), (1, 2)], "ab|cd|e"),
        ([(1, 1), (3, 4), (4, 4)], "a|b|c|d|e"),
        ([(0, 7)], "ab|cd|e"),
        ([(1, 4), (3, 6)], "a|b|cd|e"),
    ],
)
def test_tokens_from_spans_on_worked_examples(spans: list[tuple[int, int]], expected: str) -> None:
    assert [token.text for token in tokens_from_spans("ab cd e", spans)] == expected.split("|")


@given(
    text=st.text("ab \n", max_size=20),
    spans=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8),
)
def test_tokens_from_spans_drops_only_white_space(text: str, spans: list[tuple[int, int]]) -> None:
    inside = sorted((min(a, b), max(a, b)) for a, b in spans if max(a, b) <= len(text))
    tokens = tokens_from_spans(text, inside)
    assert "".join(token.text for token in tokens) == "".join(text.split())
    assert all(text[token.start : token.end] == token.text for token in tokens)


# ----------------------------------------------------------------------------- Korean and spaCy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("나는 학교에 갔다.", "나|는|학교|에|갔|다|."),
        ("했어요!", "했|어요|!"),
        ("예뻤다", "예뻤|다"),
        ("👍𠮷 한국어를", "👍|𠮷|한국어|를"),
    ],
)
def test_korean_tokenizer_splits_text_into_morphemes(text: str, expected: str) -> None:
    assert cached_tokenizer("korean").words(text) == expected.split("|")


def test_korean_tokenizer_splits_decomposed_hangul_like_composed_with_one_warning(caplog) -> None:
    korean._warn_once.cache_clear()
    tokenizer = cached_tokenizer("korean")
    text = "나는 café에서 👍 학교에 갔다."
    decomposed = "".join(unicodedata.normalize("NFD", c) if "가" <= c <= "힣" else c for c in text)
    assert tokenizer.tokens(text)
    assert not caplog.records
    for _ in range(2):
        tokens = tokenizer.tokens(decomposed)
    assert [unicodedata.normalize("NFC", t.text) for t in tokens] == tokenizer.words(text)
    assert all(decomposed[t.start : t.end] == t.text for t in tokens)
    assert [record.message.count("to NFC first") for record in caplog.records] == [1]


def test_spacy_tokenizer_matches_tokenizer_of_pipeline() -> None:
    tokenizer = cached_tokenizer("spacy:blank-en")
    assert tokenizer.name == "spacy:blank-en"
    assert tokenizer.words("I don't know,  Mr. X.") == ["I", "do", "n't", "know", ",", "Mr.", "X."]


@pytest.mark.parametrize("name", ["spacy:no_such_pipeline", "spacy:blank-qqq", "spacy:"])
def test_spacy_pipeline_that_is_not_installed_raises_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot be loaded.*download"):
        get_tokenizer(name)


def test_spacy_error_has_no_double_punctuation_and_suggests_blank_pipelines() -> None:
    with pytest.raises(ConfigError) as raised:
        get_tokenizer("spacy:en")
    assert ".." not in str(raised.value)
    assert str(raised.value).endswith(" Did you mean spacy:blank-en?")


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("korean", "kiwipiepy", "ko"), ("spacy:blank-en", "spacy", "spacy")],
)
def test_error_for_missing_tokenizer_package_names_the_extra(
    monkeypatch, name: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    korean._kiwi.cache_clear()
    with pytest.raises(MissingExtra, match=rf"{name}.*\[{extra}\]"):
        get_tokenizer(name)


def test_korean_text_is_split_in_a_thread_of_kiwi_but_not_in_a_fork(monkeypatch):
    tokenizer = get_tokenizer("korean")
    arguments = []

    class Kiwi:
        def tokenize(self, text):
            arguments.append(text)
            return [] if isinstance(text, str) else [[]]

    monkeypatch.setattr(tokenizer, "_kiwi", Kiwi())
    tokenizer.tokens("가")
    monkeypatch.setattr("os.getpid", lambda: 0)
    tokenizer.tokens("나")
    assert arguments == [["가"], "나"]
