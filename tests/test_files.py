"""Tests of atomic writing: files and folders are either written completely or not at all."""

import os
import platform
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from elmo.errors import OutputError
from elmo.files import atomic_folder, atomic_path, clear_partials_of, write_folder

FAILURES = [KeyboardInterrupt, MemoryError, ValueError("broken"), OSError(28, "No space left")]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_a(path):
    path.write_bytes(b"a")


def write_b(path):
    path.write_bytes(b"b")


class FailingWriter:
    """Writer that raises an error after writing a part of the file."""

    def __init__(self, error):
        self.error = error

    def __call__(self, path):
        path.write_bytes(b"half")
        raise self.error


class TestAtomicPath:
    @pytest.mark.parametrize("older", [None, b"older"])
    def test_atomic_path_creates_the_file_at_the_end_of_the_block(self, tmp_path, older):
        path = tmp_path / "vectors.h5"
        if older is not None:
            path.write_bytes(older)
        with atomic_path(path) as partial:
            assert partial.parent == tmp_path
            assert partial != path
            partial.write_bytes(b"new")
            assert (path.read_bytes() if path.exists() else None) == older
        assert path.read_bytes() == b"new"
        assert names(tmp_path) == ["vectors.h5"]

    @pytest.mark.parametrize("older", [None, b"older"])
    @pytest.mark.parametrize("error", FAILURES, ids=repr)
    def test_exception_in_the_block_leaves_no_partial_file(self, tmp_path, error, older):
        path = tmp_path / "vectors.h5"
        if older is not None:
            path.write_bytes(older)
        expected = OutputError if isinstance(error, OSError) else type(error)
        if isinstance(error, type):
            expected = error
        with pytest.raises(expected) as caught, atomic_path(path) as partial:
            FailingWriter(error)(partial)
        if expected is OutputError:
            assert str(path) in str(caught.value)
            assert "No space left. No partial file was left." in str(caught.value)
        assert names(tmp_path) == ([] if older is None else ["vectors.h5"])
        assert older is None or path.read_bytes() == older

    def test_block_without_any_output_raises_output_error(self, tmp_path):
        with pytest.raises(OutputError, match="Cannot write"), atomic_path(tmp_path / "x"):
            pass
        assert names(tmp_path) == []

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("folder", "it is a folder. Specify a file path"),
            ("missing/x", "the folder .*missing does not exist. Create it first"),
            ("file/x", "the folder .*file does not exist. Create it first"),
            ("x" * 300, "File name too long"),
            ("x" * 250, "File name too long"),
        ],
    )
    def test_atomic_path_rejects_invalid_file_path(self, tmp_path, name, message):
        (tmp_path / "folder").mkdir()
        (tmp_path / "file").touch()
        with (
            pytest.raises(OutputError, match=f"Cannot write .*{message}"),
            atomic_path(tmp_path / name) as partial,
        ):
            partial.write_bytes(b"x")
        assert names(tmp_path) == ["file", "folder"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_missing_write_permission_raises_output_error(self, tmp_path):
        tmp_path.chmod(0o500)
        with (
            pytest.raises(OutputError, match="Permission denied"),
            atomic_path(tmp_path / "x") as partial,
        ):
            partial.write_bytes(b"x")
        with pytest.raises(OutputError, match="Permission denied"):
            write_folder(tmp_path / "model", {"a": write_a})
        tmp_path.chmod(0o700)
        assert names(tmp_path) == []


class TestAtomicFolder:
    @pytest.mark.parametrize("older", [None, "empty", "full"])
    def test_atomic_folder_creates_the_folder_at_the_end_of_the_block(self, tmp_path, older):
        folder = tmp_path / "corpus"
        if older is not None:
            folder.mkdir()
        if older == "full":
            (folder / "old").write_bytes(b"old")
        with atomic_folder(folder) as partial:
            (partial / "sub").mkdir()
            (partial / "sub" / "new").write_bytes(b"new")
            assert not (folder / "sub").exists()
        assert names(tmp_path) == ["corpus"]
        assert names(folder) == ["sub"]
        assert (folder / "sub" / "new").read_bytes() == b"new"

    @pytest.mark.parametrize("older", [True, False])
    @pytest.mark.parametrize("error", FAILURES, ids=repr)
    def test_exception_in_the_block_leaves_existing_folder_unchanged(self, tmp_path, error, older):
        folder = tmp_path / "corpus"
        if older:
            folder.mkdir()
            (folder / "old").write_bytes(b"old")
        expected = OutputError if isinstance(error, OSError) else error
        expected = expected if isinstance(expected, type) else type(expected)
        with pytest.raises(expected), atomic_folder(folder) as partial:
            FailingWriter(error)(partial / "half")
        assert names(tmp_path) == (["corpus"] if older else [])
        assert not older or names(folder) == ["old"]

    def test_existing_folder_is_restored_if_the_final_rename_fails(self, tmp_path, monkeypatch):
        folder = tmp_path / "corpus"
        folder.mkdir()
        (folder / "old").write_bytes(b"old")
        rename = Path.rename

        def fail(path, target):
            if path.name.endswith(".partial"):
                raise OSError(5, "Input/output error")
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", fail)
        with (
            pytest.raises(OutputError, match=r"Input/output error. No partial files were left"),
            atomic_folder(folder) as partial,
        ):
            (partial / "new").write_bytes(b"new")
        assert names(tmp_path) == ["corpus"]
        assert names(folder) == ["old"]

    def test_temporary_folder_of_a_killed_process_is_replaced(self, tmp_path):
        leftover = tmp_path / f".corpus.{os.getpid()}.partial"
        leftover.mkdir()
        (leftover / "half").write_bytes(b"half")
        with atomic_folder(tmp_path / "corpus") as partial:
            (partial / "new").write_bytes(b"new")
        assert names(tmp_path / "corpus") == ["new"]
        assert names(tmp_path) == ["corpus"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("file", "a file of that name exists"),
            ("no/where", "no does not exist. Create it first"),
            ("x" * 300, "File name too long"),
        ],
    )
    def test_invalid_folder_path_raises_output_error(self, tmp_path, name, message):
        (tmp_path / "file").write_bytes(b"mine")
        with (
            pytest.raises(OutputError, match=f"Cannot write the folder .*{message}"),
            atomic_folder(tmp_path / name),
        ):
            pass
        assert names(tmp_path) == ["file"]


