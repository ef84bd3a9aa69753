"""Tests of jobs that embed texts into a folder of shards: content, resuming and errors."""

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
from elmo.embed import embed_file, open_embeddings, sharded_job, vector_writers
from elmo.embed.disk_space import estimated_bytes
from elmo.embed.embed_result import JobResult
from elmo.embed.embedder import ELMo
from elmo.embed.encoding import EncodingRun
from elmo.embed.job_folder import JobFolder, read_plan
from elmo.embed.job_records import ShardRecord
from elmo.errors import ConfigError, FormatError, InputError, OutputError
from elmo.files import locked
from elmo.model.bilm import BiLMOutput

pytest.importorskip("pyarrow")

FORMATS = ["parquet", "hdf5", "safetensors"]
LINES = make_lines(60)


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch):
    """Run tasks in the test process; `test_killed_jobs.py` tests worker processes."""
    monkeypatch.setitem(sharded_job.ENGINES, "local", in_this_process)


@pytest.fixture
def texts(tmp_path):
    """Return a folder with two files, one of them compressed."""
    folder = tmp_path / "texts"
    folder.mkdir()
    write_text(folder / "a.txt", LINES[:40])
    second = "".join(f"{line}\n" for line in LINES[40:]).encode()
    (folder / "b.txt.gz").write_bytes(gzip.compress(second))
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
def test_no_folder_remains_if_the_device_is_unavailable(run, tmp_path, device):
    with pytest.raises(ConfigError, match=f"Device '{device}' is not available: "):
        run(device=device)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("storage", ["float16", "float32"])
def test_shards_contain_the_vectors_returned_by_encode(
    run, tmp_path, model, format, storage, layers
):
    result = run(format=format, storage=storage, layers=layers)
    expected = ELMo.from_pretrained(model).encode([line.split() for line in LINES], layers=layers)
    with open_embeddings(tmp_path / "out", dtype=None) as embeddings:
        assert len(embeddings) == len(LINES)
        assert embeddings.verify() == result.n_shards > 3
        for line, sentence, vectors in zip(LINES, embeddings, expected, strict=True):
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
def test_shard_bytes_do_not_depend_on_task_order_or_time(run, tmp_path, monkeypatch, format):
    run("first", format=format)
    # Some formats store the time in seconds.
    time.sleep(1.1)

    def backwards(job, tasks, n_workers, advance):
        for task in reversed(tasks):
            yield from in_this_process(job, [task], n_workers, advance)

    monkeypatch.setitem(sharded_job.ENGINES, "local", backwards)
    run("second", format=format)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_interrupted_job_resumes_with_identical_bytes(run, tmp_path, monkeypatch):
    expected = run("expected")
    done = []

    def interrupted(job, tasks, n_workers, advance):
        for record in in_this_process(job, tasks, n_workers, advance):
            done.append(record.number)
            yield record
            if len(done) == 2:
                raise KeyboardInterrupt

    monkeypatch.setitem(sharded_job.ENGINES, "local", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [0, 1]
    message = f"{expected.n_shards - 2} of {expected.n_shards} shards are missing"
    with pytest.raises(FormatError, match=message):
        open_embeddings(tmp_path / "out")
    (tmp_path / "out" / "shards" / ".00002.parquet.7-abcdef00.partial").write_text("half")
    # A shard without a record is not finished, whatever it contains.
    (tmp_path / "out" / "shards" / "00002.parquet").write_text("half")
    monkeypatch.setitem(sharded_job.ENGINES, "local", in_this_process)
    result = run()
    assert result.n_new_shards == expected.n_shards - 2
    assert f"words/s, {2} shards written earlier)" in str(result)
    assert contents(tmp_path / "out") == contents(tmp_path / "expected")


def test_resumed_job_keeps_its_number_of_threads(run, tmp_path, monkeypatch):
    """The number of threads affects rounding and therefore the bytes of the shards."""
    threads = []

    def watched(job, tasks, n_workers, advance):
        threads.append(job.n_threads)
        yield from in_this_process(job, tasks, n_workers, advance)

    monkeypatch.setitem(sharded_job.ENGINES, "local", watched)
    run()
    (tmp_path / "out" / "shards" / "00001.parquet").unlink()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    run()
    assert threads == [1, 1]


def test_rerunning_a_finished_job_changes_no_file(run, tmp_path, monkeypatch):
    run()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")}
    monkeypatch.setitem(sharded_job.ENGINES, "local", None)
    monkeypatch.setattr(sharded_job, "divide_into_tasks", None)
    result = run(workers=3, engine="local")
    assert result.n_new_shards == 0
    assert str(result).endswith("; the job was already finished")
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {k: v for k, v in before.items() if k.name != ".lock"} == {
        k: v for k, v in after.items() if k.name != ".lock"
    }


@pytest.mark.parametrize("name", ["plan.json", "manifest.json"])
def test_old_name_of_the_precision_setting_is_accepted_in_job_files(run, tmp_path, name):
    run()
    path = tmp_path / "out" / name
    path.write_text(path.read_text().replace('"precision"', '"dtype"'))
    assert run().n_new_shards == 0
    assert open_embeddings(tmp_path / "out").manifest.settings.precision == "float32"
    with pytest.raises(ConfigError, match="precision was float32, now it is float64"):
        run(precision="float64")


def test_job_of_a_version_with_the_setting_raw_is_resumed_with_pretokenized(run, tmp_path):
    run()
    for name in ("plan.json", "manifest.json"):
        path = tmp_path / "out" / name
        path.write_text(path.read_text().replace('"pretokenized": true', '"raw": false'))
    assert run().n_new_shards == 0
    assert open_embeddings(tmp_path / "out").manifest.settings.pretokenized
    with pytest.raises(ConfigError, match=r"splits text at spaces.* with --pretokenized"):
        run(pretokenized=False)


def test_pretokenized_is_ignored_on_resuming_if_the_model_splits_at_spaces(run, tmp_path, model):
    elmo = ELMo.from_pretrained(model, tokenizer="whitespace")
    elmo.save_pretrained(tmp_path / "spaces")
    run(model=tmp_path / "spaces", pretokenized=True)
    assert run(model=tmp_path / "spaces", pretokenized=False).n_new_shards == 0


def test_job_warns_once_about_raw_text_that_is_split_at_spaces(run, tmp_path, caplog):
    source = write_text(tmp_path / "raw.txt", ["She robbed a bank.", "Really?"] * 20)
    run(source=source)
    assert caplog.text.count("omit --pretokenized") == 1
    run(source=source)
    assert caplog.text.count("omit --pretokenized") == 1


def test_job_warns_about_lines_that_are_paragraphs_unless_sentences_is_given(run, tmp_path, caplog):
    source = write_text(tmp_path / "paragraphs.txt", ["She left . He sat . Why ?"] * 20)
    run(source=source)
    assert caplog.text.count("Use --sentences split") == 1
    # An explicit default is the same job.
    assert run(source=source, sentences="line").n_new_shards == 0
    run(source=source, sentences="line", name="other")
    assert caplog.text.count("Use --sentences split") == 1


def test_missing_shards_and_shards_of_wrong_size_are_rewritten(run, tmp_path):
    run()
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "shards" / "00001.parquet").unlink()
    with (tmp_path / "out" / "shards" / "00002.parquet").open("ab") as file:
        file.write(b"more")
    assert run().n_new_shards == 2
    assert contents(tmp_path / "out") == before


