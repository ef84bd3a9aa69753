"""Tests for the character schemes: exact ids of bytes and dictionary symbols."""

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import spell

from elmo.errors import FormatError
from elmo.text.characters import (
    SYMBOL_SCHEMES,
    ByteCharacters,
    CodePointCharacters,
    DictionaryCharacters,
    JamoCharacters,
    build_dictionary,
    fitted_width,
)

BOUNDARY_TOKENS = {"<S>": 256, "</S>": 257}
PAD = 261


def padded(ids, width=50):
    return ids + [PAD] * (width - len(ids))


# ------------------------------------------------------------------------------------ bytes


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("the", [259, 117, 105, 102, 260]),
        ("A", [259, 66, 260]),
        ("a", [259, 98, 260]),
        ("", [259, 260]),
        ("\0", [259, 1, 260]),
        ("é", [259, 196, 170, 260]),
        ("日", [259, 231, 152, 166, 260]),
        ("😀", [259, 241, 160, 153, 129, 260]),
        ("e\u0301", [259, 102, 205, 130, 260]),
        ("<s>", [259, 61, 116, 63, 260]),
        ("<S>", [259, 61, 84, 63, 260]),
        ("</S>", [259, 61, 48, 84, 63, 260]),
        ("<UNK>", [259, 61, 86, 79, 76, 63, 260]),
        (" ", [259, 33, 260]),
        ("\ud800", [259, 260]),
        ("a\udfffb", [259, 98, 99, 260]),
        ("x" * 47, [259] + [121] * 47 + [260]),
        ("x" * 48, [259] + [121] * 48 + [260]),
        ("x" * 49, [259] + [121] * 48 + [260]),
        ("日" * 20, [259] + [231, 152, 166] * 16 + [260]),
        # Removed surrogates take no columns.
        ("\ud800" * 9 + "x" * 60, [259] + [121] * 48 + [260]),
        # 47 bytes, then a character of two bytes, which is truncated.
        ("x" * 47 + "é", [259] + [121] * 47 + [196, 260]),
    ],
)
def test_byte_ids_match_expected_ids_of_single_words(word, ids):
    rows = ByteCharacters().ids([word])
    assert rows.dtype == np.int64
    assert rows.tolist() == [padded(ids)]


def test_byte_scheme_encodes_boundary_tokens_as_special_ids():
    assert ByteCharacters().boundaries().tolist() == [
        padded([259, 257, 260]),
        padded([259, 258, 260]),
    ]
    assert ByteCharacters(3).boundaries().tolist() == [[259, 257, 260], [259, 258, 260]]


@pytest.mark.parametrize(
    ("width", "word", "ids"),
    [
        (3, "abc", [259, 98, 260]),
        (3, "", [259, 260, 261]),
        (3, "é", [259, 196, 260]),
        (5, "abcd", [259, 98, 99, 100, 260]),
        (5, "ab", [259, 98, 99, 260, 261]),
        (10, "日本語", [259, 231, 152, 166, 231, 157, 173, 233, 171, 260]),
    ],
)
def test_byte_ids_are_truncated_or_padded_to_other_widths(width, word, ids):
    assert ByteCharacters(width).ids([word]).tolist() == [ids]


def test_byte_scheme_returns_one_row_per_word():
    words = ["", "abcdefgh", "\ud800", "x", "", "é"]
    assert ByteCharacters(6).ids(words).tolist() == [
        [259, 260, 261, 261, 261, 261],
        [259, 98, 99, 100, 101, 260],
        [259, 260, 261, 261, 261, 261],
        [259, 121, 260, 261, 261, 261],
        [259, 260, 261, 261, 261, 261],
        [259, 196, 170, 260, 261, 261],
    ]


def test_byte_ids_are_empty_without_words():
    assert ByteCharacters(7).ids([]).shape == (0, 7)


