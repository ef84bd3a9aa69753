"""Vectors looked up by number: jobs and single files, and no more read than is needed."""

import multiprocessing
import pickle
import subprocess
import sys

import h5py
import numpy as np
import pytest
from tiny_jobs import in_this_process, make_lines, run_job, write_model, write_text

import elmo
from elmo.embed import embeddings, open_embeddings, sharded_job, vector_readers
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, MissingExtra

pytest.importorskip("pyarrow")

LINES = ["", *make_lines(80), ""]
FORMATS = ["parquet", "hdf5", "safetensors"]


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    monkeypatch.setitem(sharded_job.ENGINES, "local", in_this_process)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a model and a text."""
    folder = tmp_path_factory.mktemp("home")
    write_model(folder / "model")
    write_text(folder / "text.txt", LINES)
    return folder


@pytest.fixture(scope="module")
def expected(home):
    model = ELMo.from_pretrained(home / "model")
    sentences = [line.split() for line in LINES]
    return {layers: model.encode(sentences, layers=layers) for layers in ("average", "all")}


@pytest.fixture
def written(home, tmp_path):
    def call(name, **settings):
        source = settings.pop("source", home / "text.txt")
        run_job(source, tmp_path / name, home / "model", **settings)
        return tmp_path / name

    return call


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("name", ["out.parquet", "out.h5", "out.hdf5", "out.npz"])
def test_single_files(written, expected, name, layers):
    with open_embeddings(written(name, layers=layers)) as found:
        assert len(found) == len(LINES)
        for line, item, vectors in zip(LINES, found, expected[layers], strict=True):
            assert item.words == (line.split() if name == "out.parquet" else None)
            assert item.vectors.shape == vectors.shape
            np.testing.assert_allclose(item.vectors, vectors, rtol=0, atol=1e-6)
        with pytest.raises(ConfigError, match="one file without checksums"):
            found.verify()


@pytest.mark.parametrize("name", ["out.h5", "out.npz"])
def test_words_where_they_are_stored(written, home, name):
    found = open_embeddings(written(name, raw=True))
    split = ELMo.from_pretrained(home / "model").tokenizer.words
    assert [item.words for item in found] == [split(line) for line in LINES]
    assert found[3].vectors.shape[0] == len(found[3].words)
    found.close()


@pytest.mark.parametrize("format", FORMATS)
def test_numbers_of_sentences(written, expected, format):
    found = open_embeddings(written("out", format=format, shard_words=40))
    vectors = expected["average"]
    for number in (0, 1, 40, len(LINES) - 1, -1, -len(LINES), np.int64(7)):
        item = found[number]
        assert item.vectors.dtype == np.float32
        assert item.vectors.shape == vectors[number].shape
        np.testing.assert_allclose(item.vectors, vectors[number], rtol=0, atol=1e-3)
    assert [item.words for item in found[3:9:2]] == [line.split() for line in LINES[3:9:2]]
    assert [item.words for item in found[-2:]] == [line.split() for line in LINES[-2:]]
    for wrong in (len(LINES), -len(LINES) - 1):
        with pytest.raises(IndexError, match=f"no sentence {wrong}: .*out has {len(LINES)}"):
            found[wrong]
    with pytest.raises(TypeError):
        found["0"]
    found.close()


def test_a_dtype(written):
    path = written("out")
    assert open_embeddings(path, dtype=None)[1].vectors.dtype == np.float16
    assert open_embeddings(path, dtype="float64")[1].vectors.dtype == np.float64


def test_a_group_is_all_that_is_read(written, monkeypatch):
    import pyarrow.parquet

    monkeypatch.setattr("elmo.embed.parquet_writer.SHARD_GROUP_WORDS", 20)
    found = open_embeddings(written("out"))
    groups = []
    read = pyarrow.parquet.ParquetFile.read_row_group
    monkeypatch.setattr(
        pyarrow.parquet.ParquetFile,
        "read_row_group",
        lambda self, group, columns: groups.append(group) or read(self, group, columns),
    )
    assert found[40].words == LINES[40].split()
    assert found[41].words == LINES[41].split()
    assert len(groups) <= 2
    assert min(groups) > 3


def test_few_shards_stay_open(written, monkeypatch):
    monkeypatch.setattr(embeddings, "MAX_OPEN", 2)
    found = open_embeddings(written("out", format="hdf5", shard_words=20))
    opened = []
    open_reader = embeddings.open_reader
    monkeypatch.setattr(
        embeddings,
        "open_reader",
        lambda path, *known: opened.append(path.name) or open_reader(path, *known),
    )
    assert [item.words for item in found] == [line.split() for line in LINES]
    assert len(found._open) == 2
    assert len(opened) == len(set(opened)) == len(found.manifest.shards)


@pytest.mark.parametrize("format", FORMATS)
def test_other_processes(written, format):
    found = open_embeddings(written("out", format=format, shard_words=40))
    expected = found[5].vectors
    travelled = pickle.loads(pickle.dumps(found))
    assert np.array_equal(travelled[5].vectors, expected)
    process = multiprocessing.get_context("spawn").Process(target=_compare, args=(found, expected))
    process.start()
    process.join()
    assert process.exitcode == 0
    # As in a process that was forked: the files are opened anew.
    found._process = -1
    assert np.array_equal(found[5].vectors, expected)
    assert list(found._open) == [0]


def _compare(found, expected):
    assert np.array_equal(found[5].vectors, expected)


@pytest.mark.parametrize("format", FORMATS)
def test_damage_is_found(written, format):
    path = written("out", format=format, shard_words=40)
    shard = sorted((path / "shards").iterdir())[1]
    whole = shard.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    for content, message in (
        (bytes(changed), "SHA-256"),
        (whole[:-1], "bytes"),
        (whole + b"x", "bytes"),
    ):
        shard.write_bytes(content)
        with pytest.raises(FormatError, match=f"{shard.name} is damaged: {message}.*delete it"):
            open_embeddings(path).verify()
    shard.unlink()
    with pytest.raises(FormatError, match=f"{shard.name} is damaged: bytes 0"):
        open_embeddings(path).verify()
    with pytest.raises(FormatError, match=f"cannot read vectors from .*{shard.name}"):
        list(open_embeddings(path))
    shard.write_bytes(whole)
    assert open_embeddings(path).verify() > 2


@pytest.mark.parametrize("format", FORMATS)
def test_a_damaged_shard_is_named_or_read(written, format):
    """Whatever is written over it: no error of another library."""
    path = written("out", format=format, shard_words=40)
    shard = sorted((path / "shards").iterdir())[1]
    whole = shard.read_bytes()
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(60):
        changed = bytearray(whole)
        start = int(rng.integers(len(whole)))
        changed[start : start + 200] = rng.bytes(len(changed[start : start + 200]))
        shard.write_bytes(changed)
        try:
            list(open_embeddings(path))
        except FormatError as error:
            errors.append(str(error))
    assert errors
    assert all(shard.name in error for error in errors)


def test_counts_are_compared(written):
    path = written("out", shard_words=40)
    manifest = path / "manifest.json"
    text = manifest.read_text()
    n_words = open_embeddings(path).manifest.shards[1].n_words
    for before, after, message in (
        (f'"n_words": {n_words}', f'"n_words": {n_words + 1}', "words"),
        ('"first_sentence": 0', '"first_sentence": 1', "begins with sentence 1, expected 0"),
        (f'"n_sentences": {len(LINES)}', '"n_sentences": 7', "expected 7"),
    ):
        manifest.write_text(text.replace(before, after, 1))
        with pytest.raises(FormatError, match=message):
            open_embeddings(path).verify()


def test_what_is_no_embeddings(tmp_path):
    with pytest.raises(FormatError, match="is no folder of shards"):
        open_embeddings(tmp_path)
    with pytest.raises(ConfigError, match=r"no known format; expected \.parquet"):
        open_embeddings(tmp_path / "x.csv")
    for name in ("x.parquet", "x.h5", "x.npz", "x.safetensors"):
        with pytest.raises(FormatError, match=f"cannot read vectors from .*{name}"):
            open_embeddings(tmp_path / name)
        (tmp_path / name).write_bytes(b"something else" * 10)
        with pytest.raises(FormatError, match=f"cannot read vectors from .*{name}"):
            open_embeddings(tmp_path / name)
    with h5py.File(tmp_path / "keys.h5", "w") as file:
        file["a sentence"] = np.zeros((2, 4), np.float32)
    with pytest.raises(FormatError, match="its keys are no numbers"):
        open_embeddings(tmp_path / "keys.h5")


def test_texts_without_a_word(written, tmp_path):
    blank = write_text(tmp_path / "blank.txt", ["", ""])
    for name in ("blank", "blank.parquet", "blank.h5", "blank.npz"):
        with open_embeddings(written(name, source=blank)) as found:
            assert [item.vectors.shape[0] for item in found] == [0, 0]


@pytest.mark.parametrize("layers", ["average", "all"])
def test_a_shard_of_blank_lines(written, tmp_path, layers):
    """Its vectors have no rows, and the width of all others."""
    text = write_text(tmp_path / "blank.txt", ["a b c d e f", "", ""])
    settings = {"format": "parquet", "shard_words": 5, "layers": layers}
    found = open_embeddings(written("blank", source=text, **settings))
    shapes = [item.vectors.shape for item in found]
    assert {shape[-1] for shape in shapes} == {shapes[0][-1]}
    assert [shape[-2] for shape in shapes] == [6, 0, 0]


def test_counts_of_words(written):
    n_words = sum(len(line.split()) for line in LINES)
    for name in ("out.parquet", "out.h5", "out.npz"):
        reader = vector_readers.open_reader(written(name, layers="all"))
        assert reader.n_words() == n_words
        reader.close()


def test_parquet_without_its_extra(written, monkeypatch):
    path = written("out.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"elmo-torch\[parquet\]"):
        open_embeddings(path)


def test_looking_up_needs_no_torch(written):
    path = written("out")
    code = (
        f"import sys, elmo; print(len(elmo.open_embeddings({str(path)!r})[1].words)); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(LINES[1].split())
    assert elmo.open_embeddings is open_embeddings
