"""Many texts to a folder of shards: what is in it, going on, and what is refused."""

import dataclasses
import gzip
import json
import os
import shutil
import time

import numpy as np
import pytest
from tiny_jobs import contents, in_this_process, make_lines, run_job, write_model, write_text

from elmo.config import EmbedConfig
from elmo.embed import embed_file, open_embeddings, sharded_job
from elmo.embed import vector_writers as store_module
from elmo.embed.disk_space import estimated_bytes
from elmo.embed.embed_result import JobResult
from elmo.embed.embedder import ELMo
from elmo.embed.encoding import EncodingRun
from elmo.embed.job_folder import JobFolder, ShardRecord, read_plan
from elmo.errors import ConfigError, FormatError, InputError, OutputError
from elmo.files import locked
from elmo.model.bilm import BiLMOutput

pytest.importorskip("pyarrow")

FORMATS = ["parquet", "hdf5", "safetensors"]
LINES = make_lines(60)


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    """Processes are for `test_killed.py`; here it is one, and everything else the same."""
    monkeypatch.setitem(sharded_job.ENGINES, "local", in_this_process)


@pytest.fixture
def texts(tmp_path):
    """Two files, one of them packed."""
    folder = tmp_path / "texts"
    folder.mkdir()
    write_text(folder / "a.txt", LINES[:40])
    packed = "".join(f"{line}\n" for line in LINES[40:]).encode()
    (folder / "b.txt.gz").write_bytes(gzip.compress(packed))
    return folder


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


@pytest.fixture
def run(tmp_path, texts, model):
    def call(name="out", source=texts, shard_words=50, **settings):
        settings = {"model": model, "shard_words": shard_words, **settings}
        return run_job(source, tmp_path / name, **settings)

    return call


@pytest.mark.parametrize("device", ["cuda:99", "abacus"])
def test_a_device_that_is_not_there_leaves_no_folder(run, tmp_path, device):
    with pytest.raises(ConfigError, match=f"device is '{device}', which cannot be used: "):
        run(device=device)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("storage", ["float16", "float32"])