def test_byte_scheme_encodes_special_words_as_one_id():
    mapper = ByteCharacters(6, {**BOUNDARY_TOKENS, "[TAG]": 7})
    assert mapper.ids(["<S>", "a", "</S>", "[TAG]", "<S", "<s>"]).tolist() == [
        [259, 257, 260, 261, 261, 261],
        [259, 98, 260, 261, 261, 261],
        [259, 258, 260, 261, 261, 261],
        [259, 8, 260, 261, 261, 261],
        [259, 61, 84, 260, 261, 261],
        [259, 61, 116, 63, 260, 261],
    ]


def test_boundary_token_in_text_is_encoded_as_bytes_by_default():
    mapper = ByteCharacters()
    rows = mapper.ids(["<S>", "</S>"])
    assert not (rows == mapper.boundaries()).all(axis=1).any()


def test_byte_ids_of_unusual_tokens_match_bilm_tf(golden_path):
    golden = json.loads(golden_path("generated/bilm-tf/char_ids.json").read_text("utf-8"))
    assert len(golden["tokens"]) == 18
    mapper = ByteCharacters(special_words=BOUNDARY_TOKENS)
    begin, end = mapper.boundaries()
    rows = np.concatenate([begin[None], mapper.ids(golden["tokens"]), end[None]])
    assert rows.tolist() == golden["ids_plus1_with_bos_eos"]


def test_byte_ids_of_truncated_words_match_bilm_tf(golden_path):
    words = golden_path("bilm-tf/train/vocab.txt").read_text("utf-8").split()
    mapper = ByteCharacters(10, BOUNDARY_TOKENS)
    with np.load(golden_path("generated/bilm-tf/lm_batches_maxword10.npz")) as batches:
        for number in range(int(batches["bs2_un10_n"])):
            ids = batches[f"bs2_un10_{number}_token_ids"].ravel()
            raw = batches[f"bs2_un10_{number}_tokens_characters"].reshape(-1, 10)
            known = ids != words.index("<UNK>")
            assert known.sum() > 10
            rows = mapper.ids([words[i] for i in ids[known]])
            assert (rows == raw[known] + 1).all()


def test_byte_scheme_truncates_ten_megabyte_word():
    rows = ByteCharacters().ids(["é" * 5_000_000, "a"])
    assert rows[0].tolist() == [259] + [196, 170] * 24 + [260]
    assert rows[1].tolist() == padded([259, 98, 260])


any_text = st.text(st.characters(), max_size=30)


@settings(max_examples=150)
@given(st.lists(any_text, max_size=6), st.integers(3, 60))
@example(["\ud83d\ude00", "\U0010ffff" * 20, "\x00\x7f\x80\xff"], 50)
def test_byte_ids_of_arbitrary_text_match_reference(words, width):
    expected = [[raw_id + 1 for raw_id in spell(word, width)] for word in words]
    assert ByteCharacters(width).ids(words).tolist() == expected


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["<S>", "</S>", "a", "<s>", ""]), max_size=6), st.integers(3, 9))
def test_byte_ids_of_special_words_match_reference(words, width):
    expected = [[raw_id + 1 for raw_id in spell(word, width, BOUNDARY_TOKENS)] for word in words]
    assert ByteCharacters(width, BOUNDARY_TOKENS).ids(words).tolist() == expected


@settings(max_examples=50)
@given(any_text)
def test_byte_ids_never_contain_mask_id(word):
    assert (ByteCharacters().ids([word]) > 0).all()


# ------------------------------------------------------------------------------------ dictionary

