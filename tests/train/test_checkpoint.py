"""Tests of checkpoints: atomic writes, detection of damaged files, and safe loading."""

import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import elmo
from elmo.errors import FormatError, OutputError
from elmo.train import checkpoint


def content(step, size=100):
    generator = torch.Generator().manual_seed(step)
    return {
        "weights": {"a": torch.randn(size, generator=generator), "b": torch.arange(5) + step},
        "rows": [{"sum": torch.ones(3)}],
        "run_state": {"step": step, "lowest": float("inf"), "best": [], "before": None},
        "position": {"streams": [{"drawn": 2**40, "draw": [1, -1]}]},
    }


def same(one, other):
    """Whether the contents of two checkpoints are bitwise equal."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def snapshot(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# ------------------------------------------------------------------------------------ save and load


def test_load_newest_returns_none_without_checkpoints(tmp_path):
    assert checkpoint.load_newest(tmp_path) is None
    assert checkpoint.load_newest(tmp_path / "missing") is None


def test_load_newest_returns_saved_content(tmp_path):
    folder = tmp_path / "deep" / "checkpoints"
    path = checkpoint.save(folder, 7, content(7))
    assert path.name.startswith("step-000000007-")
    assert [each.name for each in folder.iterdir()] == [path.name]
    assert same(checkpoint.load_newest(folder), content(7))


def test_save_deletes_all_but_the_last_two_checkpoints(tmp_path):
    paths = [checkpoint.save(tmp_path, step, content(step)) for step in (1, 2, 10, 9_999_999_999)]
    assert sorted(tmp_path.iterdir()) == sorted(paths[-2:])
    assert same(checkpoint.load_newest(tmp_path), content(9_999_999_999))


def test_save_replaces_an_existing_checkpoint_of_the_same_step(tmp_path):
    """The file written last is loaded, whatever its checksum; the previous step is not deleted."""
    before = checkpoint.save(tmp_path, 1, content(1))
    for number in range(6):
        path = checkpoint.save(tmp_path, 2, {"number": number})
        assert sorted(tmp_path.iterdir()) == sorted([before, path])
        assert checkpoint.load_newest(tmp_path) == {"number": number}


def test_save_and_load_newest_ignore_files_that_are_not_checkpoints(tmp_path):
    for name in ("step-5.pt", "step-000000005-0000000g.pt", "notes.txt"):
        (tmp_path / name).write_text("mine")
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, step, content(step))
    assert same(checkpoint.load_newest(tmp_path), content(3))
    assert len(list(tmp_path.iterdir())) == 5


# ------------------------------------------------------------------------------------ damage


def truncated(data):
    return data[: len(data) // 2]


def without_last_byte(data):
    return data[:-1]


def with_flipped_bit(data):
    # Flip a bit inside a tensor, which the archive format itself does not detect.
    offset = data.index(content(2)["weights"]["a"].numpy().tobytes()) + 11
    return data[:offset] + bytes([data[offset] ^ 4]) + data[offset + 1 :]


def with_extra_byte(data):
    return data + b"\0"


def empty(data):
    return b""


@pytest.mark.parametrize(
    "damage", [truncated, without_last_byte, with_flipped_bit, with_extra_byte, empty]
)
def test_load_newest_falls_back_if_the_last_checkpoint_is_damaged(tmp_path, caplog, damage):
    first = checkpoint.save(tmp_path, 1, content(1))
    second = checkpoint.save(tmp_path, 2, content(2))
    second.write_bytes(damage(second.read_bytes()))
    with caplog.at_level(logging.WARNING):
        loaded = checkpoint.load_newest(tmp_path)
    assert same(loaded, content(1))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{second} is truncated or damaged" in caplog.text
    assert list(tmp_path.iterdir()) == [first]
    # The damaged checkpoint does not affect the next one of the same step.
    checkpoint.save(tmp_path, 2, content(2))
    assert same(checkpoint.load_newest(tmp_path), content(2))


def test_load_newest_returns_none_if_all_checkpoints_are_damaged(tmp_path, caplog):
    for step in (1, 2):
        path = checkpoint.save(tmp_path, step, content(step))
        path.write_bytes(b"")
    assert checkpoint.load_newest(tmp_path) is None
    assert len(caplog.records) == 2
    assert not list(tmp_path.iterdir())


def test_load_newest_rejects_a_file_name_with_a_wrong_checksum(tmp_path):
    path = checkpoint.save(tmp_path, 1, content(1))
    path.rename(path.with_name("step-000000001-00000000.pt"))
    assert checkpoint.load_newest(tmp_path) is None


def test_load_newest_deletes_partially_written_files(tmp_path, caplog):
    path = checkpoint.save(tmp_path, 1, content(1))
    for name in ("step-000000002.writing", ".step-000000002.writing.77.partial"):
        (tmp_path / name).write_bytes(path.read_bytes()[:50])
    assert same(checkpoint.load_newest(tmp_path), content(1))
    assert list(tmp_path.iterdir()) == [path]
    assert not caplog.records


KILL_WHILE_WRITING = """
import os, signal, sys, torch
from pathlib import Path
from elmo.train import checkpoint

