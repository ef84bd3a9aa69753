"""Both writers of models under the same accidents: all or nothing, and the older model stays."""

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
from sources import refused, snapshot

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


class Torn:
    """Stands in for a function that writes a file: leaves half of one and fails."""

    def __init__(self, error):
        self.error = error

    def __call__(self, *arguments, **named):
        path = next(item for item in arguments if isinstance(item, Path))
        path.write_bytes(b"half")
        raise self.error


@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left"), MemoryError()]
)
@pytest.mark.parametrize("where", ["weights", "last file"])
def test_an_accident_leaves_all_as_it_was(tmp_path, monkeypatch, writer, error, where, older):
    folder = tmp_path / "model"
    if older:
        writer.write(model(1), folder)
        (folder / "mine.txt").write_text("mine")
    before = snapshot(tmp_path)
    torn = Torn(error)
    if where == "weights":
        monkeypatch.setattr(model_folder, "save_file", torn)
        monkeypatch.setattr(bilm_hdf5, "write_arrays", torn)
    else:
        last = "config.json" if writer is model_folder else "vocab.txt"
        write_bytes = Path.write_bytes

        def write(path, data):
            if path.name == last:
                monkeypatch.undo()
                torn(path)
            return write_bytes(path, data)

        monkeypatch.setattr(Path, "write_bytes", write)
    kind = OutputError if isinstance(error, OSError) else type(error)
    with pytest.raises(kind) as caught:
        writer.write(model(2), folder)
    monkeypatch.undo()
    if kind is OutputError:
        assert str(folder) in str(caught.value)
        assert "No space left; nothing was left behind" in str(caught.value)
    assert snapshot(tmp_path) == before
    if older:
        assert read(folder).weights.keys() == model(1).weights.keys()
    writer.write(model(2), folder)
    assert read(folder).config == model(2).config


def test_what_safetensors_says_of_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(model_folder, "save_file", Torn(SafetensorError("I/O error: no space")))
    refused(
        lambda: model_folder.write(model(1), tmp_path / "model"),
        "cannot write model.safetensors: I/O error: no space; nothing was left behind",
        kind=OutputError,
    )
    assert snapshot(tmp_path) == {}


def test_ctrl_c_between_two_datasets(tmp_path, monkeypatch):
    """HDF5 has its own idea of an open file; it must let go of it."""
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
def test_a_file_in_the_way(tmp_path, writer, name):
    (tmp_path / "file").write_text("mine")
    before = snapshot(tmp_path)
    refused(lambda: writer.write(model(1), tmp_path / name), str(tmp_path / name), kind=OutputError)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("writer", "name"),
    [
        *((model_folder, name) for name in ("model.safetensors", "README.md", "config.json")),
        *((model_folder, name) for name in ("vocab.txt", "words.json", "characters.json")),
        *((bilm_hdf5, name) for name in ("weights.hdf5", "options.json", "vocab.txt")),
    ],
)
def test_a_folder_in_the_way_of_a_file(tmp_path, writer, name):
    folder = tmp_path / "model"
    writer.write(random_model(seed=1), folder)
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    before = snapshot(tmp_path)
    refused(
        lambda: writer.write(random_model(seed=2), folder),
        f"{name} in it is a folder",
        kind=OutputError,
    )
    assert snapshot(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_ours(tmp_path, writer):
    tmp_path.chmod(0o500)
    try:
        refused(
            lambda: writer.write(model(1), tmp_path / "model"),
            "Permission denied",
            kind=OutputError,
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
for name, writer in (("native", native), ("hdf5", bilm_hdf5)):
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


def test_a_full_disk(tmp_path):
    """The system stops the writing at several places; done in a process of its own."""
    for name, writer in WRITERS.items():
        writer.write(model(1), tmp_path / name)
    before = snapshot(tmp_path)
    paths = [Path(elmo.__file__).parents[1], Path(__file__).parents[1]]
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    messages = json.loads(run.stdout)
    assert len(messages) == 16
    assert all("File too large" in message for message in messages)
    assert all("nothing was left behind" in message for message in messages)
    assert snapshot(tmp_path) == before
    for name in WRITERS:
        assert len(read(tmp_path / name).vocabulary) == len(VOCABULARY)