CHANGED_SETTINGS = {
    "layers": ({"layers": "top"}, "layers was average, now it is top"),
    "format": ({"format": "hdf5"}, "format was parquet, now it is hdf5"),
    "storage": ({"storage": "float32"}, "storage was float16, now it is float32"),
    "shard_words": ({"shard_words": 60}, "shard_words was 50, now it is 60"),
    "batch_size": ({"batch_size": 3}, "batch_size was None, now it is 3"),
    "precision": ({"precision": "float64"}, "precision was float32, now it is float64"),
}


@pytest.mark.parametrize("name", CHANGED_SETTINGS)
def test_job_is_not_resumed_with_different_settings(run, name):
    run()
    settings, message = CHANGED_SETTINGS[name]
    with pytest.raises(ConfigError, match=f"contains another job: {message}"):
        run(**settings)


def test_job_is_not_resumed_with_a_different_model(run, tmp_path):
    run()
    other = write_model(tmp_path / "other", seed=1)
    with pytest.raises(ConfigError, match=r"the fingerprint of the model was \w{12}, now it is"):
        run(model=other)
    # The same weights under another path are the same model.
    shutil.copytree(tmp_path / "model", tmp_path / "moved")
    assert run(model=tmp_path / "moved").n_new_shards == 0


def test_job_is_not_resumed_with_different_texts(run, tmp_path, texts):
    run()
    # A new modification time or path is not a change of the text.
    os.utime(texts / "a.txt", (1, 1))
    shutil.copytree(texts, tmp_path / "copy")
    assert run().n_new_shards == run(source=tmp_path / "copy").n_new_shards == 0
    write_text(texts / "c.txt", ["more"])
    with pytest.raises(ConfigError, match="it was planned with 2 texts, but now there are 3"):
        run()
    (texts / "c.txt").unlink()
    write_text(texts / "a.txt", [*LINES[:39], "else"])
    with pytest.raises(ConfigError, match=r"different input: .*a\.txt has changed"):
        run()
    longer = "".join(f"{line}\n" for line in [*LINES[40:], *LINES]).encode()
    write_text(texts / "a.txt", LINES[:40])
    (texts / "b.txt.gz").write_bytes(gzip.compress(longer))
    with pytest.raises(ConfigError, match="contains a job for different input"):
        run()


