"""Tests of the embed command: file layouts, order, bounded memory and atomic writes."""

import io
import json
import resource
import subprocess
import sys
import types
import weakref

import h5py
import numpy as np
import pytest
from conftest import random_model

from elmo.config import EmbedConfig
from elmo.embed import embed, embed_file, open_embeddings, parquet_writer, vector_writers
from elmo.embed.embedder import ELMo
from elmo.embed.encoding import EncodingRun
from elmo.errors import ConfigError, ElmoError, InputError, OutputError

LINES = ["He sat on the bank .", "A bank", "", "He sat on the bank .", "a / b . c", "  x\u3000y  "]


@pytest.fixture
def model(tmp_path):
    elmo = ELMo(random_model(scale=1.5).with_tokenizer("english"))
    elmo.save_pretrained(tmp_path / "model")
    return elmo


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def run(tmp_path, model, text):
    """Return a function that embeds the text into a file with the given name."""

    def call(name="out.h5", source=text, **settings):
        out = tmp_path / name
        result = embed(
            EmbedConfig(str(source), str(out), model=str(tmp_path / "model"), **settings)
        )
        assert result.out == str(out)
        return out

    return call


def read_hdf5(path):
    with h5py.File(path) as file:
        return {key: file[key][()] for key in file if key != "sentence_to_index"}


def read_npz(path):
    with np.load(path) as file:
        return {key: file[key] for key in file if not key.startswith("words/")}


def read_parquet(path):
    table = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    vectors = {}
    for row in table:
        vectors[str(row["sentence"])] = np.array(row["vectors"], dtype=np.float32)
    return vectors


READERS = {
    "out.h5": read_hdf5,
    "out.hdf5": read_hdf5,
    "out.npz": read_npz,
    "o.parquet": read_parquet,
}


WRITERS = {
    "out.h5": vector_writers.HDF5Writer,
    "out.parquet": vector_writers.ParquetWriter,
    "out.npz": vector_writers.NpzWriter,
}


@pytest.mark.parametrize("layers", ["average", "top", "all", "1"])
@pytest.mark.parametrize("name", READERS)
def test_every_file_format_contains_the_vectors_returned_by_encode(run, model, name, layers):
    stored = READERS[name](run(name, layers=layers))
    expected = model.encode([line.split() for line in LINES], layers=layers)
    assert list(map(int, sorted(stored, key=int))) == list(range(len(LINES)))
    for number, vectors in enumerate(expected):
        if vectors.size:
            np.testing.assert_allclose(stored[str(number)], vectors, rtol=0, atol=1e-6)
        else:
            assert stored[str(number)].size == 0


@pytest.mark.parametrize("name", ["out.h5", "OUT.H5"])
def test_hdf5_file_has_the_layout_of_allennlp(run, name):
    with h5py.File(run(name)) as file:
        assert file["0"].dtype == np.float32
        assert file["2"].shape == (0, 16)
        index = json.loads(file["sentence_to_index"][0])
        assert file["sentence_to_index"].shape == (1,)
        assert set(file) == {*map(str, range(len(LINES))), "sentence_to_index"}
    # Equal lines map to the last one.
    assert index == {LINES[0]: "3", LINES[1]: "1", "": "2", LINES[4]: "4", "x\u3000y": "5"}
    with h5py.File(run("forget.h5", forget_sentences=True)) as file:
        assert set(file) == set(map(str, range(len(LINES))))


def test_hdf5_file_stores_words_of_a_long_sentence(run, tmp_path):
    words = [f"word{number}" for number in range(20000)]
    source = tmp_path / "long.txt"
    source.write_text(" ".join(words), encoding="utf-8")
    assert open_embeddings(run(source=source, layers=0))[0].words == words


def test_parquet_file_contains_the_words(run):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(run("out.parquet", layers="all"))
    assert table["words"].to_pylist() == [line.split() for line in LINES]
    assert table["sentence"].to_pylist() == list(range(len(LINES)))
    assert np.array(table["vectors"][0].as_py()).shape == (3, 6, 16)


