"""Tests of how lines are split into words, and of the warnings about unexpected text."""

import lzma
import os
import sys
import unicodedata
from itertools import islice
from pathlib import Path

import pytest

from elmo.errors import ConfigError
from elmo.text import korean
from elmo.text import line_splitter as module
from elmo.text.line_splitter import CONVERT_REMEDY, OPTION_REMEDY, TextCheck, line_splitter

SHARED = Path(os.environ.get("ELMO_SHARED", Path(__file__).parents[3] / "shared"))
RAW = ["She robbed a bank.", "He sat on the bank, and fell asleep.", "Mr. Kim saw it!"]
TOKENIZED = ["She robbed a bank .", "He did n't sit on the bank , did he ?", "A <unk> saw it ."]
# Words as Korean is written, with only the full stop separated, and its morphemes.
KOREAN = ["나는 은행에 갔다 .", "오늘은 날씨가 좋다 ."]
MORPHEMES = ["나 는 은행 에 갔 다 .", "오늘 은 날씨 가 좋 다 ."]


@pytest.mark.parametrize(
    ("tokenizer", "pretokenized", "expected"),
    [
        ("english", False, ["He", "did", "n't", "sit", "."]),
        ("english", True, ["He", "didn't", "sit."]),
        ("whitespace", False, ["He", "didn't", "sit."]),
        (None, False, ["He", "didn't", "sit."]),
    ],
)
def test_line_splitter_applies_the_tokenizer_unless_text_is_pretokenized(
    tokenizer, pretokenized, expected
):
    assert line_splitter(tokenizer, pretokenized=pretokenized)("He didn't sit.") == expected


@pytest.mark.parametrize("pretokenized", [True, False])
def test_line_splitter_rejects_an_unknown_tokenizer(pretokenized):
    with pytest.raises(ConfigError, match="Unknown tokenizer 'englisch'"):
        line_splitter("englisch", pretokenized=pretokenized)


@pytest.mark.parametrize(
    ("lines", "tokenizer", "pretokenized", "remedy", "message"),
    [
        (RAW, "english", True, CONVERT_REMEDY, "such as 'bank.'. If it is, omit --pretokenized."),
        (RAW, None, False, CONVERT_REMEDY, "in the model with elmo convert --tokenizer."),
        (RAW, None, True, CONVERT_REMEDY, "elmo convert --tokenizer, and omit --pretokenized."),
        (RAW, "whitespace", True, OPTION_REMEDY, "with --tokenizer, and omit --pretokenized."),
        (RAW, "whitespace", False, OPTION_REMEDY, "with --tokenizer, or use --pretokenized if"),
        (["나는 은행에 갔다."], "korean", True, CONVERT_REMEDY, "omit --pretokenized."),
        (KOREAN, "korean", False, CONVERT_REMEDY, None),
        (KOREAN, "korean", True, CONVERT_REMEDY, "'나는' becomes '나 는'. Omit --pretokenized"),
        (MORPHEMES, "korean", True, CONVERT_REMEDY, None),
        (TOKENIZED, "english", False, CONVERT_REMEDY, "separated by spaces, use --pretokenized."),
        (RAW, "english", False, CONVERT_REMEDY, None),
        (TOKENIZED, "english", True, CONVERT_REMEDY, None),
        (TOKENIZED, None, False, OPTION_REMEDY, None),
        (TOKENIZED, "characters", False, OPTION_REMEDY, None),
        # The tokenizer does not change these words, so nothing is wrong.
        (["He lives in Seoul ."], "english", False, CONVERT_REMEDY, None),
        # Full stops of abbreviations belong to their words.
        (["Mr. and Mrs. Kim left the U.S. in Sept. 1999"], None, False, OPTION_REMEDY, None),
        # Raw text can quote a word of tokenized text.
        ([*RAW, "Rare words are replaced by <UNK> here."], "english", False, OPTION_REMEDY, None),
        ([*RAW, "The word is @-@ there."], None, False, OPTION_REMEDY, "raw text, but it is split"),
        ([*RAW, "A bracket is -LRB- now."], "english", True, OPTION_REMEDY, "omit --pretokenized"),
        # Text of a language-modeling benchmark has no punctuation.
        (["the <unk> rose", "it 's up"], "english", False, OPTION_REMEDY, "use --pretokenized."),
        ([], "english", True, CONVERT_REMEDY, None),
        (["", " "], "english", False, CONVERT_REMEDY, None),
    ],
)
def test_text_check_warns_about_unexpected_text(
    caplog, lines, tokenizer, pretokenized, remedy, message
):
    if tokenizer == "korean":
        pytest.importorskip("kiwipiepy")
    TextCheck(tokenizer, pretokenized=pretokenized, remedy=remedy).check(lines)
    assert len(caplog.records) == (message is not None)
    assert (message or "") in caplog.text


def test_text_check_shows_the_first_word_that_is_split_again(caplog):
    line = f"{'a , ' * 40}then he saw the <unk> man ."
    TextCheck("english", pretokenized=False, remedy=OPTION_REMEDY).check([line])
    assert "'the <unk> man' becomes 'the < unk > man'." in caplog.text


PARAGRAPH = "He sat down. She left! Why?"


