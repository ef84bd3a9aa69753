"""Tests of compiling, caching and loading the native library."""

import os
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elmo.kernels import native_compiler, native_library


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """Use an empty cache folder and forget any loaded library."""
    monkeypatch.delenv("ELMO_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Compiling is faster without optimization, and these tests compute nothing.
    monkeypatch.setattr(native_compiler, "FLAGS", (*native_compiler.FLAGS, "-O0"))
    native_library._library.cache_clear()
    yield tmp_path
    native_library._library.cache_clear()


def write_script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


needs_compiler = pytest.mark.skipif(native_compiler.find_compiler() is None, reason="no C compiler")


@needs_compiler
def test_native_library_is_compiled_only_once(empty_cache, monkeypatch):
    assert native_library.library() is not None
    files = list(native_library.kernel_folder().iterdir())
    assert [path.suffix for path in files] == [".so"]
    written = files[0].stat().st_mtime_ns
    native_library._library.cache_clear()
    assert native_library.library() is not None
    assert files[0].stat().st_mtime_ns == written
    assert list(native_library.kernel_folder().iterdir()) == files


@needs_compiler
def test_native_library_is_recompiled_if_the_source_changes(empty_cache, monkeypatch):
    native_library.library()
    changed = empty_cache / "native.c"
    changed.write_text(native_compiler.SOURCE.read_text() + "/* changed */\n")
    monkeypatch.setattr(native_compiler, "SOURCE", changed)
    native_library._library.cache_clear()
    assert native_library.library() is not None
    assert len(list(native_library.kernel_folder().iterdir())) == 2


@needs_compiler
@pytest.mark.skipif(os.geteuid() == 0, reason="root can write to any folder")
def test_native_library_loads_if_the_cache_folder_is_not_writable(empty_cache):
    (empty_cache / "cache").mkdir(mode=0o500)
    assert native_library.library() is not None


@needs_compiler
def test_native_library_loads_if_the_cache_folder_is_a_file(empty_cache):
    (empty_cache / "cache").write_text("")
    assert native_library.library() is not None


def test_native_library_is_none_without_a_compiler(empty_cache, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert native_library.library() is None


def test_native_library_is_none_if_disabled_by_environment_variable(empty_cache, monkeypatch):
    monkeypatch.setenv(native_library.SWITCH, "0")
    assert native_library.library() is None


def test_compiler_failure_is_logged_as_a_warning(empty_cache, monkeypatch, caplog):
    monkeypatch.setenv("CC", write_script(empty_cache / "cc", 'echo "internal error" >&2; exit 1'))
    assert native_library.library() is None
    assert "could not be compiled" in caplog.text
    caplog.clear()
    monkeypatch.setenv(
        "CC",
        write_script(
            empty_cache / "cc",
            'if [ "$1" = --version ]; then echo 1; exit 0; fi; echo "unknown flag" >&2; exit 1',
        ),
    )
    native_library._library.cache_clear()
    assert native_library.library() is None
    assert "unknown flag" in caplog.text
    assert "Using the slower PyTorch kernels" in caplog.text
    assert not list(native_library.kernel_folder().iterdir())


def test_warning_is_logged_if_the_compiled_library_cannot_be_loaded(
    empty_cache, monkeypatch, caplog
):
    write_output = 'for last; do :; done; echo "not a library" > "$last"'
    monkeypatch.setenv(
        "CC",
        write_script(
            empty_cache / "cc", f'if [ "$1" = --version ]; then echo 1; exit 0; fi; {write_output}'
        ),
    )
    assert native_library.library() is None
    assert "could not be compiled" in caplog.text


@needs_compiler
def test_damaged_cached_library_is_rebuilt(empty_cache, caplog):
    flags = (*native_compiler.FLAGS, native_library._cpu_flag())
    path = (
        native_library.kernel_folder()
        / f"native-{native_library._fingerprint(native_compiler.find_compiler(), flags)}.so"
    )
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(b"not a library")
    path.chmod(0o600)
    assert native_library.library() is not None
    assert path.stat().st_size > 1000
    assert not caplog.text


@needs_compiler
def test_compiler_command_can_have_arguments(empty_cache, monkeypatch):
    monkeypatch.setenv("CC", f"{native_compiler.find_compiler()[0]} -g0")
    native_library._library.cache_clear()
    assert native_library.library() is not None


@needs_compiler
def test_concurrent_threads_get_the_same_native_library(empty_cache, caplog):
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(native_library.library) for _ in range(4)]
    assert len({id(future.result()) for future in futures}) == 1
    assert futures[0].result() is not None
    assert not caplog.text


@needs_compiler
def test_compilation_leaves_no_temporary_files(empty_cache, monkeypatch):
    (empty_cache / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(empty_cache / "temporary"))
    (empty_cache / "cache").write_text("")
    assert native_library.library() is not None
    assert not list((empty_cache / "temporary").iterdir())


# ------------------------------------------------------------------ safety


@needs_compiler
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_kernel_folder_that_others_can_write_to_is_not_used(empty_cache, caplog, mode):
    folder = native_library.kernel_folder()
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert native_library.library() is not None
    assert list(folder.iterdir()) == []
    assert f"{folder} is not used, because others can write to it. " in caplog.text
    assert f"Run: chmod go-w '{folder}'" in caplog.text


@needs_compiler
def test_kernel_folder_of_another_user_is_not_used(empty_cache, caplog, monkeypatch):
    native_library.kernel_folder().mkdir(parents=True, mode=0o700)
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert native_library.library() is not None
    assert "is not used, because it belongs to another user" in caplog.text


@needs_compiler
def test_library_file_that_others_can_write_to_is_not_used(empty_cache, caplog):
    native_library.library()
    (file,) = native_library.kernel_folder().iterdir()
    file.chmod(0o666)
    native_library._library.cache_clear()
    assert native_library.library() is not None
    assert f"{file} is not used" in caplog.text


@needs_compiler
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#define ABI_VERSION 2", "#define ABI_VERSION 3"),
        ("} product_args;", "int64_t unexpected; } product_args;"),
        ("} convolution_args;", "int64_t unexpected; } convolution_args;"),
        ("} lstm_args;", "int64_t unexpected; } lstm_args;"),
    ],
)
def test_library_with_another_abi_is_rejected(empty_cache, monkeypatch, caplog, old, new):
    text = native_compiler.SOURCE.read_text()
    assert old in text
    changed = empty_cache / "native.c"
    changed.write_text(text.replace(old, new))
    monkeypatch.setattr(native_compiler, "SOURCE", changed)
    assert native_library.library() is None
    assert "has ABI version and structure sizes" in caplog.text