SYMBOLS = ["b", "a", "日", "\u3000", "😀", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
DICTIONARY = {symbol: number for number, symbol in enumerate(SYMBOLS)}
# Shifted by one: oov 8, pad 9, bow 10, eow 11.


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        # The id of <eow> comes before the word, that of <bow> after it.
        ("ab", [11, 2, 1, 10, 9, 9]),
        ("", [11, 10, 9, 9, 9, 9]),
        ("日", [11, 3, 10, 9, 9, 9]),
        ("😀a", [11, 5, 2, 10, 9, 9]),
        ("\u3000", [11, 4, 10, 9, 9, 9]),
        # Unknown: code points below, between and above the known ones, a surrogate, NUL.
        ("Z", [11, 8, 10, 9, 9, 9]),
        ("c", [11, 8, 10, 9, 9, 9]),
        ("\U0010ffff", [11, 8, 10, 9, 9, 9]),
        ("\ud800", [11, 8, 10, 9, 9, 9]),
        ("\0", [11, 8, 10, 9, 9, 9]),
        # Truncated to four code points, regardless of their bytes.
        ("日a日a日a", [11, 3, 2, 3, 2, 10]),
        ("abab", [11, 2, 1, 2, 1, 10]),
        # Special symbols in the text are spelled like any word.
        ("<pad", [11, 8, 8, 2, 8, 10]),
    ],
)
def test_dictionary_ids_match_expected_ids_of_single_words(word, ids):
    rows = DictionaryCharacters(6, DICTIONARY).ids([word])
    assert rows.dtype == np.int64
    assert rows.tolist() == [ids]


def test_dictionary_scheme_encodes_boundary_tokens_as_special_symbols():
    mapper = DictionaryCharacters(5, DICTIONARY)
    assert mapper.boundaries().tolist() == [[11, 6, 10, 9, 9], [11, 7, 10, 9, 9]]


def test_dictionary_scheme_returns_one_row_per_word():
    mapper = DictionaryCharacters(4, DICTIONARY)
    assert mapper.ids(["a", "", "bbb"]).tolist() == [[11, 2, 10, 9], [11, 10, 9, 9], [11, 1, 1, 10]]
    assert mapper.ids([]).shape == (0, 4)


def test_dictionary_without_code_points_maps_all_characters_to_oov():
    specials = {name: number for number, name in enumerate(DictionaryCharacters.SPECIAL_SYMBOLS)}
    # bos 1, eos 2, oov 3, pad 4, bow 5, eow 6.
    mapper = DictionaryCharacters(4, specials)
    assert mapper.ids(["ab", ""]).tolist() == [[6, 3, 3, 5], [6, 5, 4, 4]]


@pytest.mark.parametrize("missing", DictionaryCharacters.SPECIAL_SYMBOLS)
def test_dictionary_without_special_symbol_is_rejected(missing):
    rest = {symbol: number for symbol, number in DICTIONARY.items() if symbol != missing}
    with pytest.raises(FormatError, match=f"has no {missing}"):
        DictionaryCharacters(6, rest)


@settings(max_examples=100)
@given(st.lists(st.text(st.sampled_from("ab日😀cZ\u3000\ud800"), max_size=9), max_size=5))
def test_dictionary_ids_match_simple_reference_implementation(words):
    expected = []
    for word in words:
        inside = [DICTIONARY.get(c, DICTIONARY["<oov>"]) for c in word[:5]]
        row = [DICTIONARY["<eow>"], *inside, DICTIONARY["<bow>"]]
        row += [DICTIONARY["<pad>"]] * (7 - len(row))
        expected.append([raw_id + 1 for raw_id in row])
    assert DictionaryCharacters(7, DICTIONARY).ids(words).tolist() == expected


# ------------------------------------------------------------------------- code points and jamo


def test_code_point_scheme_puts_word_between_bow_and_eow():
    dictionary = build_dictionary(["ab", "b"], [3, 2], "codepoints")
    specials = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    assert list(dictionary.items()) == [*zip(specials, range(6), strict=True), ("b", 6), ("a", 7)]
    mapper = CodePointCharacters(5, dictionary)
    # Shifted: bos 1, eos 2, oov 3, pad 4, bow 5, eow 6, b 7, a 8.
    assert mapper.ids(["ab", "", "abba", "x"]).tolist() == [
        [5, 8, 7, 6, 4],
        [5, 6, 4, 4, 4],
        [5, 8, 7, 7, 6],
        [5, 3, 6, 4, 4],
    ]
    assert mapper.boundaries().tolist() == [[5, 1, 6, 4, 4], [5, 2, 6, 4, 4]]


