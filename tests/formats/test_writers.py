"""Tests that both model writers are atomic: after a failure the previous model is intact."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from builders import VOCABULARY
from conftest import random_model
from safetensors import SafetensorError
from sources import assert_error, snapshot

import elmo
from elmo.errors import OutputError
from elmo.formats import bilm_hdf5, model_folder
from elmo.formats.load import read
from elmo.text.vocabulary import Vocabulary

WRITERS = {"native": model_folder, "hdf5": bilm_hdf5}


def model(seed):
    return random_model(seed=seed, vocabulary=Vocabulary(VOCABULARY))


@pytest.fixture(params=WRITERS)
def writer(request):
    return WRITERS[request.param]


class FailingWrite:
    """Replacement for a write function that writes half of a file and raises an error."""

    def __init__(self, error):
        self.error = error

    def __call__(self, *arguments, **named):
        path = next(item for item in arguments if isinstance(item, Path))
        path.write_bytes(b"half")
        raise self.error


@pytest.mark.parametrize("has_previous_model", [True, False])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left"), MemoryError()]
)
@pytest.mark.parametrize("failing_file", ["weights", "last file"])
def test_failed_write_leaves_previous_model_unchanged(
    tmp_path, monkeypatch, writer, error, failing_file, has_previous_model
):
    folder = tmp_path / "model"
    if has_previous_model:
        writer.write(model(1), folder)
        (folder / "mine.txt").write_text("mine")
    before = snapshot(tmp_path)
    fail = FailingWrite(error)
    if failing_file == "weights":
        monkeypatch.setattr(model_folder, "save_file", fail)
        monkeypatch.setattr(bilm_hdf5, "write_arrays", fail)
    else:
        last = "config.json" if writer is model_folder else "vocab.txt"
        write_bytes = Path.write_bytes

        def write(path, data):
            if path.name == last:
                monkeypatch.undo()
                fail(path)
            return write_bytes(path, data)

        monkeypatch.setattr(Path, "write_bytes", write)
    error_type = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(error_type) as caught:
        writer.write(model(2), folder)
    monkeypatch.undo()
    if error_type is OutputError:
        assert str(folder) in str(caught.value)
        assert "No space left. No partial files were left." in str(caught.value)
    assert snapshot(tmp_path) == before
    if has_previous_model:
        assert read(folder).weights.keys() == model(1).weights.keys()
    writer.write(model(2), folder)
    assert read(folder).config == model(2).config


def test_write_reports_safetensors_error(tmp_path, monkeypatch):
    monkeypatch.setattr(
        model_folder, "save_file", FailingWrite(SafetensorError("I/O error: no space"))
    )
    assert_error(
        lambda: model_folder.write(model(1), tmp_path / "model"),
        "Cannot write model.safetensors: I/O error: no space. No partial files were left.",
        error_type=OutputError,
    )
    assert snapshot(tmp_path) == {}


def test_interrupt_between_datasets_leaves_previous_model_unchanged(tmp_path, monkeypatch):
    """The HDF5 library keeps its own list of open files and must release this one."""
    bilm_hdf5.write(model(1), tmp_path / "model")
    before = snapshot(tmp_path)
    create, created = h5py.Group.create_dataset, []

    def create_dataset(*arguments, **named):
        created.append(arguments)
        if len(created) == 5:
            raise KeyboardInterrupt
        return create(*arguments, **named)

    monkeypatch.setattr(h5py.Group, "create_dataset", create_dataset)
    with pytest.raises(KeyboardInterrupt):
        bilm_hdf5.write(model(2), tmp_path / "model")
    monkeypatch.undo()
    assert snapshot(tmp_path) == before
    bilm_hdf5.write(model(2), tmp_path / "model")
    assert snapshot(tmp_path) != before


@pytest.mark.parametrize("name", ["file", "file/model"])
def test_write_rejects_output_path_that_is_a_file(tmp_path, writer, name):
    (tmp_path / "file").write_text("mine")
    before = snapshot(tmp_path)
    assert_error(
        lambda: writer.write(model(1), tmp_path / name),
        str(tmp_path / name),
        error_type=OutputError,
    )
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("writer", "name"),
    [
        *((model_folder, name) for name in ("model.safetensors", "README.md", "config.json")),
        *((model_folder, name) for name in ("vocab.txt", "words.json", "characters.json")),
        *((bilm_hdf5, name) for name in ("weights.hdf5", "options.json", "vocab.txt")),
    ],
)
def test_write_rejects_subfolder_with_the_name_of_a_model_file(tmp_path, writer, name):
    folder = tmp_path / "model"
    writer.write(random_model(seed=1), folder)
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    before = snapshot(tmp_path)
    assert_error(
        lambda: writer.write(random_model(seed=2), folder),
        f"{name} in it is a folder",
        error_type=OutputError,
    )
    assert snapshot(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_write_rejects_folder_without_write_permission(tmp_path, writer):
    tmp_path.chmod(0o500)
    try:
        assert_error(
            lambda: writer.write(model(1), tmp_path / "model"),
            "Permission denied",
            error_type=OutputError,
        )
    finally:
        tmp_path.chmod(0o700)
    assert snapshot(tmp_path) == {}


FULL_DISK = """
import json, resource, signal, sys
from pathlib import Path
from conftest import random_model
from elmo.errors import OutputError
from elmo.formats import bilm_hdf5, model_folder

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = Path(sys.argv[1])
messages = []
for name, writer in (("native", model_folder), ("hdf5", bilm_hdf5)):
    for limit in (0, 100, 5000, 30000):
        for target in (folder / name, folder / "new"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                writer.write(random_model(seed=2), target)
            except OutputError as error:
                messages.append(str(error))
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(json.dumps(messages))
"""


def test_full_disk_leaves_previous_model_unchanged(tmp_path):
    """A full disk is simulated with file size limits in a separate process."""
    for name, writer in WRITERS.items():
        writer.write(model(1), tmp_path / name)
    before = snapshot(tmp_path)
    root = Path(__file__).parents[2]
    paths = [Path(elmo.__file__).parents[1], root / "tests", root / "tools"]
    completed = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    messages = json.loads(completed.stdout)
    assert len(messages) == 16
    assert all("File too large" in message for message in messages)
    assert all("No partial files were left." in message for message in messages)
    assert snapshot(tmp_path) == before
    for name in WRITERS:
        assert len(read(tmp_path / name).vocabulary) == len(VOCABULARY)