def test_shards_hold_the_vectors_of_encode(run, tmp_path, model, format, storage, layers):
    result = run(format=format, storage=storage, layers=layers)
    expected = ELMo.from_pretrained(model).encode([line.split() for line in LINES], layers=layers)
    with open_embeddings(tmp_path / "out", dtype=None) as found:
        assert len(found) == len(LINES)
        assert found.verify() == result.n_shards > 3
        for line, sentence, vectors in zip(LINES, found, expected, strict=True):
            assert sentence.words == line.split()
            assert sentence.vectors.dtype == storage
            assert sentence.vectors.shape == vectors.shape
            tolerance = 1e-5 if storage == "float32" else 1e-3
            np.testing.assert_allclose(sentence.vectors, vectors, rtol=tolerance, atol=tolerance)
    assert result.n_sentences == len(LINES)
    assert result.n_words == sum(len(line.split()) for line in LINES)
    assert result.n_bytes == sum(
        path.stat().st_size for path in (tmp_path / "out/shards").iterdir()
    )


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_bytes_whoever_wrote_them_and_whenever(run, tmp_path, monkeypatch, format):
    run("first", format=format)
    # Formats that write down the time do it in whole seconds.
    time.sleep(1.1)

    def backwards(sharded_job, tasks, n_workers, advance):
        for task in reversed(tasks):
            yield from in_this_process(sharded_job, [task], n_workers, advance)

    monkeypatch.setitem(sharded_job.ENGINES, "local", backwards)
    run("second", format=format)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_going_on(run, tmp_path, monkeypatch):
    """Whatever a job was stopped at, it becomes what it would have been."""
    whole = run("whole")
    done = []

    def interrupted(sharded_job, tasks, n_workers, advance):
        for record in in_this_process(sharded_job, tasks, n_workers, advance):
            done.append(record.number)
            yield record
            if len(done) == 2:
                raise KeyboardInterrupt

    monkeypatch.setitem(sharded_job.ENGINES, "local", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [0, 1]
    with pytest.raises(FormatError, match=f"{whole.n_shards - 2} of {whole.n_shards} shards are m"):
        open_embeddings(tmp_path / "out")
    (tmp_path / "out" / "shards" / ".00002.parquet.7-abcdef00.partial").write_text("half")
    # A shard without a record is not done, whatever is in it.
    (tmp_path / "out" / "shards" / "00002.parquet").write_text("half")
    monkeypatch.setitem(sharded_job.ENGINES, "local", in_this_process)
    result = run()
    assert result.n_new_shards == whole.n_shards - 2
    assert f"words/s, {2} shards before)" in str(result)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_threads_are_those_it_was_begun_with(run, tmp_path, monkeypatch):
    """Sums in another order round otherwise; who goes on must not make other bytes."""
    threads = []

    def watched(sharded_job, tasks, n_workers, advance):
        threads.append(sharded_job.n_threads)
        yield from in_this_process(sharded_job, tasks, n_workers, advance)

    monkeypatch.setitem(sharded_job.ENGINES, "local", watched)
    run()
    (tmp_path / "out" / "shards" / "00001.parquet").unlink()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    run()
    assert threads == [1, 1]


def test_a_finished_job_is_left_alone(run, tmp_path, monkeypatch):
    run()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")}
    monkeypatch.setitem(sharded_job.ENGINES, "local", None)
    monkeypatch.setattr(sharded_job, "cut", None)
    result = run(workers=3, engine="local")
    assert result.n_new_shards == 0
    assert str(result).endswith("it was finished before, and nothing was done")
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {k: v for k, v in before.items() if k.name != ".lock"} == {
        k: v for k, v in after.items() if k.name != ".lock"
    }


def test_a_shard_that_was_lost_is_made_again(run, tmp_path):
    run()
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "shards" / "00001.parquet").unlink()
    with (tmp_path / "out" / "shards" / "00002.parquet").open("ab") as file:
        file.write(b"more")
    assert run().n_new_shards == 2
    assert contents(tmp_path / "out") == before


