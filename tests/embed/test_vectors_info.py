"""Tests of the description of vector files and job folders."""

import json

import h5py
import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_jobs import in_this_process, run_job, write_model, write_text

from elmo.embed import open_embeddings, sharded_job
from elmo.embed.vectors_info import is_vectors, vectors_info
from elmo.errors import FormatError

LINES = ["one two three", "four"]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that embeds two lines to the output of the given name."""
    monkeypatch.setitem(sharded_job.ENGINES, "local", in_this_process)
    write_model(tmp_path / "model")
    text = write_text(tmp_path / "text.txt", LINES)

    def call(name, **settings):
        run_job(text, tmp_path / name, tmp_path / "model", **settings)
        return tmp_path / name

    return call


@pytest.mark.parametrize(
    ("name", "format"),
    [("v.h5", "HDF5"), ("v.hdf5", "HDF5"), ("v.npz", "npz"), ("v.parquet", "Parquet")],
)
def test_vectors_info_describes_a_file(written, name, format):
    if format == "Parquet":
        pytest.importorskip("pyarrow")
    path = written(name)
    assert is_vectors(path)
    result = vectors_info(path)
    dim = open_embeddings(path)[0].vectors.shape[1]
    assert result.rows["format"] == f"vectors of elmo embed, {format}"
    assert result.rows["sentences"] == len(LINES)
    assert result.rows["first_sentence"] == f"3 words, float32 vectors of shape (3, {dim})"
    assert result.rows["open_with"] == f'elmo.open_embeddings("{path}")'
    assert "columns" not in result.rows


@pytest.mark.parametrize("format", ["parquet", "hdf5", "safetensors"])
def test_vectors_info_describes_a_folder_of_shards(written, tmp_path, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    path = written("vectors", format=format, storage="float16")
    assert is_vectors(path)
    result = vectors_info(path)
    assert result.rows["format"] == f"vectors of elmo embed, 1 shard ({format})"
    assert (result.rows["sentences"], result.rows["words"]) == (2, 4)
    assert result.rows["model"] == str(tmp_path / "model")
    assert "float16 vectors of shape (3, " in result.rows["first_sentence"]
    assert json.loads(json.dumps(result.to_dict()))["config"]["storage"] == "float16"
    (shard,) = (path / "shards").iterdir()
    assert is_vectors(shard)


def test_vectors_info_lists_columns_of_the_input(written, tmp_path):
    text = tmp_path / "text.jsonl"
    text.write_text('{"text": "one two", "id": "x", "year": 1999}\n')
    path = tmp_path / "v.h5"
    run_job(text, path, written("other.h5").parent / "model", id_column="id", columns="year")
    assert vectors_info(path).rows["columns"] == "id, year"


def test_vectors_info_of_an_unfinished_job_says_so(written):
    path = written("vectors", format="hdf5")
    (path / "manifest.json").unlink()
    assert is_vectors(path)
    with pytest.raises(FormatError, match="is not finished: 0 of 1 shards are missing"):
        vectors_info(path)


def test_vectors_info_of_an_empty_text_has_no_first_sentence(written, tmp_path):
    path = tmp_path / "empty.h5"
    run_job(write_text(tmp_path / "empty.txt", []), path, written("v.h5").parent / "model")
    assert is_vectors(path)
    assert vectors_info(path).rows["sentences"] == 0
    assert "first_sentence" not in vectors_info(path).rows


def test_is_vectors_rejects_models_and_other_files(tmp_path):
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        file["RNN_0/x"] = np.zeros(2)
    np.savez(tmp_path / "other.npz", x=np.zeros(2))
    save_file({"x": np.zeros(2)}, tmp_path / "model.safetensors")
    for name in ("damaged.h5", "damaged.npz", "damaged.safetensors", "text.txt"):
        (tmp_path / name).write_bytes(b"PK\x03\x04")
    (tmp_path / "folder.h5").mkdir()
    for path in [*tmp_path.iterdir(), tmp_path / "missing.h5"]:
        assert not is_vectors(path), path
