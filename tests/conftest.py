"""Shared fixtures: golden files, tiny models, and running the scripts in `runs`."""

import os
import runpy
import shutil
import sys
import threading
from importlib.metadata import distributions
from pathlib import Path

# Tests run in several processes, which are slow if each uses several threads. Set this before
# PyTorch reads it; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from headless_browser import browser_path, headless_browser
from headless_firefox import firefox_path, headless_firefox
from hub_server import READ_TOKEN, WRITE_TOKEN, HubServer
from hypothesis import settings
from native_variants import VARIANTS, use
from train_text import write_text

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, PrepareConfig, TextConfig
from elmo.corpus.prepare_corpus import prepare
from elmo.embed.embedder import ELMo
from elmo.formats import bilm_hdf5, bundled, model_packages
from elmo.formats.pretrained import Pretrained
from elmo.kernels import native_ffi
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork
from elmo.train import run_monitor
from elmo.train.curves import draw_curves

# The same examples in each run, and no failures on a slow machine.
settings.register_profile("reproducible", deadline=None, derandomize=True)
settings.load_profile("reproducible")

RUNS = Path(__file__).parents[1] / "runs"
GOLDEN = Path(__file__).parent / "data" / "golden"
SHARED = Path(os.environ.get("ELMO_SHARED", Path(__file__).parents[2] / "shared"))

TINY = ModelConfig(
    TextConfig(max_characters=12),
    EncoderConfig(character_dim=4, filters=((1, 4), (2, 8), (3, 8)), n_highway=1),
    LSTMConfig(cell_dim=16, projection_dim=8),
)
# With the 50 characters per word that AllenNLP's files have.
ALLENNLP = ModelConfig(TextConfig(max_characters=50), TINY.encoder, TINY.lstm)


def pytest_collection_modifyitems(items):
    """Run long tests first, so that parallel test processes finish at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True)
def restore_onednn():
    """Re-enable oneDNN, which PyTorch disables when a bfloat16 matrix product fails on the CPU."""
    enabled = torch.backends.mkldnn.enabled
    yield
    torch.backends.mkldnn.enabled = enabled


@pytest.fixture(scope="session", autouse=True)
def no_curves():
    """Draw no training curves, which takes longer than the training of a tiny model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_monitor, "draw_curves", lambda folder, unit: None)
        yield


@pytest.fixture
def curves(monkeypatch):
    """Draw training curves in a test."""
    monkeypatch.setattr(run_monitor, "draw_curves", draw_curves)


@pytest.fixture(scope="session")
def golden_path():
    """Return a function that maps the name of a golden file or folder to its path.

    Files are looked up in tests/data/golden first, then in the shared folder. If a file is in
    neither, the test is skipped.
    """

    def find(name: str) -> Path:
        for folder in (GOLDEN, SHARED / "fixtures"):
            if (folder / name).exists():
                return folder / name
        pytest.skip(f"golden file {name} is not in {SHARED / 'fixtures'} (set ELMO_SHARED)")

    return find


@pytest.fixture(scope="session")
def shared_data():
    """Return the folder that contains the archived data sets."""
    if not (SHARED / "data").is_dir():
        pytest.skip(f"there are no data sets in {SHARED / 'data'} (set ELMO_SHARED)")
    return SHARED / "data"


