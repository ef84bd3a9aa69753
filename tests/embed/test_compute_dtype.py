"""Which arithmetic is chosen, and how true to float32 each one is."""

import numpy as np
import pytest
import torch
from conftest import random_model

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.embed import compute_dtype
from elmo.embed.compute_dtype import resolve_compute_dtype
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.kernels.native_ffi import can_compute

CPU = torch.device("cpu")
WIDE = ModelConfig(
    TextConfig(max_characters=20),
    EncoderConfig(character_dim=16, filters=((1, 32), (2, 32), (3, 64)), n_highway=1),
    LSTMConfig(cell_dim=256, projection_dim=64),
)
SENTENCES = [
    "The old man sat on the river bank and watched the boats go by .".split(),
    "She opened an account at the bank .".split(),
    [],
    "Yes".split(),
]
KOREAN = [
    "늙 은 남자 가 강둑 에 앉 아 지나가 는 배 들 을 바라보 았 다 .".split(),
    "2000 년 현재 이 마을 에 는 661 가구 가 살 고 그 중 7.4 % 는 1 인 가구 이 다 .".split(),
]
LEAST = {"float32": 1 - 1e-6, "bfloat16": 0.999, "int8": 0.99}
LEAST_OF_WORDS = {**LEAST, "bfloat16": 1 - 4e-6, "int8": 1 - 2e-5}


@pytest.fixture(scope="module")
def wide():
    return ELMo(random_model(WIDE, scale=2.0))


def able(monkeypatch, *names, onednn=False):
    monkeypatch.setattr(compute_dtype, "can_compute", lambda name: name in names)
    monkeypatch.setattr(compute_dtype, "onednn_has_bfloat16", lambda: onednn)


def test_nothing_asked_for_is_what_the_weights_are(monkeypatch):
    able(monkeypatch, "float32", onednn=True)
    for own in (torch.float32, torch.bfloat16, torch.float64):
        found = resolve_compute_dtype(None, own, CPU)
        assert (found.weights, found.cpu_precision, found.results) == (own, "float32", own)


def test_a_cpu_that_multiplies_halves(monkeypatch):
    able(monkeypatch, "float32", "bfloat16", "int8")
    for name in ("bfloat16", torch.bfloat16, "auto"):
        found = resolve_compute_dtype(name, torch.float32, CPU)
        assert found.weights == torch.float32
        assert found.cpu_precision == "bfloat16"
        assert found.results == torch.bfloat16
    found = resolve_compute_dtype("int8", torch.float32, CPU)
    assert (found.weights, found.cpu_precision, found.results) == (
        torch.float32,
        "int8",
        torch.float32,
    )
    assert found.name == "int8"


def test_a_cpu_that_does_not(monkeypatch):
    able(monkeypatch, "float32")
    assert resolve_compute_dtype("auto", torch.float32, CPU).results == torch.float32
    with pytest.raises(ConfigError, match="AVX512-VNNI"):
        resolve_compute_dtype("int8", torch.float32, CPU)


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_halves_that_nothing_multiplies_are_float32(monkeypatch, half, onednn):
    """Unless PyTorch has the CPU's own; what comes out is still what was asked for."""
    able(monkeypatch, "float32", onednn=onednn)
    weights = torch.bfloat16 if onednn and half == torch.bfloat16 else torch.float32
    for dtype, own in ((half, torch.float32), (None, half), (half, half)):
        found = resolve_compute_dtype(dtype, own, CPU)
        assert (found.weights, found.cpu_precision, found.results) == (weights, "float32", half)
    elsewhere = resolve_compute_dtype(half, torch.float32, torch.device("meta"))
    assert (elsewhere.weights, elsewhere.results) == (half, half)


def test_what_is_for_float32_on_a_cpu(monkeypatch):
    able(monkeypatch, "float32", "bfloat16", "int8")
    for own, device in ((torch.bfloat16, CPU), (torch.float32, torch.device("meta"))):
        with pytest.raises(ConfigError, match="int8, which needs"):
            resolve_compute_dtype("int8", own, device)


@pytest.mark.parametrize("name", LEAST)
def test_true_to_float32(wide, name, monkeypatch):
    if not can_compute(name):
        pytest.skip(f"no kernel computes in {name} here")
    wide.network.bilm.use_kernel("reference")
    expected = wide.encode(SENTENCES)
    wide.network.bilm.use_kernel("auto")
    for ours, true in zip(wide.encode(SENTENCES, precision=name), expected, strict=True):
        assert ours.shape == true.shape
        assert ours.dtype == np.float32
        lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(true, axis=1)
        assert ((ours * true).sum(axis=1) >= LEAST[name] * lengths).all()
        if name != "float32":
            assert true.size == 0 or (ours != true).any()
        else:
            np.testing.assert_allclose(ours, true, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", LEAST)
@pytest.mark.parametrize(("model", "sentences"), [("small-en", SENTENCES), ("small-ko", KOREAN)])
def test_every_vector_of_the_bundled_models_is_true_to_float32(model, sentences, name):
    if not can_compute(name):
        pytest.skip(f"no kernel computes in {name} here")
    elmo = ELMo.from_pretrained(model)
    true, ours = (
        torch.cat(
            elmo.encode(sentences, layers="all", precision=precision, convert_to_tensor=True), dim=1
        )
        for precision in ("float32", name)
    )
    cosines = torch.cosine_similarity(true.double(), ours.double(), dim=-1)
    assert cosines.min() >= LEAST[name]
    # Words are all but float32 in every arithmetic, since all layers stand on them.
    assert cosines[0].mean() >= LEAST_OF_WORDS[name]


@pytest.mark.parametrize("name", LEAST)
def test_neighbours_decide_nothing(wide, name):
    if not can_compute(name):
        pytest.skip(f"no kernel computes in {name} here")
    together = wide.encode(SENTENCES, precision=name)
    for sentence, found in zip(SENTENCES, together, strict=True):
        assert (wide.encode([sentence], precision=name)[0] == found).all()


def test_tensors_are_of_the_arithmetic(wide):
    kinds = {"bfloat16": torch.bfloat16, "int8": torch.float32}
    kinds = {name: kind for name, kind in kinds.items() if can_compute(name)}
    kinds["auto"] = kinds.get("bfloat16", torch.float32)
    for name, kind in kinds.items():
        assert wide.encode(SENTENCES, precision=name, convert_to_tensor=True)[0].dtype == kind


def test_carried_state_in_each_arithmetic(wide):
    expected = wide.encode(SENTENCES, state="carry", batch_size=2)
    for name in LEAST:
        if can_compute(name):
            found = wide.encode(SENTENCES, state="carry", batch_size=2, precision=name)
            for ours, true in zip(found, expected, strict=True):
                assert np.abs(ours - true).max(initial=0) < 0.1
