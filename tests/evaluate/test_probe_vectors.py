"""Tests of encoding in chunks, unit vectors and numbered lines."""

import numpy as np
import pytest

from elmo.errors import InputError
from elmo.evaluate.probe_vectors import encode_in_parts, unit

SENTENCES = [["a"], ["b", "c", "d"], ["e", "f"], ["g"], ["h", "i", "j", "k", "l"], ["m"]]


def encode_code_points(sentences):
    """Encode one-character words as two layers: the code point and its negative."""
    return [
        np.array([[[ord(word)] for word in words], [[-ord(word)] for word in words]], np.float32)
        for words in sentences
    ]


def test_encode_in_parts_yields_chunks_of_complete_sentences_in_order():
    parts = list(encode_in_parts(encode_code_points, SENTENCES, max_words=4))
    assert [part for part, _ in parts] == [range(2), range(2, 4), range(4, 5), range(5, 6)]
    everything = np.concatenate([vectors for _, vectors in parts], axis=1)
    assert everything.shape == (2, 13, 1)
    assert "".join(chr(int(code)) for code in everything[0, :, 0]) == "abcdefghijklm"
    assert (everything[1] == -everything[0]).all()


def test_encode_in_parts_shows_progress(capsys, monkeypatch):
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)
    list(encode_in_parts(encode_code_points, SENTENCES, max_words=4))
    assert "encode: 4 of 13 words" in capsys.readouterr().err


def test_encode_in_parts_yields_one_chunk_for_short_text_and_none_for_empty_text():
    ((part, vectors),) = encode_in_parts(encode_code_points, SENTENCES)
    assert part == range(6)
    assert vectors.shape == (2, 13, 1)
    assert list(encode_in_parts(encode_code_points, [])) == []


def test_encode_in_parts_rejects_vectors_without_layer_dimension():
    with pytest.raises(
        InputError, match=r"shape \(1, 1\) for a sentence of 1 words\. Expected \(layers"
    ):
        list(encode_in_parts(lambda sentences: [np.zeros((1, 1))] * 6, SENTENCES))


def test_unit_leaves_zero_vectors_unchanged():
    scaled = unit(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32))
    assert scaled.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]
