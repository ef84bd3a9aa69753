"""Tests for worker processes: they do not affect the result and do not outlive their parent."""

import os
import signal
import subprocess
import sys
import time

import pytest
from corpus_texts import TEXT, prepared, snapshot

from elmo.corpus import line_blocks, word_counts
from elmo.corpus.shards import Corpus
from elmo.errors import OutputError


def test_prepare_result_does_not_depend_on_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 3000)
    corpora = {}
    for n_workers, limit in ((1, 2**29), (2, 40_000)):
        monkeypatch.setattr(word_counts, "DICTIONARY_BYTES", limit)
        folder = tmp_path / str(n_workers)
        folder.mkdir()
        prepared(folder, TEXT, workers=n_workers, shard_words=1000)
        corpora[n_workers] = snapshot(folder / "corpus")
    assert corpora[1] == corpora[2]
    assert {"train-00005.tokens", "valid-00000.starts"} < corpora[1].keys()


def test_workers_do_not_rerun_calling_script_without_main_guard(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT * 300)
    script = (
        "from elmo.config import *\nfrom elmo.corpus.prepare_corpus import prepare\nprint('once')\n"
        f"prepare(PrepareConfig(({str(tmp_path / 'text.txt')!r},), {str(tmp_path / 'c')!r}, "
        "corpus=CorpusConfig(workers=2)))\n"
    )
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "once\n", "")
    assert Corpus.open(tmp_path / "c").splits["train"].n_sentences == 297_000


@pytest.fixture
def preparing(tmp_path):
    """Start `elmo prepare`; yield the process and the process ids of its two workers."""
    with subprocess.Popen(
        [sys.executable, "-m", "elmo", "prepare", "-", "--out", tmp_path / "c", "--workers", "2"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # If the tests run in the background of a shell, they and their children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        process.stdin.write((TEXT * 400).encode())
        process.stdin.flush()
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".c.*/unfinished/worker-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        children = children_of(process.pid)
        assert len(children) == 2
        yield process, children
        process.kill()


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_process_group_ends_prepare_and_workers_without_traceback(
    tmp_path, preparing, number
):
    """Ctrl-C in a terminal is sent to the whole process group; workers must not print anything."""
    process, children = preparing
    os.killpg(process.pid, number)
    message = process.stderr.read().decode()
    assert process.wait() == 128 + number
    assert "Traceback" not in message
    assert list(tmp_path.iterdir()) == []
    assert not any(os.path.exists(f"/proc/{child}") for child in children)


def test_workers_exit_when_parent_is_killed(preparing):
    process, children = preparing
    process.kill()
    process.wait()
    deadline = time.monotonic() + 120
    while any(os.path.exists(f"/proc/{child}") for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_prepare_reports_killed_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 1000)
    (tmp_path / "input.txt").write_text(TEXT)
    blocks = word_counts.read_blocks
    # Processes started by other tests are also children of this process.
    before = children_of(os.getpid())

    def kill_first(*arguments):
        for number, block in enumerate(blocks(*arguments)):
            if number == 4:
                for child in set(children_of(os.getpid())) - set(before):
                    os.kill(int(child), signal.SIGKILL)
            yield block

    monkeypatch.setattr(word_counts, "read_blocks", kill_first)
    with pytest.raises(
        OutputError, match=r"ended unexpectedly \(exit status -9\).*fewer --workers"
    ):
        prepared(tmp_path, TEXT, workers=2)
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]