class TestWriteFolder:
    @pytest.mark.parametrize("depth", ["model", "runs/7/model"])
    def test_write_folder_creates_missing_parent_folders(self, tmp_path, depth):
        write_folder(tmp_path / depth, {"a": write_a, "b": write_b, "c": None})
        assert names(tmp_path / depth) == ["a", "b"]
        assert (tmp_path / depth / "b").read_bytes() == b"b"

    def test_write_folder_replaces_or_removes_named_files_and_keeps_others(self, tmp_path):
        for name in ("a", "c", "mine.txt"):
            (tmp_path / name).write_bytes(b"old")
        (tmp_path / "sub").mkdir()
        write_folder(tmp_path, {"a": write_a, "b": write_b, "c": None, "d": None})
        assert names(tmp_path) == ["a", "b", "mine.txt", "sub"]
        assert (tmp_path / "a").read_bytes() == b"a"
        assert (tmp_path / "mine.txt").read_bytes() == b"old"

    @pytest.mark.parametrize("error", FAILURES, ids=repr)
    @pytest.mark.parametrize("older", [True, False])
    def test_error_while_writing_the_last_file_leaves_the_folder_unchanged(
        self, tmp_path, error, older
    ):
        folder = tmp_path / "model"
        if older:
            write_folder(folder, {"a": write_b, "c": write_b})
        expected = error if isinstance(error, type) else type(error)
        expected = OutputError if expected is OSError else expected
        with pytest.raises(expected) as caught:
            write_folder(folder, {"a": write_a, "c": None, "b": FailingWriter(error)})
        if expected is OutputError:
            assert str(caught.value) == (
                f"Cannot write the folder {folder}: No space left. No partial files were left."
            )
        assert folder.exists() == older
        if older:
            assert names(folder) == ["a", "c"]
            assert (folder / "a").read_bytes() == b"b"

    @pytest.mark.parametrize("name", ["a", "b", "c"])
    def test_write_folder_rejects_a_file_name_that_is_an_existing_folder(self, tmp_path, name):
        (tmp_path / name).mkdir()
        with pytest.raises(OutputError, match=f"{name} in it is a folder, not a file"):
            write_folder(tmp_path, {"a": write_a, "b": write_b, "c": None})
        assert names(tmp_path) == [name]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("file", "a file of that name exists"),
            ("file/model", "Not a directory"),
            ("x" * 300, "File name too long"),
        ],
    )
    def test_invalid_folder_path_raises_output_error(self, tmp_path, name, message):
        (tmp_path / "file").write_bytes(b"mine")
        with pytest.raises(OutputError, match=f"Cannot write the folder .*{message}"):
            write_folder(tmp_path / name, {"a": write_a})
        assert names(tmp_path) == ["file"]
        assert (tmp_path / "file").read_bytes() == b"mine"

    def test_temporary_folder_of_a_killed_process_only_fails_the_next_write(self, tmp_path):
        leftover = tmp_path / f".{os.getpid()}.partial"
        leftover.mkdir()
        (leftover / "a").write_bytes(b"half")
        with pytest.raises(OutputError, match="File exists"):
            write_folder(tmp_path, {"a": write_a})
        write_folder(tmp_path, {"a": write_a})
        assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "write",
    [lambda path: _write_file(path), lambda path: write_folder(path.parent, {path.name: write_a})],
    ids=["file", "folder"],
)
def test_files_are_flushed_before_they_are_renamed(tmp_path, monkeypatch, write):
    (tmp_path / "older").write_bytes(b"older")

    def fail(number):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match=r"Input/output error. No partial files? (was|were) left"):
        write(tmp_path / "older")
    assert names(tmp_path) == ["older"]
    assert (tmp_path / "older").read_bytes() == b"older"