@pytest.mark.parametrize("name", ["out.h5", "out.npz", "out.parquet"])
def test_raw_text_is_tokenized_and_its_words_are_stored(run, tmp_path, model, name):
    raw = tmp_path / "raw.txt"
    raw.write_text("He didn't sit.\nNUL\x00 here\n", encoding="utf-8")
    path = run(name, source=raw)
    if name == "out.h5":
        with h5py.File(path) as file:
            words = [json.loads(file[n].attrs["words"]) for n in ("0", "1")]
    elif name == "out.npz":
        with np.load(path) as file:
            words = [json.loads(str(file[f"words/{n}"])) for n in (0, 1)]
    else:
        words = pytest.importorskip("pyarrow.parquet").read_table(path)["words"].to_pylist()
    assert words == [model.tokenizer.words(line) for line in ("He didn't sit.", "NUL\x00 here")]
    assert words[0] == ["He", "did", "n't", "sit", "."]


def test_pretokenized_text_is_split_at_spaces(run, tmp_path):
    source = tmp_path / "tokenized.txt"
    source.write_text("He didn't sit. <unk>\n", encoding="utf-8")
    stored = open_embeddings(run(source=source, pretokenized=True))
    assert stored[0].words == ["He", "didn't", "sit.", "<unk>"]


@pytest.mark.parametrize(
    ("line", "pretokenized", "message"),
    [
        ("She robbed a bank.", True, "omit --pretokenized"),
        ("She robbed a bank .", False, ""),
        ("He did n't <unk> it .", False, "use --pretokenized"),
    ],
)
def test_embed_warns_once_about_text_that_does_not_fit_the_option(
    run, tmp_path, caplog, line, pretokenized, message
):
    source = tmp_path / "lines.txt"
    source.write_text(f"{line}\n" * 5, encoding="utf-8")
    run(source=source, pretokenized=pretokenized)
    assert len(caplog.records) == bool(message)
    assert message in caplog.text


@pytest.mark.parametrize(
    ("options", "is_reported"),
    [({}, True), ({"sentences": "line"}, False), ({"pooling": "mean"}, False)],
)
def test_embed_warns_about_lines_that_are_paragraphs(run, tmp_path, caplog, options, is_reported):
    source = tmp_path / "paragraphs.txt"
    source.write_text("She left . He sat . Why ?\n" * 5, encoding="utf-8")
    run(source=source, **options)
    assert caplog.text.count("Use --sentences split") == is_reported


def test_processing_in_small_windows_does_not_change_vectors_or_order(run, model, monkeypatch):
    monkeypatch.setitem(embed_file.WINDOW_WORDS, "cpu", 5)
    stored = read_hdf5(run(batch_size=2))
    for number, vectors in enumerate(model.encode([line.split() for line in LINES])):
        np.testing.assert_allclose(stored[str(number)], vectors, rtol=0, atol=1e-5)


def test_carried_state_continues_across_windows(run, model, monkeypatch):
    monkeypatch.setitem(embed_file.WINDOW_WORDS, "cpu", 5)
    stored = read_hdf5(run(state="carry", batch_size=2, layers="all"))
    expected = model.encode(
        [line.split() for line in LINES], state="carry", batch_size=2, layers="all"
    )
    for number, vectors in enumerate(expected):
        np.testing.assert_allclose(stored[str(number)], vectors, rtol=0, atol=1e-6)


def test_embed_reads_standard_input(run, monkeypatch):
    lines = b"a b\nc\r\nlast without newline"
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(lines)))
    stored = read_hdf5(run(source="-"))
    assert [stored[key].shape[0] for key in "012"] == [2, 1, 3]


def test_embed_rejects_closed_standard_input(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="Cannot read standard input: it is closed"):
        run(source="-")
    assert_nothing_left(tmp_path)


def test_empty_input_produces_a_file_without_sentences(run, tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    for name, reader in READERS.items():
        assert reader(run(name, source=tmp_path / "empty.txt")) == {}


def test_repeated_embed_command_writes_identical_bytes(run, tmp_path):
    first = run("out.npz").read_bytes()
    assert run("again.npz").read_bytes() == first


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"fine\nbroken \xff here\n", "not UTF-8 in line 2"), (b"\xc3", "line 1")],
)
def test_invalid_utf8_error_names_line(run, tmp_path, content, message):
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        run(source=tmp_path / "bad.txt")
    assert_nothing_left(tmp_path)