@pytest.mark.parametrize(
    ("lines", "tokenizer", "pretokenized", "is_reported"),
    [
        ([PARAGRAPH] * 5, "english", False, True),
        ([PARAGRAPH] * 5, None, False, True),
        (["나는 갔다. 비가 왔다. 추웠다."] * 5, "characters", False, True),
        (["He sat down . She left ! Why ?"] * 5, "whitespace", True, True),
        ([PARAGRAPH] * 3 + ["", " ", "One sentence.", "Two here. Two."], "english", False, True),
        ([PARAGRAPH] * 4, "english", False, False),
        ([PARAGRAPH] * 3 + ["One sentence."] * 3, "english", False, False),
        (["Mr. J. Kim paid $ 3.14 to the U.S. bank."] * 9, "english", False, False),
        ([PARAGRAPH] * 5, "characters-and-spaces", False, False),
    ],
)
def test_text_check_reports_lines_that_are_paragraphs(
    caplog, lines, tokenizer, pretokenized, is_reported
):
    for finds_paragraphs in (True, False):
        caplog.clear()
        TextCheck(
            tokenizer,
            pretokenized=pretokenized,
            remedy=OPTION_REMEDY,
            finds_paragraphs=finds_paragraphs,
        ).check(lines)
        expected = int(is_reported and finds_paragraphs)
        assert caplog.text.count("Use --sentences split") == expected


def test_text_check_accepts_tokenized_text_without_the_package_of_the_tokenizer(
    caplog, monkeypatch
):
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    korean._kiwi.cache_clear()
    TextCheck("korean", pretokenized=True, remedy=CONVERT_REMEDY).check(KOREAN)
    assert not caplog.records


@pytest.mark.parametrize("language", ["en", "English", "English (biomedical)"])
@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("나는 은행에 갔다 .", "Use the model small-ko for Korean (--model small-ko)."),
        ("Она пошла в банк .", "elmo download --list shows models of other languages."),
        ("She said 안녕 to him .", None),
        ("Élan naïf café 3.14 .", None),
    ],
)
def test_text_check_warns_about_a_script_that_an_english_model_does_not_know(
    caplog, language, line, remedy
):
    def check(language):
        caplog.clear()
        TextCheck("english", pretokenized=False, remedy="", language=language).check([line])
        return caplog.text

    assert (remedy or "") in check(language)
    assert bool(caplog.text) == (remedy is not None)
    assert not check("ru")
    assert not check(None)


def test_text_check_warns_about_tokenized_text_of_decomposed_hangul(caplog):
    korean._warn_once.cache_clear()
    for _ in range(2):
        line = unicodedata.normalize("NFD", "나 는 갔 다 .")
        TextCheck("korean", pretokenized=True, remedy="").check([line])
    assert len([record for record in caplog.records if "NFC" in record.message]) == 1


def test_text_check_warns_once_as_soon_as_the_sample_is_complete(caplog, monkeypatch):
    monkeypatch.setattr(module, "MAX_LINES", 3)
    check = TextCheck("english", pretokenized=True, remedy=CONVERT_REMEDY)
    for line in ("", RAW[0], RAW[1]):
        check.add(line)
    assert not caplog.records
    for line in RAW * 3:
        check.add(line)
    check.finish()
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("name", "tokenizer"), [("en-1", "english"), ("ko-1", "korean")])
def test_text_check_distinguishes_raw_corpora_from_tokenized_ones(caplog, name, tokenizer):
    path = SHARED / "data" / f"{name}.txt.xz"
    if not path.is_file():
        pytest.skip(f"{path} does not exist")
    if tokenizer == "korean":
        pytest.importorskip("kiwipiepy")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        raw = [line for line in islice(file, 400) if line.strip()]
    tokenized = [" ".join(line_splitter(tokenizer)(line)) for line in raw]
    for lines, pretokenized in ((raw, False), (tokenized, True)):
        TextCheck(tokenizer, pretokenized=pretokenized, remedy=CONVERT_REMEDY).check(lines)
    assert not caplog.records
    TextCheck(tokenizer, pretokenized=True, remedy=CONVERT_REMEDY).check(raw)
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("line", "is_warned"),
    [
        ("새롭 ㄴ 영화 를 보 았 다 .", True),
        ("학교 에 가 ᆸ니다 .", True),
        ("새로운 영화 를 봤 다 .", False),
        ("나 는 학교 에 갔 다 ㅋㅋ .", False),
    ],
)
def test_text_check_warns_about_morphemes_in_dictionary_form(caplog, line, is_warned):
    TextCheck("korean", pretokenized=True, remedy="").check([line])
    assert ("dictionary form" in caplog.text) == is_warned
    caplog.clear()
    TextCheck("english", pretokenized=True, remedy="").check([line])
    assert "dictionary form" not in caplog.text


@pytest.mark.parametrize(
    ("tokenizer", "pretokenized", "line", "is_warned"),
    [
        (None, False, "나는 학교에 갔다.", True),
        ("english", False, "나는 학교에 갔다.", True),
        ("korean", False, "나는 학교에 갔다.", False),
        (None, True, "나 는 학교 에 갔 다 .", False),
        ("characters", False, "나는 학교에 갔다.", False),
        ("english", False, "She said 안녕 to him.", False),
    ],
)
def test_text_check_suggests_the_korean_tokenizer_for_a_corpus(
    caplog, tokenizer, pretokenized, line, is_warned
):
    TextCheck(tokenizer, pretokenized=pretokenized, remedy=OPTION_REMEDY).check([line])
    assert ("Use --tokenizer korean" in caplog.text) == is_warned
    assert len(caplog.records) == is_warned
