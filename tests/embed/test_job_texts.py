"""Tests of dividing texts into tasks and of reading the lines of tasks."""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pytest
from tiny_jobs import make_lines, write_text

from elmo.embed import job_texts
from elmo.embed.job_texts import ShardTask, ShardTaskReader, divide_into_tasks, list_texts
from elmo.errors import ConfigError, InputError


def make_tasks(names, folder, shard_words=20, **options):
    texts = [text for name in names for text in list_texts(str(name), folder / "out")]
    return texts, list(divide_into_tasks(texts, shard_words, **options))


def read_back(texts, tasks):
    reader = ShardTaskReader([text.name for text in texts])
    lines = [reader.lines(task) for task in tasks]
    reader.close()
    return lines


def compressors():
    return {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, "": bytes}


@pytest.mark.parametrize("extension", compressors())
@pytest.mark.parametrize("block", [7, 2**22])
def test_every_line_is_in_exactly_one_task(tmp_path, monkeypatch, extension, block):
    monkeypatch.setattr("elmo.corpus.line_blocks.BLOCK_BYTES", block)
    monkeypatch.setattr(job_texts, "SKIP_BYTES", 5)
    lines = make_lines(100)
    path = tmp_path / f"text.txt{extension}"
    path.write_bytes(compressors()[extension]("".join(f"{line}\n" for line in lines).encode()))
    texts, tasks = make_tasks([path], tmp_path)
    assert len(tasks) > 10
    parts = read_back(texts, tasks)
    assert [line for part in parts for line in part] == lines
    first = 0
    for number, (task, part) in enumerate(zip(tasks, parts, strict=True)):
        assert (task.number, task.first_sentence) == (number, first)
        assert task.n_sentences == len(part)
        assert task.n_words == sum(len(line.split()) for line in part)
        assert sum(len(line.split()) for line in part[:-1]) < 20
        first += len(part)
    # Tasks can be read in any order, for example backwards.
    backwards = read_back(texts, tasks[::-1])
    assert backwards[::-1] == parts