def assert_nothing_left(folder):
    assert not [path for path in folder.iterdir() if path.name.startswith((".", "out"))]


def test_embed_rejects_invalid_paths_and_options(run, tmp_path, text):
    with pytest.raises(InputError, match="no such file"):
        run(source=tmp_path / "missing.txt")
    with pytest.raises(ConfigError, match=r"\.h5, \.hdf5, \.parquet, \.npz"):
        run("out.csv")
    with pytest.raises(OutputError, match="does not exist"):
        run("nowhere/out.h5")
    (tmp_path / "folder.h5").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        run("folder.h5")
    with pytest.raises(ConfigError, match="Expected one of: reset, carry"):
        run(state="keep")
    with pytest.raises(ElmoError, match="No file or folder"):
        embed(EmbedConfig(str(text), str(tmp_path / "out.h5"), model="nowhere"))
    assert_nothing_left(tmp_path)


def test_parquet_file_is_written_without_pyarrow(run, monkeypatch):
    expected = run("out.parquet").read_bytes()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run("again.parquet").read_bytes() == expected


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_existing_output_file_is_unchanged_after_a_failed_run(
    run, tmp_path, monkeypatch, name, error
):
    before = run(name).read_bytes()
    writer = WRITERS[name]
    write = writer.write

    def fail(self, line, words, vectors, values):
        if line == LINES[4]:
            raise error
        write(self, line, words, vectors, values)

    monkeypatch.setattr(writer, "write", fail)
    expected = OutputError if isinstance(error, OSError) else error
    with pytest.raises(expected, match="No space left" if expected is OutputError else None):
        run(name)
    assert (tmp_path / name).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["out.h5", "out.parquet", "out.npz"])
