"""Checkpoints: whole or not at all, the torn told from the whole, and no code in them."""

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
from elmo.errors import OutputError
from elmo.train import checkpoint


def content(step, size=100):
    generator = torch.Generator().manual_seed(step)
    return {
        "weights": {"a": torch.randn(size, generator=generator), "b": torch.arange(5) + step},
        "rows": [{"sum": torch.ones(3)}],
        "standing": {"step": step, "lowest": float("inf"), "best": [], "before": None},
        "position": {"lanes": [{"drawn": 2**40, "draw": [1, -1]}]},
    }


def same(one, other):
    """Whether two contents are equal to the last bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def snapshot(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# ------------------------------------------------------------------------------------ whole


def test_nothing_yet(tmp_path):
    assert checkpoint.load_newest(tmp_path) is None
    assert checkpoint.load_newest(tmp_path / "missing") is None


def test_save_and_read(tmp_path):
    folder = tmp_path / "deep" / "checkpoints"
    path = checkpoint.save(folder, 7, content(7))
    assert path.name.startswith("step-000000007-")
    assert [each.name for each in folder.iterdir()] == [path.name]
    assert same(checkpoint.load_newest(folder), content(7))


def test_the_last_two_are_kept(tmp_path):
    paths = [checkpoint.save(tmp_path, step, content(step)) for step in (1, 2, 10, 9_999_999_999)]
    assert sorted(tmp_path.iterdir()) == sorted(paths[-2:])
    assert same(checkpoint.load_newest(tmp_path), content(9_999_999_999))


def test_a_step_saved_again(tmp_path):
    """The last one written counts, whatever its checksum, and the step before is still there."""
    before = checkpoint.save(tmp_path, 1, content(1))
    for number in range(6):
        path = checkpoint.save(tmp_path, 2, {"number": number})
        assert sorted(tmp_path.iterdir()) == sorted([before, path])
        assert checkpoint.load_newest(tmp_path) == {"number": number}


def test_other_files_stay(tmp_path):
    for name in ("step-5.pt", "step-000000005-0000000g.pt", "notes.txt"):
        (tmp_path / name).write_text("mine")
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, step, content(step))
    assert same(checkpoint.load_newest(tmp_path), content(3))
    assert len(list(tmp_path.iterdir())) == 5


# ------------------------------------------------------------------------------------ torn


def truncated(data):
    return data[: len(data) // 2]


def without_the_last_byte(data):
    return data[:-1]


def flipped(data):
    # In the middle of a tensor, where the archive itself would not notice.
    place = data.index(content(2)["weights"]["a"].numpy().tobytes()) + 11
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def longer(data):
    return data + b"\0"


def empty(data):
    return b""


@pytest.mark.parametrize("damage", [truncated, without_the_last_byte, flipped, longer, empty])
def test_the_one_before_a_torn_one(tmp_path, caplog, damage):
    first = checkpoint.save(tmp_path, 1, content(1))
    second = checkpoint.save(tmp_path, 2, content(2))
    second.write_bytes(damage(second.read_bytes()))
    with caplog.at_level(logging.WARNING):
        found = checkpoint.load_newest(tmp_path)
    assert same(found, content(1))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{second} is torn or damaged" in caplog.text
    assert list(tmp_path.iterdir()) == [first]
    # The next one is written as if the torn one had never been.
    checkpoint.save(tmp_path, 2, content(2))
    assert same(checkpoint.load_newest(tmp_path), content(2))


def test_all_torn(tmp_path, caplog):
    for step in (1, 2):
        path = checkpoint.save(tmp_path, step, content(step))
        path.write_bytes(b"")
    assert checkpoint.load_newest(tmp_path) is None
    assert len(caplog.records) == 2
    assert not list(tmp_path.iterdir())


def test_a_renamed_one_is_torn(tmp_path):
    path = checkpoint.save(tmp_path, 1, content(1))
    path.rename(path.with_name("step-000000001-00000000.pt"))
    assert checkpoint.load_newest(tmp_path) is None


def test_what_a_killed_write_left(tmp_path, caplog):
    path = checkpoint.save(tmp_path, 1, content(1))
    for name in ("step-000000002.writing", ".step-000000002.writing.77.partial"):
        (tmp_path / name).write_bytes(path.read_bytes()[:50])
    assert same(checkpoint.load_newest(tmp_path), content(1))
    assert list(tmp_path.iterdir()) == [path]
    assert not caplog.records


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from elmo.train import checkpoint

class Slow:
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

checkpoint._Checksummed = Slow
checkpoint.save(Path(sys.argv[1]), 2, {"a": torch.zeros(100_000)})
"""


def in_a_process(program, folder):
    """Run a program that gets a folder, with the package at hand."""
    paths = [Path(elmo.__file__).parents[1], Path(__file__).parents[1]]
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_killed_while_writing(tmp_path):
    path = checkpoint.save(tmp_path, 1, content(1))
    assert in_a_process(KILLED, tmp_path).returncode == -9
    assert len(list(tmp_path.iterdir())) == 2
    assert same(checkpoint.load_newest(tmp_path), content(1))
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------------------------ full disk

FULL_DISK = """
import json, resource, signal, sys, torch
from pathlib import Path
from elmo.errors import OutputError
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


def test_a_full_disk(tmp_path):
    """The system stops the writing at several places; done in a process of its own."""
    for step in (1, 2):
        checkpoint.save(tmp_path, step, content(step))
    before = snapshot(tmp_path)
    run = in_a_process(FULL_DISK, tmp_path)
    assert run.returncode == 0, run.stderr
    messages = json.loads(run.stdout)
    assert len(messages) == 6
    assert all("File too large; nothing was left behind" in message for message in messages)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), KeyboardInterrupt(), MemoryError()]
)
def test_an_accident_leaves_all_as_it_was(tmp_path, monkeypatch, error):
    for step in (1, 2):
        checkpoint.save(tmp_path, step, content(step))
    before = snapshot(tmp_path)

    def torn(_, file):
        file.write(b"half")
        raise error

    monkeypatch.setattr(torch, "save", torn)
    kind = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(kind):
        checkpoint.save(tmp_path, 3, content(3))
    assert snapshot(tmp_path) == before


def test_what_cannot_be_saved(tmp_path):
    """An error of the program itself is not taken for one of the disk."""
    with pytest.raises((AttributeError, pickle.PicklingError)):
        checkpoint.save(tmp_path, 3, {"a": lambda: None})
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------ no code


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def test_no_code_is_run(tmp_path):
    trap = tmp_path / "sprung"
    checkpoint.save(tmp_path, 1, {"a": Malicious(str(trap))})
    with pytest.raises(pickle.UnpicklingError):
        checkpoint.load_newest(tmp_path)
    assert not trap.exists()
