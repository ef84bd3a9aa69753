"""Tests of reading, splitting and converting the text of a language model."""

import gzip

import pytest

from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import SegmentConfig, SymbolConfig
from elmo.errors import ConfigError, InputError
from elmo.lab.symbol_text import read_training_text


def config(*files, valid=(), test=(), **options):
    return LMTrainConfig(
        text=tuple(map(str, files)),
        out="run",
        valid=tuple(map(str, valid)),
        test=tuple(map(str, test)),
        symbols=SymbolConfig(**options),
        segments=SegmentConfig(batch_size=2, unroll=4),
    )


def write(folder, content, name="text.txt"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_last_tenth_is_held_out(tmp_path):
    text = read_training_text(config(write(tmp_path, "abcdefghij" * 10)))
    assert len(text.parts["train"].ids) == 90
    assert len(text.parts["valid"].ids) == 10
    assert "test" not in text.parts


def test_three_parts_follow_each_other(tmp_path):
    content = "".join(map(chr, range(0x100, 0x164)))
    path = write(tmp_path, content)
    text = read_training_text(config(path, valid_fraction=0.1, test_fraction=0.1))
    decoded = [text.symbols.decode(part.ids) for part in text.parts.values()]
    assert decoded == [content[:80], content[80:90], content[90:]]


def test_files_for_held_out_text_leave_the_training_text_whole(tmp_path):
    train, valid = write(tmp_path, "abc" * 10), write(tmp_path, "abx", "valid.txt")
    text = read_training_text(config(train, valid=[valid]))
    assert len(text.parts["train"].ids) == 30
    assert text.parts["valid"].unknown_rate == 0.0


def test_held_out_characters_are_symbols_but_held_out_words_are_not(tmp_path):
    train, valid = write(tmp_path, "a b\n" * 5), write(tmp_path, "a X\n", "valid.txt")
    assert read_training_text(config(train, valid=[valid])).parts["valid"].unknown_rate == 0.0
    words = read_training_text(config(train, valid=[valid], unit="words"))
    assert words.parts["valid"].unknown_rate == pytest.approx(1 / 3)


def test_words_are_split_between_lines(tmp_path):
    path = write(tmp_path, "one two three\n" * 10)
    text = read_training_text(config(path, unit="words", valid_fraction=0.25))
    for part in text.parts.values():
        assert text.symbols.decode(part.ids).endswith("three\n")


def test_several_and_compressed_files_are_joined(tmp_path):
    first, second = write(tmp_path, "ab" * 5), tmp_path / "more.txt.gz"
    second.write_bytes(gzip.compress(b"ba" * 5))
    text = read_training_text(config(first, second, valid_fraction=0.0))
    assert text.symbols.decode(text.parts["train"].ids) == "ab" * 5 + "ba" * 5


def test_byte_order_mark_is_removed(tmp_path):
    text = read_training_text(config(write(tmp_path, "\ufeffabcd" * 1 + "abcd"), valid_fraction=0))
    assert "\ufeff" not in text.symbols.names


def test_strip_lines_removes_spaces_at_line_ends(tmp_path):
    path = write(tmp_path, " a b \n c \n")
    text = read_training_text(config(path, strip_lines=True, valid_fraction=0.0))
    assert text.symbols.decode(text.parts["train"].ids) == "a b\nc\n"


def test_characters_are_counted_for_bits_per_character(tmp_path):
    path = write(tmp_path, "one two\n" * 10)
    words = read_training_text(config(path, unit="words", valid_fraction=0.0)).parts["train"]
    assert (len(words.ids), words.n_characters) == (30, 80)
    as_bytes = read_training_text(
        config(write(tmp_path, "é" * 10, "b.txt"), unit="bytes", valid_fraction=0.0)
    )
    assert as_bytes.parts["train"].n_characters == 20


def test_fingerprint_identifies_the_text_not_the_split(tmp_path):
    path = write(tmp_path, "abcd" * 20)
    first = read_training_text(config(path))
    other = read_training_text(config(path, valid_fraction=0.5))
    assert first.fingerprint == other.fingerprint
    assert first.parts["valid"].fingerprint != other.parts["valid"].fingerprint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"aaaaaaaaaaaaaaaaaaaa", "1 distinct character,"),
        (b"abc", "only 2 characters, too few for 2 batch rows"),
        (b"abc\0def" * 10, "NUL character at byte 3. .*--unit bytes"),
        (b"good line\nbad \xff line\n", "line 2, byte 5 of the line.*--unit bytes"),
    ],
)
def test_unusable_text_is_an_error(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_training_text(config(write(tmp_path, content)))


def test_short_text_is_counted_in_the_singular(tmp_path):
    text, valid = write(tmp_path, "abcdefghij"), write(tmp_path, "a", "valid.txt")
    with pytest.raises(InputError, match=r"validation text has only 1 character\."):
        read_training_text(config(text, valid=[valid]))


def test_binary_file_is_accepted_as_bytes(tmp_path):
    path = write(tmp_path, bytes(range(256)))
    text = read_training_text(config(path, unit="bytes", valid_fraction=0.0))
    assert text.parts["train"].ids.tolist() == list(range(256))


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_training_text(config(tmp_path / "missing.txt"))


def test_test_files_and_fraction_are_an_error(tmp_path):
    path = write(tmp_path, "abcd" * 20)
    with pytest.raises(ConfigError, match="Remove one of them"):
        read_training_text(config(path, test=[path], test_fraction=0.1))


def test_single_line_of_words_cannot_be_split(tmp_path):
    with pytest.raises(InputError, match="too few lines"):
        read_training_text(config(write(tmp_path, "a b c d e f"), unit="words"))