class KilledWriter:
    def __init__(self, file):
        self.file, self.checksum, self.written, self.error = file, 0, 0, None
    def write(self, data):
        self.written += 1
        if self.written == 3:
            self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.file.write(data)
    def flush(self):
        self.file.flush()

checkpoint._ChecksumWriter = KilledWriter
checkpoint.save(Path(sys.argv[1]), 2, {"a": torch.zeros(100_000)})
"""


def run_program(program, folder):
    """Run a Python program in a new process with a folder as its argument."""
    paths = [Path(elmo.__file__).parents[1], Path(__file__).parents[1]]
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_previous_checkpoint_is_loadable_after_a_killed_write(tmp_path):
    path = checkpoint.save(tmp_path, 1, content(1))
    assert run_program(KILL_WHILE_WRITING, tmp_path).returncode == -9
    assert len(list(tmp_path.iterdir())) == 2
    assert same(checkpoint.load_newest(tmp_path), content(1))
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------------------------ full disk

FULL_DISK = """
import json, resource, signal, sys, torch
from pathlib import Path
from elmo.errors import FormatError, OutputError
from elmo.train import checkpoint

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
messages = []
for limit in (0, 100, 2000, 8000, 40000, 300000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        checkpoint.save(Path(sys.argv[1]), 3, {"a": [torch.ones(9000) for _ in range(10)]})
    except OutputError as error:
        messages.append(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(json.dumps(messages))
"""


def test_existing_checkpoints_are_loadable_after_a_full_disk(tmp_path):
    """A file size limit makes the write fail at several offsets, in a separate process."""
    for step in (1, 2):
        checkpoint.save(tmp_path, step, content(step))
    before = snapshot(tmp_path)
    run = run_program(FULL_DISK, tmp_path)
    assert run.returncode == 0, run.stderr
    messages = json.loads(run.stdout)
    assert len(messages) == 6
    assert all("File too large. No partial file was left" in message for message in messages)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), KeyboardInterrupt(), MemoryError()]
)
def test_existing_checkpoints_are_unchanged_after_a_failed_save(tmp_path, monkeypatch, error):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, content(step))
    before = snapshot(tmp_path)

    def interrupted(_, file):
        file.write(b"half")
        raise error

    monkeypatch.setattr(torch, "save", interrupted)
    expected = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected):
        checkpoint.save(tmp_path, 3, content(3))
    assert snapshot(tmp_path) == before


def test_save_raises_for_objects_that_cannot_be_pickled(tmp_path):
    """A programming error is not reported as a disk error."""
    with pytest.raises((AttributeError, pickle.PicklingError)):
        checkpoint.save(tmp_path, 3, {"a": lambda: None})
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------ safe loading


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def test_load_newest_does_not_execute_pickled_code(tmp_path):
    trap = tmp_path / "executed"
    checkpoint.save(tmp_path, 1, {"a": Malicious(str(trap))})
    with pytest.raises(pickle.UnpicklingError):
        checkpoint.load_newest(tmp_path)
    assert not trap.exists()


@pytest.mark.parametrize("damaged", [{}, {"rows": None}, {"rows": {"sum": 1}}])
def test_entry_rejects_a_missing_entry_and_one_of_another_type(damaged):
    valid = content(1)
    assert checkpoint.entry(valid, "rows", list) is valid["rows"]
    with pytest.raises(FormatError, match=r"The entry rows of the checkpoint .*expected list"):
        checkpoint.entry(damaged, "rows", list)