def test_worker_detects_a_model_that_changed_after_planning(run, tmp_path, monkeypatch):
    def change_model(job, tasks, n_workers, advance):
        write_model(tmp_path / "model", seed=1)
        yield from in_this_process(job, tasks, n_workers, advance)

    monkeypatch.setitem(sharded_job.ENGINES, "local", change_model)
    with pytest.raises(ConfigError, match="has changed since this job was planned"):
        run()


def test_job_rejects_a_folder_locked_by_another_job(run, tmp_path):
    run()
    with (
        locked(tmp_path / "out", "busy"),
        pytest.raises(OutputError, match="in use by another job"),
    ):
        run()


def test_job_rejects_a_folder_with_unrelated_files(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"contains notes\.txt but no plan\.json"):
        run()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_folder_of_a_job_killed_before_planning_is_reused(run, tmp_path):
    for name in ("shards", "records"):
        (tmp_path / "out" / name).mkdir(parents=True)
    run()
    assert (tmp_path / "out" / "manifest.json").exists()


def test_no_folder_remains_after_an_interrupt_during_planning(run, tmp_path, monkeypatch):
    def interrupt(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr("elmo.embed.job_folder.write_json", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', '{"version": 1}'])
def test_damaged_plan_file_raises_an_error(run, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text(content)
    with pytest.raises(FormatError, match=r"plan\.json"):
        run()


def test_no_folder_remains_if_planning_fails(run, tmp_path, texts):
    (texts / "bad.txt").write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        run()
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="Unknown layers 'third'"):
        run(layers="third")
    assert not (tmp_path / "out").exists()


UNSUPPORTED = {
    "carry": ({"state": "carry"}, "--state carry is not supported for a folder of shards"),
    "forget": ({"forget_sentences": True}, "--forget-sentences is only supported for a single"),
    "stdin": ({"source": "-"}, "standard input"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_job_rejects_unsupported_options(run, tmp_path, name):
    settings, message = UNSUPPORTED[name]
    with pytest.raises(ConfigError, match=message):
        run(**settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["workers", "shard_words"])
def test_embed_config_rejects_numbers_below_one(name):
    with pytest.raises(ConfigError, match=rf"{name} must be at least 1 \(got 0\)"):
        EmbedConfig("in.txt", "out", **{name: 0})


JOB_OPTIONS = {
    "format": "parquet",
    "workers": 1,
    "engine": "local",
    "shard_words": 5,
    "storage": "float16",
}


@pytest.mark.parametrize("name", JOB_OPTIONS)
def test_job_options_are_rejected_for_single_file_output(tmp_path, name):
    assert set(JOB_OPTIONS) == set(embed_file.JOB_OPTIONS)
    config = EmbedConfig("in.txt", str(tmp_path / "out.h5"), **{name: JOB_OPTIONS[name]})
    flag = name.replace("_", "-")
    message = rf"--{flag} is only supported if the output is a folder, but .*out\.h5 is a file"
    with pytest.raises(ConfigError, match=message):
        embed_file.embed(config)


def test_folder_name_with_an_extension_must_end_with_a_slash_or_exist(run, tmp_path, texts):
    with pytest.raises(
        ConfigError, match=r"Unknown file extension of vectors\.v1.*has no extension"
    ):
        run("vectors.v1", source=texts / "a.txt")
    config = EmbedConfig(str(texts), f"{tmp_path}/vectors.v1/", model=str(tmp_path / "model"))
    assert isinstance(embed_file.embed(config), JobResult)
    (tmp_path / "vectors.v2").mkdir()
    assert isinstance(run("vectors.v2"), JobResult)


def test_free_disk_space_is_checked_before_the_job_starts(run, tmp_path, monkeypatch, capsys):
    result = run("fits")
    estimate = capsys.readouterr().err.splitlines()[0]
    n_words = sum(len(line.split()) for line in LINES)
    assert estimate.startswith(f"embed: {n_words} words into {result.n_shards} shards, at most ")
    assert estimate.endswith(" free")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10_000))
    with pytest.raises(OutputError, match=r"need about .* kB, but .* has only 10\.0 kB free"):
        run()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layers", ["average", "all"])
@pytest.mark.parametrize("format", FORMATS)
def test_estimated_job_size_is_an_upper_bound(run, tmp_path, format, layers):
    write_text(tmp_path / "long.txt", make_lines(3000))
    result = run(source=tmp_path / "long.txt", format=format, layers=layers, shard_words=5000)
    assert result.n_bytes <= result.estimated_bytes <= 2.5 * result.n_bytes
    plan = read_plan(tmp_path / "out" / "plan.json")
    assert result.estimated_bytes == estimated_bytes(plan, plan.tasks)


def test_job_tokenizes_raw_text(run, tmp_path, model):
    raw = write_text(tmp_path / "raw.txt", ["He didn't sit.", "", "Don't!"] * 10)
    run(source=raw, pretokenized=False, shard_words=10)
    split = ELMo.from_pretrained(model).tokenizer.words
    with open_embeddings(tmp_path / "out") as sentences:
        assert sentences[0].words == split("He didn't sit.") != "He didn't sit.".split()
        assert sentences.verify() == 7
        assert sum(len(sentence.words) for sentence in sentences) == sentences.manifest.n_words


@pytest.mark.parametrize("format", FORMATS)
def test_job_on_an_empty_text_writes_one_shard_without_sentences(run, tmp_path, format):
    (tmp_path / "empty.txt").touch()
    result = run(source=tmp_path / "empty.txt", format=format)
    assert (result.n_sentences, result.n_shards) == (0, 1)
    assert str(result).endswith(": the input is empty")
    with open_embeddings(tmp_path / "out") as sentences:
        assert list(sentences) == []
        assert sentences.verify() == 1
    assert run(source=tmp_path / "empty.txt", format=format).n_new_shards == 0


@pytest.mark.parametrize("format", FORMATS)
def test_float16_storage_overflow_raises_an_error(run, tmp_path, monkeypatch, format):
    monkeypatch.setattr(BiLMOutput, "average", lambda output: 1e9 * output.layer(-1))
    with pytest.raises(OutputError, match=r"overflows float16 storage .*--storage float32"):
        run(format=format)
    assert list((tmp_path / "out" / "shards").iterdir()) == []
    assert list((tmp_path / "out" / "records").iterdir()) == []


@pytest.mark.parametrize("writer", ["HDF5Writer", "ParquetWriter", "SafetensorsWriter"])
def test_no_partial_shard_remains_if_the_disk_is_full(run, tmp_path, monkeypatch, writer):
    def fail(self, *arguments):
        raise OSError(28, "No space left on device")

    format = {"HDF5Writer": "hdf5", "ParquetWriter": "parquet"}.get(writer, "safetensors")
    monkeypatch.setattr(getattr(vector_writers, writer), "write", fail)
    with pytest.raises(OutputError, match=r"No space left on device\. No partial file was left"):
        run(format=format)
    assert list((tmp_path / "out" / "shards").iterdir()) == []


def test_number_of_words_per_window_is_limited_in_a_job(run, monkeypatch):
    monkeypatch.setitem(embed_file.WINDOW_WORDS, "cpu", 30)
    sizes = []
    reset = EncodingRun.reset

    def watched_reset(self, groups):
        def watched_groups():
            for window, sentences in groups:
                sizes.append(sum(len(sentence) + 2 for sentence in sentences))
                yield window, sentences

        return reset(self, watched_groups())

    monkeypatch.setattr(EncodingRun, "reset", watched_reset)
    run(shard_words=200)
    assert max(sizes) < 30 + 10
    assert len(sizes) > 10


def test_progress_of_a_resumed_job_includes_finished_shards(run, tmp_path, monkeypatch, capsys):
    run()
    capsys.readouterr()
    (tmp_path / "out" / "shards" / "00003.parquet").unlink()
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)
    run()
    estimate, *lines = capsys.readouterr().err.splitlines()
    n_words = sum(len(line.split()) for line in LINES)
    assert "(4 shards already done)" in estimate
    assert f"{n_words} of {n_words} words, about 0 s left" in lines[-1]


def test_mismatched_and_unreadable_shard_records_are_ignored(tmp_path, run):
    run()
    folder = JobFolder(tmp_path / "out")
    plan = folder.plan()
    record = folder.records(plan)[1]
    assert dataclasses.replace(record) == ShardRecord(
        **json.loads(folder.record_path(1).read_text())
    )
    # The record of another task.
    folder.record_path(1).write_text(folder.record_path(2).read_text())
    assert 1 not in folder.records(plan)
    # An unreadable record does not count: the shard is written again.
    for damaged in ("{}", ""):
        folder.record_path(1).write_text(damaged)
        assert 1 not in folder.records(plan)
    assert run().n_new_shards == 1
    assert folder.records(plan)[1] == record
