"""Tests of `ParquetWriter`: equality with files written by Arrow, and row group sizes."""

import errno
import resource
import subprocess
import sys

import numpy as np
import pytest

import elmo
from elmo.embed import parquet_writer
from elmo.embed.parquet_writer import ParquetWriter

pytest.importorskip("pyarrow")
import pyarrow.parquet
from arrow_store import ArrowWriter

WORDS = ["a", "", "word", "나는", "\0", "\U0001f600", "x" * 300]
DIM = 5


def make_sentences(lengths, storage, all_layers, seed=0):
    rng = np.random.default_rng(seed)
    layers = (3,) if all_layers else ()
    return [
        (
            [WORDS[index] for index in rng.integers(len(WORDS), size=length)],
            rng.standard_normal((*layers, length, DIM)).astype(storage),
        )
        for length in lengths
    ]


def write_all(writer, sentences):
    for words, vectors in sentences:
        writer.write(" ".join(words), words, vectors)
    writer.close()


LENGTHS = {
    "nothing": [],
    "blank": [0],
    "blanks": [0, 0, 0],
    "word": [1],
    "blank first": [0, 4, 2],
    "blank last": [3, 1, 0],
    "blank between": [3, 0, 0, 1],
    "groups": [int(n) for n in np.random.default_rng(1).integers(0, 12, 100)],
    "groups of blanks": [0] * 70 + [2] + [0] * 70,
    "long": [2, 100, 0, 3],
}


@pytest.mark.parametrize("all_layers", [False, True])
@pytest.mark.parametrize("storage", ["float16", "float32"])
@pytest.mark.parametrize("case", LENGTHS)
def test_parquet_writer_writes_the_same_table_as_arrow(
    tmp_path, monkeypatch, case, storage, all_layers
):
    monkeypatch.setattr(parquet_writer, "SHARD_GROUP_WORDS", 32)
    sentences = make_sentences(LENGTHS[case], storage, all_layers)
    settings = {"all_layers": all_layers, "storage": storage, "first_sentence": 7}
    paths = tmp_path / "arrow.parquet", tmp_path / "ours.parquet"
    write_all(ArrowWriter(paths[0], **settings, group_words=32), sentences)
    write_all(ParquetWriter(paths[1], **settings, is_shard=True), sentences)
    expected, actual = map(pyarrow.parquet.read_table, paths)
    actual.validate(full=True)
    assert actual.schema.equals(expected.schema, check_metadata=True)
    assert actual.equals(expected)
    arrow, ours = (pyarrow.parquet.ParquetFile(path) for path in paths)
    assert str(ours.schema).splitlines()[1:] == str(arrow.schema).splitlines()[1:]
    assert row_groups(ours.metadata) == row_groups(arrow.metadata)


def row_groups(metadata):
    """Return the number of rows and the column statistics of each row group."""
    groups = []
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        columns = [group.column(number) for number in range(3)]
        bounds = columns[0].statistics
        counts = [column.num_values for column in columns]
        has_stats = [column.is_stats_set for column in columns]
        groups.append(
            (group.num_rows, bounds.min, bounds.max, bounds.null_count, counts, has_stats)
        )
    return groups


@pytest.mark.parametrize(("is_shard", "n_words"), [(True, 2**9), (False, 2**13)])
def test_row_group_ends_at_the_configured_number_of_words(tmp_path, is_shard, n_words):
    """Each sentence counts as one additional word, so that blank sentences also fill a group."""
    path = tmp_path / "x.parquet"
    sentences = make_sentences([31] * (n_words // 16), "float16", False)
    write_all(
        ParquetWriter(path, all_layers=False, storage="float16", is_shard=is_shard), sentences
    )
    metadata = pyarrow.parquet.ParquetFile(path).metadata
    sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    assert sizes == [n_words // 32] * 2
    assert metadata.created_by == f"elmo-torch version {elmo.__version__}"


@pytest.mark.parametrize("all_layers", [False, True])
def test_written_sentences_can_be_read_in_any_order(tmp_path, monkeypatch, all_layers):
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_WORDS", 20)
    sentences = make_sentences([0, *range(12), 0], "float32", all_layers)
    path = tmp_path / "x.parquet"
    write_all(ParquetWriter(path, all_layers=all_layers), sentences)
    with elmo.open_embeddings(path) as embeddings:
        for index in np.random.default_rng(0).permutation(len(sentences)):
            words, vectors = sentences[index]
            assert embeddings[int(index)].words == words
            assert embeddings[int(index)].vectors.shape == vectors.shape
            assert embeddings[int(index)].vectors.tobytes() == vectors.tobytes()


def test_parquet_writer_converts_vectors_to_the_storage_dtype(tmp_path):
    """The arrays have a different dtype, and one of them is not contiguous."""
    vectors = np.arange(24, dtype=np.float32).reshape(4, 6)
    path = tmp_path / "x.parquet"
    sentences = [(["a"] * 4, vectors), (["b"] * 6, vectors.T[:, ::-1])]
    write_all(ParquetWriter(path, all_layers=False, storage="float16"), sentences)
    stored = pyarrow.parquet.read_table(path)["vectors"].to_pylist()
    assert stored == [vectors.tolist(), vectors.T[:, ::-1].tolist()]


def test_parquet_writer_writes_identical_bytes_for_equal_sentences(tmp_path):
    files = []
    for name in ("a.parquet", "b.parquet"):
        writer = ParquetWriter(
            tmp_path / name, all_layers=True, storage="float16", first_sentence=3
        )
        write_all(writer, make_sentences(LENGTHS["groups"], "float16", True))
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]


def test_full_disk_raises_oserror_on_write_and_close(tmp_path):
    """The file is closed despite the error."""
    path = tmp_path / "x.parquet"
    code = (
        "import numpy as np, resource, sys\n"
        "from pathlib import Path\n"
        "from elmo.embed.parquet_writer import ParquetWriter\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, {resource.RLIM_INFINITY}))\n"
        f"writer = ParquetWriter(Path({str(path)!r}), all_layers=False, is_shard=True)\n"
        "for call in (lambda: [writer.write('', ['a'], np.ones((1, 64), np.float32))\n"
        "                      for _ in range(600)], writer.close):\n"
        "    try: call()\n"
        "    except OSError as error: print(error.errno)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EFBIG)] * 2
    assert done.stderr == ""
