"""Tests of vector file writers without a model; `test_embed_file.py` tests them with one."""

import h5py
import numpy as np
import pytest

from elmo.embed.vector_writers import open_vector_file
from elmo.errors import ConfigError


@pytest.mark.parametrize("name", ["out.H5", "out.HDF5", "out.Hdf5"])
def test_vector_file_extension_is_case_insensitive(tmp_path, name):
    path = tmp_path / name
    settings = {"all_layers": False, "index_sentences": True}
    with open_vector_file(path, **settings) as writer:
        writer.write("a b", ["a", "b"], np.ones((2, 4), np.float32))
    with h5py.File(path) as file:
        assert set(file) == {"0", "sentence_to_index"}
    with (
        pytest.raises(
            ConfigError, match=r"Unknown file extension of out\.H6\. Expected one of: \.h5"
        ),
        open_vector_file(tmp_path / "out.H6", **settings),
    ):
        pass
