"""Parts of a text in their order, and files that are not what they should be."""

import numpy as np
import pytest

from elmo.errors import FormatError, InputError
from elmo.evaluate.probe_vectors import encode_in_parts, numbered_lines, unit

SENTENCES = [["a"], ["b", "c", "d"], ["e", "f"], ["g"], ["h", "i", "j", "k", "l"], ["m"]]


def letters(sentences):
    """Two layers: the number of each word's letter, and its negative."""
    return [
        np.array([[[ord(word)] for word in words], [[-ord(word)] for word in words]], np.float32)
        for words in sentences
    ]


def test_parts_hold_whole_sentences_in_order():
    parts = list(encode_in_parts(letters, SENTENCES, words_together=4))
    assert [part for part, _ in parts] == [range(2), range(2, 4), range(4, 5), range(5, 6)]
    everything = np.concatenate([vectors for _, vectors in parts], axis=1)
    assert everything.shape == (2, 13, 1)
    assert "".join(chr(int(code)) for code in everything[0, :, 0]) == "abcdefghijklm"
    assert (everything[1] == -everything[0]).all()


def test_one_part_and_none():
    ((part, vectors),) = encode_in_parts(letters, SENTENCES)
    assert part == range(6)
    assert vectors.shape == (2, 13, 1)
    assert list(encode_in_parts(letters, [])) == []


def test_one_layer_is_refused():
    with pytest.raises(InputError, match=r"shape \(1, 1\) for 1 words; expected \(layers"):
        list(encode_in_parts(lambda sentences: [np.zeros((1, 1))] * 6, SENTENCES))


def test_unit_leaves_zeros():
    scaled = unit(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    assert scaled.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]


def test_lines_are_counted(tmp_path):
    (tmp_path / "text").write_bytes("\ufefféén\r\n\ntwee\u2028x".encode())
    assert list(numbered_lines(tmp_path / "text")) == [(1, "één"), (2, ""), (3, "twee\u2028x")]


def test_missing_and_torn_files(tmp_path):
    with pytest.raises(FormatError, match=r"cannot read .*none: No such file"):
        list(numbered_lines(tmp_path / "none"))
    (tmp_path / "torn").write_bytes(b"good\n\xff\xfe\n")
    with pytest.raises(FormatError, match=r"torn, line 2 is not UTF-8: convert the file"):
        list(numbered_lines(tmp_path / "torn"))