OTHERS = {
    "layers": ({"layers": "top"}, "layers was average, now top"),
    "format": ({"format": "hdf5"}, "format was parquet, now hdf5"),
    "storage": ({"storage": "float32"}, "storage was float16, now float32"),
    "shard_words": ({"shard_words": 60}, "shard_words was 50, now 60"),
    "batch_size": ({"batch_size": 3}, "batch_size was None, now 3"),
    "precision": ({"precision": "float64"}, "precision was float32, now float64"),
    "raw": ({"raw": True}, "raw was False, now True"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_job_is_refused(run, name):
    run()
    settings, message = OTHERS[name]
    with pytest.raises(ConfigError, match=f"holds another job: {message}"):
        run(**settings)


def test_another_model_is_refused(run, tmp_path):
    run()
    other = write_model(tmp_path / "other", seed=1)
    with pytest.raises(ConfigError, match=r"the fingerprint of the model was \w{12}, now"):
        run(model=other)
    # The same weights by another name are the same model.
    shutil.copytree(tmp_path / "model", tmp_path / "moved")
    assert run(model=tmp_path / "moved").n_new_shards == 0


def test_other_texts_are_refused(run, tmp_path, texts):
    run()
    # A date alone, or another place, makes no other text.
    os.utime(texts / "a.txt", (1, 1))
    shutil.copytree(texts, tmp_path / "copy")
    assert run().n_new_shards == run(source=tmp_path / "copy").n_new_shards == 0
    write_text(texts / "c.txt", ["more"])
    with pytest.raises(ConfigError, match="it has 2 texts, now there are 3"):
        run()
    (texts / "c.txt").unlink()
    write_text(texts / "a.txt", [*LINES[:39], "else"])
    with pytest.raises(ConfigError, match=r"a\.txt has another content than it had"):
        run()
    packed = "".join(f"{line}\n" for line in [*LINES[40:], *LINES]).encode()
    write_text(texts / "a.txt", LINES[:40])
    (texts / "b.txt.gz").write_bytes(gzip.compress(packed))
    with pytest.raises(ConfigError, match="holds another job"):
        run()


def test_a_model_that_changes_under_way_is_noticed(run, tmp_path, monkeypatch):
    def later(given, tasks, n_workers, advance):
        write_model(tmp_path / "model", seed=1)
        yield from in_this_process(given, tasks, n_workers, advance)

    monkeypatch.setitem(sharded_job.ENGINES, "local", later)
    with pytest.raises(ConfigError, match="has changed since the job was begun"):
        run()


def test_two_at_once(run, tmp_path):
    run()
    with (
        locked(tmp_path / "out", "busy"),
        pytest.raises(OutputError, match="in use by another job"),
    ):
        run()


def test_a_folder_of_something_else(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds letter\.txt and no plan"):
        run()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["letter.txt"]


def test_killed_before_the_plan_was_written(run, tmp_path):
    for name in ("shards", "records"):
        (tmp_path / "out" / name).mkdir(parents=True)
    run()
    assert (tmp_path / "out" / "manifest.json").exists()


def test_stopped_before_the_plan_was_written(run, tmp_path, monkeypatch):
    def stopped(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo.embed.job_folder.write_json", stopped)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_spoiled_plan(run, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text(content)
    with pytest.raises(FormatError, match=r"plan\.json"):
        run()


def test_nothing_is_left_of_a_job_that_could_not_be_planned(run, tmp_path, texts):
    (texts / "bad.txt").write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        run()
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="layers is 'third'"):
        run(layers="third")
    assert not (tmp_path / "out").exists()


REFUSED = {
    "carry": ({"state": "carry"}, "cannot carry the state"),
    "forget": ({"forget_sentences": True}, "forget-sentences is for one HDF5 file"),
    "stdin": ({"source": "-"}, "standard input"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_for_a_job(run, tmp_path, name):
    settings, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message):
        run(**settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["workers", "shard_words"])
def test_numbers_below_one(name):
    with pytest.raises(ConfigError, match=f"{name} is 0; it must be at least 1"):
        EmbedConfig("in.txt", "out", **{name: 0})


ALONE = {
    "format": "parquet",
    "workers": 1,
    "engine": "local",
    "shard_words": 5,
    "storage": "float16",
}


@pytest.mark.parametrize("name", ALONE)
def test_what_makes_no_sense_for_one_file(tmp_path, name):
    assert set(ALONE) == set(embed_file.JOB_ALONE)
    config = EmbedConfig("in.txt", str(tmp_path / "out.h5"), **{name: ALONE[name]})
    flag = name.replace("_", "-")
    with pytest.raises(ConfigError, match=rf"--{flag} is for a folder of shards.*out\.h5 is one"):
        embed_file.embed(config)


def test_a_folder_with_an_ending(run, tmp_path, texts):
    """It has to be meant: a slash at its end, or it is there."""
    with pytest.raises(ConfigError, match=r"no known format.*named without an ending"):
        run("vectors.v1", source=texts / "a.txt")
    config = EmbedConfig(str(texts), f"{tmp_path}/vectors.v1/", model=str(tmp_path / "model"))
    assert isinstance(embed_file.embed(config), JobResult)
    (tmp_path / "vectors.v2").mkdir()
    assert isinstance(run("vectors.v2"), JobResult)


def test_the_disk_is_asked_first(run, tmp_path, monkeypatch, capsys):
    result = run("fits")
    told = capsys.readouterr().err.splitlines()[0]
    words = sum(len(line.split()) for line in LINES)
    assert told.startswith(f"embed: {words} words into {result.n_shards} shards, at most ")
    assert told.endswith(" free")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10_000))
    with pytest.raises(OutputError, match=r"take about .* kB, but .* has 10\.0 kB free"):
        run()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("format", FORMATS)
def test_the_estimate_is_never_too_low(run, tmp_path, format, layers):
    write_text(tmp_path / "long.txt", make_lines(3000))
    result = run(source=tmp_path / "long.txt", format=format, layers=layers, shard_words=5000)
    assert result.n_bytes <= result.estimated_bytes <= 2.5 * result.n_bytes
    plan = read_plan(tmp_path / "out" / "plan.json")
    assert result.estimated_bytes == estimated_bytes(plan, plan.tasks)


def test_raw_text(run, tmp_path, model):
    raw = write_text(tmp_path / "raw.txt", ["He didn't sit.", "", "Don't!"] * 10)
    run(source=raw, raw=True, shard_words=10)
    split = ELMo.from_pretrained(model).tokenizer.words
    with open_embeddings(tmp_path / "out") as found:
        assert found[0].words == split("He didn't sit.") != "He didn't sit.".split()
        assert found.verify() == 7
        assert sum(len(item.words) for item in found) == found.manifest.n_words


def test_an_empty_text(run, tmp_path):
    (tmp_path / "empty.txt").touch()
    assert run(source=tmp_path / "empty.txt").n_sentences == 0
    with open_embeddings(tmp_path / "out") as found:
        assert list(found) == []
        assert found.verify() == 0
    assert run(source=tmp_path / "empty.txt").n_new_shards == 0


@pytest.mark.parametrize("format", FORMATS)
def test_numbers_that_do_not_fit(run, tmp_path, monkeypatch, format):
    monkeypatch.setattr(BiLMOutput, "average", lambda output: 1e9 * output.layer(-1))
    with pytest.raises(OutputError, match="does not fit into float16: begin again"):
        run(format=format)
    assert list((tmp_path / "out" / "shards").iterdir()) == []
    assert list((tmp_path / "out" / "records").iterdir()) == []


@pytest.mark.parametrize("kind", ["HDF5Writer", "ParquetWriter", "SafetensorsWriter"])
def test_a_full_disk(run, tmp_path, monkeypatch, kind):
    def fail(self, *given):
        raise OSError(28, "No space left on device")

    format = {"HDF5Writer": "hdf5", "ParquetWriter": "parquet"}.get(kind, "safetensors")
    monkeypatch.setattr(getattr(store_module, kind), "write", fail)
    with pytest.raises(OutputError, match="No space left on device; nothing was left behind"):
        run(format=format)
    assert list((tmp_path / "out" / "shards").iterdir()) == []


def test_a_window_is_all_that_is_held(run, monkeypatch):
    monkeypatch.setitem(embed_file.WINDOW_WORDS, "cpu", 30)
    sizes = []
    reset = EncodingRun.reset

    def watched(self, groups):
        def asked():
            for window, sentences in groups:
                sizes.append(sum(len(sentence) + 2 for sentence in sentences))
                yield window, sentences

        return reset(self, asked())

    monkeypatch.setattr(EncodingRun, "reset", watched)
    run(shard_words=200)
    assert max(sizes) < 30 + 10
    assert len(sizes) > 10


def test_progress_counts_what_was_done_before_apart(run, tmp_path, monkeypatch, capsys):
    run()
    capsys.readouterr()
    (tmp_path / "out" / "shards" / "00003.parquet").unlink()
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)
    run()
    told, *lines = capsys.readouterr().err.splitlines()
    words = sum(len(line.split()) for line in LINES)
    assert "(4 shards done before)" in told
    assert f"{words} of {words} words, about 0 s left" in lines[-1]


def test_records_are_read_with_care(tmp_path, run):
    run()
    folder = JobFolder(tmp_path / "out")
    plan = folder.plan()
    record = folder.records(plan)[1]
    assert dataclasses.replace(record) == ShardRecord(
        **json.loads(folder.record_path(1).read_text())
    )
    # A record of another task, brought here by whatever accident.
    folder.record_path(1).write_text(folder.record_path(2).read_text())
    assert 1 not in folder.records(plan)
    # A record that nobody can read is none: the shard is made again.
    for damaged in ("{}", ""):
        folder.record_path(1).write_text(damaged)
        assert 1 not in folder.records(plan)
    assert run().n_new_shards == 1
    assert folder.records(plan)[1] == record