def test_text_compressed_with_zstandard_is_read(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    lines = make_lines(60)
    path = tmp_path / "text.zst"
    path.write_bytes(zstandard.compress("\n".join(lines).encode()))
    texts, tasks = make_tasks([path], tmp_path)
    # Read every second task, so that parts of the text are skipped.
    for task, part in zip(tasks[1::2], read_back(texts, tasks[1::2]), strict=True):
        assert part == lines[task.first_sentence : task.first_sentence + task.n_sentences]


def test_several_small_texts_share_a_task(tmp_path):
    contents = ["\ufeffa b\r\nc\n", "", "d e f", "\n\n", "\ufeff", "g\n"]
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.txt").write_text(content, encoding="utf-8", newline="")
    texts, tasks = make_tasks([tmp_path / "*.txt"], tmp_path, shard_words=6)
    assert read_back(texts, tasks) == [["a b", "c", "d e f"], ["", "", "", "g"]]
    assert [segment.text for task in tasks for segment in task.segments] == [0, 2, 3, 4, 5]
    assert [segment.first_line for task in tasks for segment in task.segments] == [1] * 5


def test_blank_lines_count_towards_the_task_size(tmp_path):
    path = write_text(tmp_path / "blank.txt", [""] * 50)
    _, tasks = make_tasks([path], tmp_path)
    assert [task.n_sentences for task in tasks] == [20, 20, 10]


def test_empty_text_produces_one_task_without_sentences(tmp_path):
    (tmp_path / "empty.txt").touch()
    assert make_tasks([tmp_path / "empty.txt"], tmp_path)[1] == [ShardTask(0, 0, 0, 0, ())]


def test_number_of_words_is_estimated_with_a_tokenizer(tmp_path):
    path = write_text(tmp_path / "text.txt", ["ab cd", "", "ef"] * 20)
    texts = list_texts(str(path), tmp_path / "out")
    tasks = list(divide_into_tasks(texts, 20, lambda line: list(line.replace(" ", "").strip())))
    assert (tasks[0].n_sentences, tasks[0].n_words) == (10, 22)
    assert sum(task.n_words for task in tasks) == 120


def test_word_count_estimate_samples_lines_from_the_whole_text(tmp_path):
    """The sample covers the whole text, but only a fraction of its lines."""
    tokenized = []

    def split(line):
        tokenized.append(line)
        return list(line.strip())

    path = write_text(tmp_path / "text.txt", ["a"] * 3000 + ["abcdefghij"] * 3000)
    tasks = list(divide_into_tasks(list_texts(str(path), tmp_path / "out"), 10**6, split))
    assert sum(task.n_words for task in tasks) == pytest.approx(33_000, rel=0.01)
    assert len(tokenized) < 1000


def test_each_linked_folder_is_followed_only_once(tmp_path):
    texts, elsewhere = tmp_path / "texts", tmp_path / "elsewhere"
    for folder in (texts / "inside", elsewhere):
        folder.mkdir(parents=True)
    write_text(texts / "inside" / "a.txt", ["a"])
    write_text(elsewhere / "b.txt", ["b"])
    (texts / "linked").symlink_to(elsewhere)
    (texts / "inside" / "up").symlink_to(texts)
    (texts / ".hidden").symlink_to(elsewhere)
    names = [Path(text.name).name for text in list_texts(str(texts), tmp_path / "out")]
    assert names == ["a.txt", "b.txt"]


def test_broken_symbolic_link_raises_an_error(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "gone.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"Cannot read .*gone\.txt: No such file"):
        list_texts(str(tmp_path / "texts"), tmp_path / "out")


@pytest.mark.parametrize("extension", ["", ".gz"])
def test_reader_detects_a_text_that_changed_after_planning(tmp_path, extension):
    compress = compressors()[extension]
    path = tmp_path / f"text.txt{extension}"
    path.write_bytes(compress(b"a b c\nd e f\n"))
    texts, tasks = make_tasks([path], tmp_path, shard_words=3)
    path.write_bytes(compress(b"a b c\nd x f\n"))
    reader = ShardTaskReader([text.name for text in texts])
    assert reader.lines(tasks[0]) == ["a b c"]
    with pytest.raises(InputError, match="has changed since this job was planned"):
        reader.lines(tasks[1])
    reader.close()
    path.write_bytes(b"")
    with pytest.raises(InputError, match="has changed"):
        ShardTaskReader([text.name for text in texts]).lines(tasks[1])
    path.unlink()
    with pytest.raises(InputError, match="No such file"):
        ShardTaskReader([text.name for text in texts]).lines(tasks[0])


def test_damaged_text_file_raises_an_error(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"fine\nbroken \xff here\n")
    with pytest.raises(InputError, match=r"bad\.txt is not UTF-8: line 2, byte 8"):
        make_tasks([tmp_path / "bad.txt"], tmp_path)
    whole = gzip.compress(os.urandom(1000).hex().encode() + b"\n")
    (tmp_path / "torn.txt.gz").write_bytes(whole[:-200])
    with pytest.raises(InputError, match=r"Cannot read .*torn\.txt\.gz"):
        make_tasks([tmp_path / "torn.txt.gz"], tmp_path)
    (tmp_path / "torn.txt.gz").write_bytes(whole)
    texts, tasks = make_tasks([tmp_path / "torn.txt.gz"], tmp_path)
    (tmp_path / "torn.txt.gz").write_bytes(whole[:-200])
    with pytest.raises(InputError, match=r"Cannot read .*torn\.txt\.gz"):
        read_back(texts, tasks)


def test_list_texts_lists_files_and_rejects_invalid_sources(tmp_path):
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "deep/c.txt.gz", ".hidden"):
        (folder / name).touch()
    names = [text.name for text in list_texts(str(folder), tmp_path / "out")]
    assert names == [str(folder / name) for name in ("a.txt", "b.txt", "deep/c.txt.gz")]
    assert len(list_texts(str(folder / "*.txt"), tmp_path / "out")) == 2
    with pytest.raises(ConfigError, match="is inside the input folder"):
        list_texts(str(folder), folder / "out")
    with pytest.raises(ConfigError, match="standard input"):
        list_texts("-", tmp_path / "out")
    with pytest.raises(InputError, match="no such file"):
        list_texts(str(tmp_path / "nothing.txt"), tmp_path / "out")
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="has no files"):
        list_texts(str(tmp_path / "none"), tmp_path / "out")


def test_tasks_do_not_depend_on_file_modification_times(tmp_path):
    path = write_text(tmp_path / "text.txt", make_lines(40))
    first = make_tasks([path], tmp_path)[1]
    os.utime(path, (1, 1))
    _, again = make_tasks([path], tmp_path)
    assert first == again
