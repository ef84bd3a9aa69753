"""Tests of native libraries that were compiled in advance for several CPUs."""

import ctypes
import os
import platform
import subprocess
import sys

import pytest

from elmo.kernels import native_compiler, native_library, prebuilt_libraries
from elmo.kernels.prebuilt_libraries import TARGETS, compile_all, load_prebuilt

pytestmark = [
    pytest.mark.skipif(native_compiler.find_compiler() is None, reason="no C compiler"),
    pytest.mark.skipif(platform.machine() not in TARGETS, reason="machine type not supported"),
]
NAMES = [target.name for target in TARGETS.get(platform.machine(), ())]
# What each library reports about its instructions; AMX also needs the permission of the kernel.
INSTRUCTIONS = {
    "amx": "AMX",
    "avx512-bf16": "AVX512-BF16",
    "avx512-vnni": "AVX512-VNNI",
    "avx2": "float32 vectors",
    "sse2": "float32 vectors",
    "dot": "ARM dot products",
    "neon": "float32 vectors",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with all libraries, compiled without optimization."""
    path = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_compiler, "FLAGS", (*native_compiler.FLAGS, "-O0"))
        compile_all(path)
    return path


def features_of(name):
    (target,) = (target for target in TARGETS[platform.machine()] if target.name == name)
    return b"flags : " + b" ".join(sorted(target.features))


def is_for_this_cpu(name):
    return set(features_of(name).split()) <= set(native_compiler.cpu_features().split()) | {
        b"flags"
    }


def test_all_targets_are_compiled_and_readable_by_everyone(folder):
    files = sorted(folder.iterdir())
    assert sorted(path.stem.split("-", 2)[2] for path in files) == sorted(NAMES)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o755}


def test_best_library_for_this_cpu_is_loaded(folder, caplog):
    best = next(name for name in NAMES if is_for_this_cpu(name))
    loaded = load_prebuilt(folder)
    assert loaded.instructions().decode().startswith(INSTRUCTIONS[best])
    assert not caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_library_is_chosen_by_the_features_of_the_cpu(folder, monkeypatch, name):
    chosen = []
    monkeypatch.setattr(prebuilt_libraries, "cpu_features", lambda: features_of(name))
    monkeypatch.setattr(prebuilt_libraries, "load_library", chosen.append)
    load_prebuilt(folder)
    assert [path.stem.split("-", 2)[2] for path in chosen] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_library_has_the_instructions_of_its_target(folder, name):
    if not is_for_this_cpu(name):
        pytest.skip("this CPU lacks the instructions")
    (path,) = folder.glob(f"native-*-{name}.so")
    loaded = native_compiler.load_library(path)
    assert loaded.instructions().decode().startswith(INSTRUCTIONS[name])


def test_library_of_another_version_is_not_loaded(folder, monkeypatch, tmp_path, caplog):
    changed = tmp_path / "native.c"
    changed.write_text(native_compiler.SOURCE.read_text() + "/* changed */\n")
    monkeypatch.setattr(native_compiler, "SOURCE", changed)
    assert load_prebuilt(folder) is None
    assert "has no native kernels of this version for this CPU" in caplog.text


def test_damaged_library_is_reported_and_the_next_one_is_loaded(folder, tmp_path, caplog):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    best = next(name for name in NAMES if is_for_this_cpu(name))
    (damaged,) = tmp_path.glob(f"native-*-{best}.so")
    damaged.write_bytes(b"not a library")
    assert isinstance(load_prebuilt(tmp_path), ctypes.CDLL)
    assert f"{damaged} could not be loaded" in caplog.text


def test_missing_compiler_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(OSError, match=r"There is no C compiler\. Install gcc or clang\."):
        compile_all(tmp_path)


PROGRAM = """
from elmo.kernels.native_library import kernel_folder, library
print(library().instructions().decode(), kernel_folder().exists())
"""


def test_library_is_loaded_from_the_folder_without_a_compiler_or_a_cache(folder, tmp_path):
    environment = {
        **os.environ,
        prebuilt_libraries.FOLDER: str(folder),
        "CC": "no-such-compiler",
        "ELMO_HOME": str(tmp_path / "home"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.split()[-1] == "False"


def test_empty_folder_falls_back_to_the_compiler(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(native_compiler, "FLAGS", (*native_compiler.FLAGS, "-O0"))
    monkeypatch.setenv(prebuilt_libraries.FOLDER, str(tmp_path))
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    native_library._library.cache_clear()
    try:
        assert native_library.library() is not None
    finally:
        native_library._library.cache_clear()
    assert "has no native kernels" in caplog.text


def test_command_prints_the_files_and_rejects_wrong_arguments(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(native_compiler, "FLAGS", (*native_compiler.FLAGS, "-O0"))
    monkeypatch.setattr(sys, "argv", ["prebuilt_libraries", str(tmp_path)])
    prebuilt_libraries.main()
    assert len(capsys.readouterr().out.splitlines()) == len(NAMES)
    monkeypatch.setattr(sys, "argv", ["prebuilt_libraries"])
    with pytest.raises(SystemExit, match="Usage"):
        prebuilt_libraries.main()