OTHER_ABI = """
void get_library_info(long *x) { x[0] = 7; }
void checksum(void) {}
void instructions(void) {}
"""
LOAD = """
from elmo.kernels import native_compiler, native_library
native_compiler.FLAGS = (*native_compiler.FLAGS, "-O0")
print(native_library.library() is not None)
"""


@needs_compiler
def test_cached_library_with_another_abi_is_recompiled_and_used_by_the_same_process(tmp_path):
    # In a process of its own: the loader remembers the libraries of this one.
    def load():
        environment = {**os.environ, "ELMO_HOME": str(tmp_path / "home")}
        command = [sys.executable, "-c", LOAD]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    load()
    (file,) = (tmp_path / "home" / "kernels").iterdir()
    (tmp_path / "other.c").write_text(OTHER_ABI)
    file.unlink()
    command = [*native_compiler.find_compiler(), "-shared", "-fPIC", str(tmp_path / "other.c")]
    subprocess.run([*command, "-o", str(file)], check=True)
    file.chmod(0o700)
    done = load()
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert list(file.parent.iterdir()) == [file]
    native_compiler.load_library(file)


@needs_compiler
def test_compiled_library_is_private_with_any_umask(empty_cache, caplog):
    before = os.umask(0o002)
    try:
        assert native_library.library() is not None
        native_library._library.cache_clear()
        assert native_library.library() is not None
    finally:
        os.umask(before)
    assert not caplog.text


@needs_compiler
def test_kernel_folder_that_is_a_link_is_not_used_and_named_as_such(empty_cache, caplog):
    folder = native_library.kernel_folder()
    (empty_cache / "elsewhere").mkdir(mode=0o700)
    folder.parent.mkdir(parents=True)
    folder.symlink_to(empty_cache / "elsewhere")
    assert native_library.library() is not None
    assert list(folder.iterdir()) == []
    assert f"{folder} is not used, because it is a symbolic link" in caplog.text
    assert "chmod" not in caplog.text


@needs_compiler
def test_cache_folder_can_be_a_link(empty_cache, caplog):
    (empty_cache / "elsewhere").mkdir(mode=0o700)
    (empty_cache / "cache").symlink_to(empty_cache / "elsewhere")
    assert native_library.library() is not None
    assert len(list(native_library.kernel_folder().iterdir())) == 1
    assert not caplog.text


@needs_compiler
@pytest.mark.parametrize(("mode", "is_used"), [(0o777, False), (0o1777, True), (0o775, True)])
def test_cache_folder_that_every_user_can_write_to_is_not_used(empty_cache, caplog, mode, is_used):
    folder = native_library.kernel_folder()
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(mode)
    assert native_library.library() is not None
    assert len(list(folder.iterdir())) == is_used
    message = f"{folder.parent} is not used for compiled kernels, because every user can write"
    assert (message in caplog.text) == (not is_used)


def test_cache_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(
        Path, "stat", lambda path: os.stat_result((0o700, 0, 0, 0, 12345, *[0] * 5))
    )
    assert "belongs to another user" in native_library._folder_problem(tmp_path)