@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
@example(words=["각", "가a힣", "\uabff\ud7a4", "ㅋㅋ", ""])
def test_to_jamo_matches_unicode_decomposition(words):
    points, lengths = JamoCharacters.symbols(words)
    expected = ["".join(map(decomposed, word)) for word in words]
    assert "".join(map(chr, points.tolist())) == "".join(expected)
    assert lengths.tolist() == list(map(len, expected))


def decomposed(character):
    """Return the jamo of a Hangul syllable, and any other character unchanged."""
    is_syllable = "\uac00" <= character <= "\ud7a3"
    return unicodedata.normalize("NFD", character) if is_syllable else character


def test_jamo_scheme_decomposes_truncates_and_pads_words():
    dictionary = build_dictionary(["각가"], [1], "jamo", min_count=1)
    # By frequency, then by code point: ㄱ ㅏ twice, ㄱ as a final once.
    assert list(dictionary)[6:] == ["\u1100", "\u1161", "\u11a8"]
    rows = JamoCharacters(6, dictionary).ids(["각", "각가", "가각", "", "가"])
    # Shifted: pad 4, bow 5, eow 6, then 7 8 9.
    assert rows.tolist() == [
        [5, 7, 8, 9, 6, 4],
        [5, 7, 8, 9, 7, 6],
        [5, 7, 8, 7, 8, 6],
        [5, 6, 4, 4, 4, 4],
        [5, 7, 8, 6, 4, 4],
    ]


@pytest.mark.parametrize("scheme", SYMBOL_SCHEMES)
@settings(max_examples=50)
@given(
    words=st.lists(st.text("ab각가é😀", max_size=9), min_size=1, max_size=6),
    width=st.integers(3, 12),
)
def test_symbol_schemes_match_simple_reference_implementation(scheme, words, width):
    dictionary = build_dictionary(words, [1] * len(words), scheme, min_count=2)
    mapper = SYMBOL_SCHEMES[scheme](width, dictionary)
    begin, end = mapper.WORD_BOUNDARIES
    for row, word in zip(mapper.ids(words).tolist(), words, strict=True):
        text = "".join(map(decomposed, word)) if scheme == "jamo" else word
        symbols = [dictionary.get(symbol, dictionary["<oov>"]) for symbol in text[: width - 2]]
        ids = [dictionary[begin], *symbols, dictionary[end]]
        ids += [dictionary["<pad>"]] * (width - len(ids))
        assert row == [number + 1 for number in ids]


def test_build_dictionary_omits_rare_symbols():
    words, counts = ["aab", "bc", "d"], [2, 3, 0]
    assert list(build_dictionary(words, counts, "codepoints"))[6:] == ["b", "a", "c"]
    assert list(build_dictionary(words, counts, "codepoints", 4))[6:] == ["b", "a"]
    assert list(build_dictionary([], [], "codepoints"))[6:] == []


@pytest.mark.parametrize(
    ("scheme", "words", "counts", "width"),
    [
        ("bytes", [], [], 8),
        ("bytes", ["a"], [5], 8),
        ("bytes", ["a" * 10], [1], 12),
        ("bytes", ["é" * 10], [1], 22),
        ("codepoints", ["é" * 10], [1], 12),
        ("jamo", ["각" * 10], [1], 32),
        ("jamo", ["가" * 10], [1], 22),
        # One running word of 1,000 can be truncated.
        ("codepoints", ["a" * 10, "a" * 50], [999, 1], 12),
        ("codepoints", ["a" * 10, "a" * 50], [998, 2], 52),
        ("codepoints", ["a" * 10, "a" * 50], [5, 0], 12),
        ("codepoints", ["a" * 300], [1], 100),
        ("codepoints", ["a" * 98], [1], 100),
    ],
)
def test_fitted_width_covers_all_but_one_in_a_thousand_words(scheme, words, counts, width):
    assert fitted_width(words, counts, scheme) == width


def test_build_dictionary_and_fitted_width_process_words_in_blocks():
    words = [f"{number:07d}" for number in range(70_000)]
    counts = np.ones(len(words), dtype=np.int64)
    assert fitted_width(words, counts, "bytes") == 9
    assert sorted(list(build_dictionary(words, counts, "codepoints"))[6:]) == list("0123456789")
