"""Tests of the writers by themselves; `test_embed_file.py` has them written by a model."""

import h5py
import numpy as np
import pytest

from elmo.embed.vector_writers import open_store
from elmo.errors import ConfigError


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
