"""Tests for the function for `datasets.map`."""

import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from datasets import Dataset, disable_progress_bars, enable_progress_bars
from datasets.fingerprint import Hasher

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, InputError
from elmo.integrations.datasets_encoder import ElmoEncoder

TEXTS = ["a b", "c", None, "a b", ""]


@pytest.fixture(autouse=True)
def _quiet():
    disable_progress_bars()
    yield
    enable_progress_bars()


@pytest.fixture
def data():
    words = [["a", "b"], ["c"], None, ["a b"], []]
    return Dataset.from_dict({"text": TEXTS, "words": words, "label": range(5)})


@pytest.mark.parametrize("n_processes", [None, 2])
def test_map_adds_pooled_vectors(data, tiny_folder, n_processes):
    mapped = data.map(ElmoEncoder(tiny_folder), batched=True, batch_size=2, num_proc=n_processes)
    assert mapped.column_names == ["text", "words", "label", "elmo"]
    rows = mapped.with_format("numpy")["elmo"]
    assert rows[2] is None
    assert rows[0].dtype == np.float32
    present = [0, 1, 3, 4]
    expected = ELMo.from_pretrained(tiny_folder).encode(
        [TEXTS[row] for row in present], pooling="mean"
    )
    np.testing.assert_allclose([rows[row] for row in present], expected, atol=1e-6)


def test_map_adds_vectors_of_words(data, tiny_folder):
    encoder = ElmoEncoder(tiny_folder, "words", output="vectors", pooling=None, layers="top")
    mapped = data.remove_columns("text").map(encoder, batched=True).with_format("numpy")
    (expected,) = ELMo.from_pretrained(tiny_folder).encode([["a", "b"]], layers="top")
    np.testing.assert_allclose(mapped[0]["vectors"], expected, atol=1e-6)
    assert mapped[3]["vectors"].shape == (1, 16)
    assert mapped[2]["vectors"] is None


@pytest.mark.parametrize("layers", ["top", "all"])
@pytest.mark.parametrize("pooling", ["mean", None])
def test_map_accepts_batches_without_text(tiny_folder, layers, pooling):
    encoder = ElmoEncoder(tiny_folder, layers=layers, pooling=pooling)
    data = Dataset.from_dict({"text": ["a b", None, None]})
    expected = data.map(encoder, batched=True)
    for rows in ([1, 2, 0], [0, 1, 2]):
        mapped = data.select(rows).map(encoder, batched=True, batch_size=1)
        assert mapped.features == expected.features
        assert mapped.to_list() == expected.select(rows).to_list()
    missing = data.select([1, 2]).map(encoder, batched=True)
    assert missing.features == expected.features
    assert missing["elmo"][:] == [None, None]


def test_hash_is_the_same_after_use_and_in_another_process(data, tiny_folder):
    encoder = ElmoEncoder(tiny_folder)
    before = Hasher.hash(encoder)
    data.map(encoder, batched=True)
    assert Hasher.hash(encoder) == before
    assert pickle.loads(pickle.dumps(encoder)) == encoder
    assert len(pickle.dumps(encoder)) < 1000
    code = (
        "import pathlib\n"
        "from datasets.fingerprint import Hasher\n"
        "from elmo.integrations.datasets_encoder import ElmoEncoder\n"
        f"print(Hasher.hash(ElmoEncoder(pathlib.{tiny_folder!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == before


def test_hash_depends_on_settings_and_files_of_the_model(tiny_folder, tmp_path):
    folder = tmp_path / "elmo"
    shutil.copytree(tiny_folder, folder)
    hashes = [Hasher.hash(ElmoEncoder(folder)), Hasher.hash(ElmoEncoder(folder, layers="top"))]
    os.utime(folder / "model.safetensors", (1, 1))
    hashes.append(Hasher.hash(ElmoEncoder(folder)))
    assert len(set(hashes)) == 3


def test_rank_selects_a_gpu(monkeypatch):
    assert ElmoEncoder()._device(3) is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert ElmoEncoder()._device(3) == "cuda:1"
    assert ElmoEncoder()._device(None) is None
    assert ElmoEncoder(device="cpu")._device(3) == "cpu"


def test_invalid_use_is_rejected(data, tiny_folder):
    encoder = ElmoEncoder(tiny_folder, "texts")
    with pytest.raises(InputError, match=r"no column 'texts' .* Did you mean text\?"):
        data.map(encoder, batched=True)
    for column in ("text", "words"):
        with pytest.raises(InputError, match="Pass batched=True to map"):
            data.map(ElmoEncoder(tiny_folder, column))
    with pytest.raises(ConfigError, match="model must be the name"):
        ElmoEncoder(3)