def test_failed_write_on_full_disk_leaves_existing_file_unchanged(tmp_path):
    """A file size limit simulates the full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    (tmp_path / "older").write_bytes(b"older")

    def fill(path):
        path.write_bytes(bytes(100_000))

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        errors = []
        for write in (_write_file, lambda path: write_folder(path.parent, {"older": fill})):
            with pytest.raises(OutputError) as caught:
                write(tmp_path / "older")
            errors.append(str(caught.value))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert all("File too large. No partial file" in error for error in errors)
    assert names(tmp_path) == ["older"]
    assert (tmp_path / "older").read_bytes() == b"older"


def _write_file(path: Path) -> None:
    with atomic_path(path) as partial:
        partial.write_bytes(bytes(100_000))


def test_atomic_folder_only_removes_temporary_folders_of_killed_processes(tmp_path):
    process = subprocess.Popen(["sleep", "60"])
    dead, alive = (tmp_path / f".corpus.{number}.partial" for number in (2**22 + 1, process.pid))
    for leftover in (dead, alive):
        leftover.mkdir()
        (leftover / "half").write_text("half")
    with atomic_folder(tmp_path / "corpus") as partial:
        (partial / "whole").write_text("whole")
    process.kill()
    process.wait()
    assert not dead.exists()
    assert alive.exists()
    assert (tmp_path / "corpus" / "whole").exists()


def test_clear_partials_of_only_removes_files_of_killed_processes_on_this_machine(tmp_path):
    path = tmp_path / "a[1].h5"
    child = subprocess.Popen(["true"])
    child.wait()
    here = platform.node()
    dead = tmp_path / f".{path.name}.{here}-{child.pid}-00ff.partial"
    others = [
        tmp_path / f".{path.name}.{here}-{os.getpid()}-00ff.partial",
        tmp_path / f".{path.name}.elsewhere-{child.pid}-00ff.partial",
        tmp_path / f".b.h5.{here}-{child.pid}-00ff.partial",
    ]
    for leftover in (dead, *others):
        leftover.write_bytes(b"half")
    clear_partials_of(path)
    assert not dead.exists()
    assert all(leftover.exists() for leftover in others)
