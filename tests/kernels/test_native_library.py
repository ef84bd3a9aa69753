"""The library in C: compiled once, found again, and done without where it cannot be had."""

import os
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from elmo.kernels import native_library


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An empty cache folder, and nothing loaded yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        native_library, "FLAGS", (*native_library.FLAGS, "-O0")
    )  # nothing is computed here
    native_library._library.cache_clear()
    yield tmp_path
    native_library._library.cache_clear()


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


needs_compiler = pytest.mark.skipif(native_library._compiler() is None, reason="no C compiler")


@needs_compiler
def test_it_is_compiled_once(fresh, monkeypatch):
    assert native_library.library() is not None
    files = list(native_library.cache_folder().iterdir())
    assert [path.suffix for path in files] == [".so"]
    written = files[0].stat().st_mtime_ns
    native_library._library.cache_clear()
    assert native_library.library() is not None
    assert files[0].stat().st_mtime_ns == written
    assert list(native_library.cache_folder().iterdir()) == files


@needs_compiler
def test_another_source_is_another_library(fresh, monkeypatch):
    native_library.library()
    changed = fresh / "native.c"
    changed.write_text(native_library.SOURCE.read_text() + "/* changed */\n")
    monkeypatch.setattr(native_library, "SOURCE", changed)
    native_library._library.cache_clear()
    assert native_library.library() is not None
    assert len(list(native_library.cache_folder().iterdir())) == 2


@needs_compiler
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written(fresh):
    (fresh / "cache").mkdir(mode=0o500)
    assert native_library.library() is not None


@needs_compiler
def test_a_file_where_the_cache_folder_should_be(fresh):
    (fresh / "cache").write_text("")
    assert native_library.library() is not None


def test_without_a_compiler(fresh, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native_library.library() is None


def test_it_can_be_switched_off(fresh, monkeypatch):
    monkeypatch.setenv(native_library.SWITCH, "0")
    assert native_library.library() is None


def test_a_compiler_that_fails(fresh, monkeypatch, caplog):
    monkeypatch.setenv("CC", script(fresh / "cc", 'echo "no vectors today" >&2; exit 1'))
    assert native_library.library() is None
    assert "could not be built" in caplog.text
    caplog.clear()
    monkeypatch.setenv(
        "CC",
        script(
            fresh / "cc",
            'if [ "$1" = --version ]; then echo 1; exit 0; fi; echo "no vectors" >&2; exit 1',
        ),
    )
    native_library._library.cache_clear()
    assert native_library.library() is None
    assert "no vectors" in caplog.text
    assert "the plain ones are used" in caplog.text
    assert not list(native_library.cache_folder().iterdir())


def test_a_library_that_cannot_be_loaded(fresh, monkeypatch, caplog):
    writes = 'for last; do :; done; echo "no library" > "$last"'
    monkeypatch.setenv(
        "CC", script(fresh / "cc", f'if [ "$1" = --version ]; then echo 1; exit 0; fi; {writes}')
    )
    assert native_library.library() is None
    assert "could not be built" in caplog.text


@needs_compiler
def test_a_damaged_library_is_made_again(fresh, caplog):
    flags = (*native_library.FLAGS, native_library._tuned())
    path = (
        native_library.cache_folder()
        / f"native-{native_library._fingerprint(native_library._compiler(), flags)}.so"
    )
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no library")
    assert native_library.library() is not None
    assert path.stat().st_size > 1000
    assert not caplog.text


@needs_compiler
def test_a_compiler_with_arguments(fresh, monkeypatch):
    monkeypatch.setenv("CC", f"{native_library._compiler()[0]} -g0")
    native_library._library.cache_clear()
    assert native_library.library() is not None


@needs_compiler
def test_threads_that_come_at_the_same_time(fresh, caplog):
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(native_library.library) for _ in range(4)]
    assert len({id(one.result()) for one in found}) == 1
    assert found[0].result() is not None
    assert not caplog.text


@needs_compiler
def test_nothing_is_left_in_the_folder_for_temporary_files(fresh, monkeypatch):
    (fresh / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(fresh / "temporary"))
    (fresh / "cache").write_text("")
    assert native_library.library() is not None
    assert not list((fresh / "temporary").iterdir())
