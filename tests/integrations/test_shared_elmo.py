"""Tests for the models that integrations share within a process."""

import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import random_model

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.integrations import shared_elmo as module
from elmo.integrations.shared_elmo import shared_elmo


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    """Start without loaded models."""
    monkeypatch.setattr(module, "_models", type(module._models)())


def test_model_is_loaded_once_by_threads(tiny_folder, monkeypatch):
    loads = []
    load = ELMo.from_pretrained
    monkeypatch.setattr(ELMo, "from_pretrained", lambda model: loads.append(model) or load(model))
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(shared_elmo, [tiny_folder, str(tiny_folder)] * 4))
    assert len(loads) == 1
    assert len(set(map(id, models))) == 1


def test_changed_folder_is_loaded_again(tiny_folder, tmp_path):
    folder = tmp_path / "elmo"
    shutil.copytree(tiny_folder, folder)
    first = shared_elmo(folder).encode("a b")
    assert shared_elmo(folder) is shared_elmo(folder)
    ELMo(random_model(seed=7)).save_pretrained(folder)
    assert abs(shared_elmo(folder).encode("a b") - first).max() > 0.01


def test_least_recently_used_model_is_dropped(tiny_folder, tmp_path):
    folders = [tmp_path / str(number) for number in range(module.MAX_MODELS + 1)]
    for folder in folders:
        shutil.copytree(tiny_folder, folder)
    first = shared_elmo(folders[0])
    second = shared_elmo(folders[1])
    for folder in folders[2:-1]:
        shared_elmo(folder)
    assert shared_elmo(folders[0]) is first
    shared_elmo(folders[-1])
    assert shared_elmo(folders[0]) is first
    assert shared_elmo(folders[1]) is not second


@pytest.fixture
def two_threads():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_uses_one_thread_and_no_lock_of_its_parent(tiny_folder, two_threads):
    """OpenMP hangs in forked processes, and so does a lock that another thread holds."""
    shared_elmo(tiny_folder)
    assert torch.get_num_threads() == 2
    with module._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            shared_elmo(tiny_folder)
            os._exit(torch.get_num_threads())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_invalid_models_and_devices_are_rejected(tiny):
    with pytest.raises(ConfigError, match="must be the name of a model, a path or a hub id"):
        shared_elmo(tiny)
    with pytest.raises(FormatError, match="does not exist"):
        shared_elmo("./nowhere")
    with pytest.raises(ConfigError, match="'cuda:99'"):
        shared_elmo("small-en", "cuda:99")
