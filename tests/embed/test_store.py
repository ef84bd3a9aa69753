"""Tests of the writers by themselves; `test_embed_file.py` has them written by a model."""

import h5py
import numpy as np
import pytest

from elmo.embed.store import _offsets, open_store
from elmo.errors import ConfigError, OutputError


@pytest.mark.parametrize("name", ["out.H5", "out.HDF5", "out.Hdf5"])
def test_endings_in_capital_letters(tmp_path, name):
    path = tmp_path / name
    settings = {"all_layers": False, "index_sentences": True, "store_words": False}
    with open_store(path, **settings) as writer:
        writer.write("a b", ["a", "b"], np.ones((2, 4), np.float32))
    with h5py.File(path) as file:
        assert set(file) == {"0", "sentence_to_index"}
    with (
        pytest.raises(ConfigError, match=r"no known format; expected \.h5"),
        open_store(tmp_path / "out.H6", **settings),
    ):
        pass


def test_no_more_than_a_list_counts():
    assert _offsets([3, 0, 2]).tolist() == [0, 3, 3, 5]
    assert _offsets([]).tolist() == [0]
    with pytest.raises(OutputError, match="2,147,483,652 numbers in one row group"):
        _offsets([2**31 + 1, 3])


def test_parquet_of_any_words(tmp_path):
    """Empty sentences and words, letters of several bytes, all layers."""
    parquet = pytest.importorskip("pyarrow.parquet")
    sentences = [[], ["a", "", "나는"], ["\0", "\U0001f600"], []]
    arrays = [
        np.random.default_rng(n).random((3, len(s), 4), np.float32) for n, s in enumerate(sentences)
    ]
    path = tmp_path / "out.parquet"
    with open_store(path, all_layers=True, index_sentences=True, store_words=True) as writer:
        for words, vectors in zip(sentences, arrays, strict=True):
            writer.write(" ".join(words), words, vectors)
    table = parquet.read_table(path)
    table.validate(full=True)
    assert table["sentence"].to_pylist() == [0, 1, 2, 3]
    assert table["words"].to_pylist() == sentences
    for found, vectors in zip(table["vectors"].to_pylist(), arrays, strict=True):
        assert np.asarray(found, np.float32).reshape(vectors.shape).tobytes() == vectors.tobytes()
