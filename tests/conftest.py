"""What the tests share: the golden files where they are at hand, and one tiny model."""

import os
import runpy
import sys
from pathlib import Path

# Two threads beside a busy neighbour collapse; tests run in two processes instead. Before PyTorch
# reads it, and for the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from native_variants import VARIANTS, use
from train_text import write_text

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, PrepareConfig, TextConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.embed.embedder import ELMo
from elmo.formats import bundled
from elmo.formats.pretrained import Pretrained
from elmo.kernels import native_ffi
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork

RUNS = Path(__file__).parents[1] / "runs"
GOLDEN = Path(__file__).parent / "data" / "golden"
SHARED = Path(os.environ.get("ELMO_SHARED", Path(__file__).parents[2] / "shared"))

TINY = ModelConfig(
    TextConfig(max_characters=12),
    EncoderConfig(character_dim=4, filters=((1, 4), (2, 8), (3, 8)), n_highway=1),
    LSTMConfig(cell_dim=16, projection_dim=8),
)


def pytest_collection_modifyitems(items):
    """Begin with what takes a minute: begun last, all other processes would wait for it."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True)
def onednn_as_it_was():
    """PyTorch leaves oneDNN for good when it lacks a product, as bfloat16's on an old CPU."""
    enabled = torch.backends.mkldnn.enabled
    yield
    torch.backends.mkldnn.enabled = enabled


@pytest.fixture(scope="session")
def golden_path():
    """Return a function that maps the name of a golden file or folder to its path.

    Files committed in tests/data/golden come first. All others are in the shared folder; the test
    is skipped if they are missing there as well.
    """

    def find(name: str) -> Path:
        for folder in (GOLDEN, SHARED / "fixtures"):
            if (folder / name).exists():
                return folder / name
        pytest.skip(f"no golden file {name} in {SHARED / 'fixtures'}; set ELMO_SHARED")

    return find


@pytest.fixture(scope="session")
def shared_data():
    """Folder of the measuring sets, packed."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"no data sets at {SHARED / 'data'}; set ELMO_SHARED to their folder")
    return SHARED / "data"


@pytest.fixture
def script_bytes(monkeypatch, capsysbinary):
    """Run a script of runs/ and give what it printed."""

    def call(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        monkeypatch.syspath_prepend(RUNS)
        runpy.run_path(str(RUNS / name), run_name="__main__")
        return capsysbinary.readouterr().out

    return call


@pytest.fixture
def script(script_bytes):
    """The same, as text."""
    return lambda *words: script_bytes(*words).decode()


@pytest.fixture(scope="session")
def native_folder(tmp_path_factory):
    """Where the compiled kernels' variants are, for all processes of the tests."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return tmp_path_factory.mktemp("native")
    folder = tmp_path_factory.getbasetemp().parent / "native"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(params=VARIANTS)
def precisions(request, native_folder, monkeypatch):
    """Load a variant of the native kernels; return the precisions that it supports."""
    yield use(request.param, native_folder, monkeypatch)
    native_ffi.can_compute.cache_clear()


def random_model(config=TINY, seed=0, scale=4.0, **extra):
    """Give a model with random weights, as a reader would.

    LSTM weights as drawn keep every cell small; scaled by 4 they reach the clips, but then a
    difference in rounding grows from step to step as in no trained model.
    """
    network = ELMoNetwork(config=config)
    initialize(network, seed)
    weights = {name: value.detach().clone() for name, value in network.state_dict().items()}
    weights = {
        name: value * scale if "_lstm." in name else value for name, value in weights.items()
    }
    return Pretrained(config, weights, "random model", **extra)


@pytest.fixture
def corpus(tmp_path):
    """A prepared corpus of a few hundred sentences with something to learn."""
    text = write_text(tmp_path / "text.txt")
    valid = write_text(tmp_path / "valid.txt", 40, seed=2)
    prepare(PrepareConfig((str(text),), str(tmp_path / "corpus"), (str(valid),)))
    return tmp_path / "corpus"


@pytest.fixture
def models(tmp_path, monkeypatch):
    """The folder of bundled models, empty, whatever this installation has."""
    monkeypatch.setattr(bundled, "FOLDER", tmp_path / "bundled")
    (tmp_path / "bundled").mkdir()
    return tmp_path / "bundled"


@pytest.fixture
def tiny():
    """A tiny byte-character model."""
    return ELMo(random_model(scale=1.5))