def test_full_disk_is_reported_as_a_one_line_error(tmp_path, model, text, name):
    """A file size limit simulates a full disk."""
    long = tmp_path / "long.txt"
    long.write_text("\n".join(f"w{n} x{n} y{n}" for n in range(2000)), encoding="utf-8")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    arguments = [str(long), str(tmp_path / name), "--model", str(tmp_path / "model")]
    done = subprocess.run(
        [sys.executable, "-m", "elmo", "embed", *arguments, "--layers", "all"],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("elmo: Cannot write")
    assert done.stderr.count("\n") == 1
    assert_nothing_left(tmp_path)


def test_text_too_long_for_the_sentence_index_is_rejected(run, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_writers, "MAX_INDEX_CHARACTERS", 20)
    with pytest.raises(OutputError, match="--forget-sentences"):
        run()
    assert_nothing_left(tmp_path)
    run(forget_sentences=True)


@pytest.mark.parametrize("name", WRITERS)
def test_vectors_are_freed_after_they_are_written(run, tmp_path, monkeypatch, name):
    text = tmp_path / "long.txt"
    text.write_text("one two three four\n" * 500)
    monkeypatch.setitem(embed_file.WINDOW_WORDS, "cpu", 60)
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_WORDS", 60)
    writer = WRITERS[name]
    references, n_alive = [], []
    reset, write = EncodingRun.reset, writer.write

    def watched_reset(self, groups, report):
        def watched_groups():
            for group in groups:
                n_alive.append(sum(reference() is not None for reference in references))
                yield group

        for window, vectors in reset(self, watched_groups(), report):
            references.extend(map(weakref.ref, vectors))
            yield window, vectors

    def watched_write(self, line, words, vectors, values):
        references.append(weakref.ref(vectors))
        write(self, line, words, vectors, values)

    monkeypatch.setattr(EncodingRun, "reset", watched_reset)
    monkeypatch.setattr(writer, "write", watched_write)
    run(name, source=text)
    assert len(references) == 1000
    # Two references per line of the window being written (10 lines), one per line of the window
    # just computed, and the arrays of one row group of Parquet (12 lines).
    assert max(n_alive) <= 42


def test_at_most_one_window_is_computed_ahead_of_writing(run, tmp_path, monkeypatch):
    """The number of words per window is limited, and at most one window waits to be written."""
    text = tmp_path / "long.txt"
    text.write_text("one two three four\n" * 500 + "\n" * 100)
    monkeypatch.setitem(embed_file.WINDOW_WORDS, "cpu", 60)
    events = []
    reset, write = EncodingRun.reset, vector_writers.HDF5Writer.write

    def watched_reset(self, groups, report):
        def watched_groups():
            for window, sentences in groups:
                events.append(sum(len(sentence) + 2 for sentence in sentences))
                yield window, sentences

        return reset(self, watched_groups(), report)

    def watched_write(self, line, words, vectors, values):
        events.append(None)
        write(self, line, words, vectors, values)

    monkeypatch.setattr(EncodingRun, "reset", watched_reset)
    monkeypatch.setattr(vector_writers.HDF5Writer, "write", watched_write)
    run(source=text)
    windows = [event for event in events if event is not None]
    assert max(windows) == 60
    assert len(windows) == 54
    starts = [index for index, event in enumerate(events) if event is not None]
    for number, index in enumerate(starts[:50]):
        assert index - number >= 10 * (number - 1)


def test_embed_progress_advances_within_a_window(run, monkeypatch, capsys):
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)
    run(batch_size=2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "bytes, about" in lines[0]


def test_byte_order_mark_in_the_text_is_ignored(run, tmp_path):
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbfHe sat\nHe sat\n")
    stored = read_hdf5(run(source=tmp_path / "bom.txt"))
    assert np.array_equal(stored["0"], stored["1"])


def test_text_too_long_for_the_sentence_index_is_rejected_before_loading_the_model(
    run, monkeypatch
):
    monkeypatch.setattr(embed_file, "MAX_INDEX_CHARACTERS", 20)
    monkeypatch.setattr(ELMo, "from_pretrained", None)
    with pytest.raises(OutputError, match="--forget-sentences"):
        run()


@pytest.mark.parametrize(
    ("limits", "settings", "n_hints"),
    [
        ({"LONG_SECONDS": 0, "HINT_AFTER": 0}, {}, 1),
        ({"LONG_SECONDS": 0, "HINT_AFTER": 60}, {}, 0),
        ({"LONG_SECONDS": 60, "HINT_AFTER": 0}, {}, 0),
        ({"LONG_SECONDS": 0, "HINT_AFTER": 0}, {"state": "carry"}, 0),
    ],
)
def test_directory_is_suggested_once_if_much_time_is_left(
    run, monkeypatch, capsys, limits, settings, n_hints
):
    for name, value in limits.items():
        monkeypatch.setattr(embed_file, name, value)
    monkeypatch.setattr(embed_file, "WINDOW_WORDS", {"cpu": 4})
    run(**settings)
    assert capsys.readouterr().err.count("a directory of shards") == n_hints


def test_single_output_file_rejects_several_inputs(run, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("a b\n")
    with pytest.raises(ConfigError, match="is a folder, but a single output file has one input"):
        run(source=folder)
    with pytest.raises(ConfigError, match=r"matches 2 files, .* choose a directory as output"):
        run(source=folder / "*.txt")
    assert len(read_hdf5(run(source=folder / "a*.txt"))) == 1
    with pytest.raises(InputError, match=r"No file matches .*\*\.csv"):
        run(source=folder / "*.csv")
    with pytest.raises(InputError, match=r"Cannot read .*none\.txt: no such file"):
        run(source=folder / "none.txt")


def test_existing_table_of_another_program_is_not_overwritten(run, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"
    parquet.write_table(pyarrow.table({"text": ["a b"] * 1000}), path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="was not written by elmo embed"):
        run("table.parquet")
    with pytest.raises(ConfigError, match="is the input"):
        run("table.parquet", source=path)
    assert path.read_bytes() == before
    # A file of vectors is replaced.
    assert run("out.parquet").read_bytes() == run("out.parquet").read_bytes()
