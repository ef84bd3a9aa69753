"""Tests of random access to vectors in job folders and single files."""

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
    """Return a folder with a model and a text."""
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
def test_open_embeddings_on_a_single_file_returns_the_same_vectors_as_encode(
    written, expected, name, layers
):
    with open_embeddings(written(name, layers=layers)) as sentences:
        assert len(sentences) == len(LINES)
        for line, sentence, vectors in zip(LINES, sentences, expected[layers], strict=True):
            assert sentence.words == line.split()
            assert sentence.vectors.shape == vectors.shape
            np.testing.assert_allclose(sentence.vectors, vectors, rtol=0, atol=1e-6)
        with pytest.raises(ConfigError, match="single file without checksums"):
            sentences.verify()


@pytest.mark.parametrize("name", ["out.h5", "out.npz"])
def test_embeddings_return_the_words_of_the_tokenizer(written, home, name):
    sentences = open_embeddings(written(name, pretokenized=False))
    split = ELMo.from_pretrained(home / "model").tokenizer.words
    assert [sentence.words for sentence in sentences] == [split(line) for line in LINES]
    assert sentences[3].vectors.shape[0] == len(sentences[3].words)
    sentences.close()


@pytest.mark.parametrize("format", FORMATS)
def test_embeddings_are_indexed_by_integer_and_slice(written, expected, format):
    sentences = open_embeddings(written("out", format=format, shard_words=40))
    vectors = expected["average"]
    for number in (0, 1, 40, len(LINES) - 1, -1, -len(LINES), np.int64(7)):
        sentence = sentences[number]
        assert sentence.vectors.dtype == np.float32
        assert sentence.vectors.shape == vectors[number].shape
        np.testing.assert_allclose(sentence.vectors, vectors[number], rtol=0, atol=1e-3)
    assert [sentence.words for sentence in sentences[3:9:2]] == [
        line.split() for line in LINES[3:9:2]
    ]
    assert [sentence.words for sentence in sentences[-2:]] == [line.split() for line in LINES[-2:]]
    for wrong in (len(LINES), -len(LINES) - 1):
        with pytest.raises(
            IndexError, match=f"Sentence {wrong} is out of range: .*out has {len(LINES)}"
        ):
            sentences[wrong]
    with pytest.raises(TypeError):
        sentences["0"]
    sentences.close()


def test_open_embeddings_converts_vectors_to_the_requested_dtype(written):
    path = written("out")
    assert open_embeddings(path, dtype=None)[1].vectors.dtype == np.float16
    assert open_embeddings(path, dtype="float64")[1].vectors.dtype == np.float64


def test_reading_a_sentence_reads_only_its_parquet_row_group(written, monkeypatch):
    import pyarrow.parquet

    monkeypatch.setattr("elmo.embed.parquet_writer.SHARD_GROUP_WORDS", 20)
    sentences = open_embeddings(written("out"))
    groups = []
    read = pyarrow.parquet.ParquetFile.read_row_group
    monkeypatch.setattr(
        pyarrow.parquet.ParquetFile,
        "read_row_group",
        lambda self, group, columns: groups.append(group) or read(self, group, columns),
    )
    assert sentences[40].words == LINES[40].split()
    assert sentences[41].words == LINES[41].split()
    assert len(groups) <= 2
    assert min(groups) > 3


def test_number_of_open_shards_is_limited(written, monkeypatch):
    monkeypatch.setattr(embeddings, "MAX_OPEN", 2)
    sentences = open_embeddings(written("out", format="hdf5", shard_words=20))
    opened = []
    open_reader = embeddings.open_reader
    monkeypatch.setattr(
        embeddings,
        "open_reader",
        lambda path, *options: opened.append(path.name) or open_reader(path, *options),
    )
    assert [sentence.words for sentence in sentences] == [line.split() for line in LINES]
    assert len(sentences._open) == 2
    assert len(opened) == len(set(opened)) == len(sentences.manifest.shards)