@pytest.fixture
def script_bytes(monkeypatch, capsysbinary):
    """Return a function that runs a script in `runs` and returns its output as bytes."""

    def call(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        monkeypatch.syspath_prepend(RUNS)
        runpy.run_path(str(RUNS / name), run_name="__main__")
        return capsysbinary.readouterr().out

    return call


@pytest.fixture
def script(script_bytes):
    """Return a function that runs a script in `runs` and returns its output as text."""
    return lambda *words: script_bytes(*words).decode()


@pytest.fixture(scope="session")
def native_folder(tmp_path_factory):
    """Return the folder for compiled kernel variants, which all test processes share."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return tmp_path_factory.mktemp("native")
    folder = tmp_path_factory.getbasetemp().parent / "native"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(params=VARIANTS)
def precisions(request, native_folder, monkeypatch):
    """Load a variant of the native kernels and return the precisions that it supports."""
    yield use(request.param, native_folder, monkeypatch)
    native_ffi.can_compute.cache_clear()


def random_model(config=TINY, seed=0, scale=4.0, **extra):
    """Return a model with random weights as a `Pretrained` object.

    With unscaled LSTM weights, all cell values are small. With weights scaled by 4, cell values
    reach the clipping bounds, but rounding errors grow with each step, unlike in a trained model.
    """
    network = ELMoNetwork(config=config)
    initialize(network, seed)
    weights = {name: value.detach().clone() for name, value in network.state_dict().items()}
    weights = {
        name: value * scale if "_lstm." in name else value for name, value in weights.items()
    }
    return Pretrained(config, weights, "random model", **extra)


@pytest.fixture(scope="session")
def corpus_template(tmp_path_factory):
    """Return the folder with texts and a prepared corpus that `corpus` copies."""
    folder = tmp_path_factory.mktemp("prepared")
    text = write_text(folder / "text.txt")
    valid = write_text(folder / "valid.txt", 40, seed=2)
    prepare(PrepareConfig((str(text),), str(folder / "corpus"), (str(valid),)))
    return folder


@pytest.fixture
def corpus(corpus_template, tmp_path):
    """Return a prepared corpus of a few hundred sentences that a model can learn."""
    shutil.copytree(corpus_template, tmp_path, dirs_exist_ok=True)
    return tmp_path / "corpus"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return an empty folder on the import path, outside of which no model packages are found."""
    folder = tmp_path / "site"
    folder.mkdir()

    def entry_points(group):
        packages = distributions(path=[str(folder)])
        return [point for package in packages for point in package.entry_points.select(group=group)]

    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(model_packages, "entry_points", entry_points)
    return folder


@pytest.fixture
def models(site, tmp_path, monkeypatch):
    """Replace the folder of bundled models with an empty one and return it."""
    monkeypatch.setattr(bundled, "FOLDER", tmp_path / "bundled")
    (tmp_path / "bundled").mkdir()
    return tmp_path / "bundled"


@pytest.fixture(scope="module")
def chromium():
    """Start headless Chromium, or skip the test where it is not installed."""
    if browser_path() is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with headless_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def firefox():
    """Start headless Firefox, or skip the test where it is not installed."""
    if firefox_path() is None:
        pytest.skip("needs Firefox (Debian: apt-get install firefox-esr)")
    with headless_firefox() as browser:
        yield browser


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def browser(request):
    """Return each headless browser in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def allennlp_files(tmp_path):
    """Return the paths of an options file and a weight file of a tiny model."""
    bilm_hdf5.write(random_model(ALLENNLP, scale=1.5), tmp_path / "model")
    return tmp_path / "model" / "options.json", tmp_path / "model" / "weights.hdf5"


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """Return the folder of a tiny model with byte input, which tests must not change."""
    folder = tmp_path_factory.mktemp("tiny") / "elmo"
    ELMo(random_model(scale=1.5)).save_pretrained(folder)
    return folder


@pytest.fixture
def tiny():
    """Return a tiny model with byte input."""
    return ELMo(random_model(scale=1.5))


def set_hub_endpoint(monkeypatch, endpoint):
    """Start a server and set it as the address of the hub for `huggingface_hub`."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def hub_home(tmp_path, monkeypatch):
    """Simulate a machine without a cache, a login or a network connection."""
    pytest.importorskip("huggingface_hub")
    from huggingface_hub import constants, utils

    for name in list(os.environ):
        if name.startswith(("HF_", "HUGGING_FACE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(home / "stored_tokens"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("tqdm.std.tqdm.monitor_interval", 0)
    set_hub_endpoint(monkeypatch, "http://127.0.0.1:1")
    threads = set(threading.enumerate())
    utils.disable_progress_bars()
    yield home
    utils.enable_progress_bars()
    utils.close_session()
    assert set(threading.enumerate()) <= threads


@pytest.fixture
def hub_server(hub_home, monkeypatch):
    """Start a hub on this machine."""
    with HubServer(write_token=WRITE_TOKEN, read_token=READ_TOKEN) as server:
        set_hub_endpoint(monkeypatch, server.endpoint)
        yield server