@pytest.mark.parametrize("format", FORMATS)
def test_embeddings_work_after_pickling_and_in_forked_processes(written, format):
    sentences = open_embeddings(written("out", format=format, shard_words=40))
    expected = sentences[5].vectors
    unpickled = pickle.loads(pickle.dumps(sentences))
    assert np.array_equal(unpickled[5].vectors, expected)
    process = multiprocessing.get_context("spawn").Process(
        target=_compare, args=(sentences, expected)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    # Simulate a forked process, in which the files are reopened.
    sentences._process = -1
    assert np.array_equal(sentences[5].vectors, expected)
    assert list(sentences._open) == [0]


def _compare(embeddings, expected):
    assert np.array_equal(embeddings[5].vectors, expected)


@pytest.mark.parametrize("format", FORMATS)
def test_verify_detects_damaged_shards(written, format):
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
        with pytest.raises(
            FormatError, match=f"{shard.name} is damaged: {message}.*Delete the shard"
        ):
            open_embeddings(path).verify()
    shard.unlink()
    with pytest.raises(FormatError, match=f"{shard.name} is damaged: bytes 0"):
        open_embeddings(path).verify()
    with pytest.raises(FormatError, match=f"Cannot read vectors from .*{shard.name}"):
        list(open_embeddings(path))
    shard.write_bytes(whole)
    assert open_embeddings(path).verify() > 2


@pytest.mark.parametrize("format", FORMATS)
def test_reading_a_damaged_shard_raises_only_format_errors(written, format):
    """Errors of the underlying file libraries never reach the caller."""
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


def test_verify_compares_sentence_and_word_counts_with_the_manifest(written):
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


def test_open_embeddings_rejects_unsupported_files_and_folders(tmp_path):
    with pytest.raises(FormatError, match="is not a folder of shards"):
        open_embeddings(tmp_path)
    (tmp_path / "x.csv").touch()
    with pytest.raises(
        ConfigError, match=r"Unknown file extension of x\.csv\. Expected one of: \.parquet"
    ):
        open_embeddings(tmp_path / "x.csv")
    for name in ("x.parquet", "x.h5", "x.npz", "x.safetensors"):
        with pytest.raises(FormatError, match=f"{name} does not exist"):
            open_embeddings(tmp_path / name)
        (tmp_path / name).write_bytes(b"something else" * 10)
        with pytest.raises(FormatError, match=f"Cannot read vectors from .*{name}"):
            open_embeddings(tmp_path / name)
    with h5py.File(tmp_path / "keys.h5", "w") as file:
        file["a sentence"] = np.zeros((2, 4), np.float32)
    with pytest.raises(FormatError, match="Expected keys that are sentence numbers"):
        open_embeddings(tmp_path / "keys.h5")


def test_blank_lines_have_arrays_without_rows(written, tmp_path):
    blank = write_text(tmp_path / "blank.txt", ["", ""])
    for name in ("blank", "blank.parquet", "blank.h5", "blank.npz"):
        with open_embeddings(written(name, source=blank)) as sentences:
            assert [sentence.vectors.shape[0] for sentence in sentences] == [0, 0]


@pytest.mark.parametrize("layers", ["average", "all"])
def test_shard_of_blank_lines_has_empty_arrays_of_the_usual_dimension(written, tmp_path, layers):
    """The arrays have no rows, but the same last dimension as those of other sentences."""
    text = write_text(tmp_path / "blank.txt", ["a b c d e f", "", ""])
    settings = {"format": "parquet", "shard_words": 5, "layers": layers}
    sentences = open_embeddings(written("blank", source=text, **settings))
    shapes = [sentence.vectors.shape for sentence in sentences]
    assert {shape[-1] for shape in shapes} == {shapes[0][-1]}
    assert [shape[-2] for shape in shapes] == [6, 0, 0]


def test_readers_return_the_total_number_of_words(written):
    n_words = sum(len(line.split()) for line in LINES)
    for name in ("out.parquet", "out.h5", "out.npz"):
        reader = vector_readers.open_reader(written(name, layers="all"))
        assert reader.n_words() == n_words
        reader.close()


def test_error_for_reading_parquet_without_pyarrow_names_the_extra(written, monkeypatch):
    path = written("out.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"\[parquet\]"):
        open_embeddings(path)


def test_open_embeddings_does_not_import_torch(written):
    path = written("out")
    code = (
        f"import sys, elmo; print(len(elmo.open_embeddings({str(path)!r})[1].words)); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(LINES[1].split())
    assert elmo.open_embeddings is open_embeddings


@pytest.mark.parametrize("name", ["missing", "missing.h5", "missing.txt"])
def test_open_embeddings_reports_a_missing_path(tmp_path, name):
    with pytest.raises(FormatError) as caught:
        open_embeddings(tmp_path / name)
    assert str(caught.value) == f"The file or folder {tmp_path / name} does not exist."


def test_embeddings_and_records_have_short_representations(written):
    single = written("out.h5")
    with open_embeddings(single) as sentences:
        assert repr(sentences) == f"Embeddings('{single}', {len(LINES)} sentences)"
        record = repr(sentences[1])
        shape = sentences[1].vectors.shape
    assert record.startswith("SentenceVectors(words=['")
    assert record.endswith(f"vectors=array of shape {shape} and dtype float32)")
    with open_embeddings(written("pooled.h5", pooling="mean", sentences="split")) as sentences:
        record = repr(sentences[1])
    assert "vectors=array of shape (16,) and dtype float32, values={'line': '2'})" in record
    assert len(record) < 200


@pytest.mark.parametrize("key", ["He sat", 1.0, None])
def test_embeddings_reject_a_key_that_is_not_a_number(written, key):
    with (
        open_embeddings(written("out.h5")) as sentences,
        pytest.raises(TypeError, match="looked up by number, such as embeddings"),
    ):
        sentences[key]
