"""Tests of the precision option: resolution to dtypes, and accuracy compared with float32."""

import numpy as np
import pytest
import torch
from conftest import TINY, random_model

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.inference import precision as precision_module
from elmo.inference.engine_slot import EngineSlot
from elmo.inference.precision import resolve_precision
from elmo.kernels.native_ffi import can_compute
from elmo.kernels.torch_kernels import REFERENCE_KERNELS

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
MIN_COSINE = {"float32": 1 - 1e-6, "int8x3": 1 - 1e-6, "bfloat16": 0.999, "int8": 0.99}
MIN_LAYER0_COSINE = {**MIN_COSINE, "bfloat16": 1 - 4e-6, "int8": 1 - 2e-5}


@pytest.fixture(scope="module")
def wide():
    return ELMo(random_model(WIDE, scale=2.0))


def set_cpu_support(monkeypatch, *names, onednn=False):
    monkeypatch.setattr(precision_module, "can_compute", lambda name: name in names)
    monkeypatch.setattr(precision_module, "onednn_has_bfloat16", lambda: onednn)


def test_default_precision_is_the_dtype_of_the_weights(monkeypatch):
    set_cpu_support(monkeypatch, "float32", onednn=True)
    for weights_dtype in (torch.float32, torch.bfloat16, torch.float64):
        resolved = resolve_precision(None, weights_dtype, CPU)
        assert (resolved.weights, resolved.number_format, resolved.results) == (
            weights_dtype,
            "float32",
            weights_dtype,
        )


def test_precision_is_resolved_on_a_cpu_that_supports_bfloat16_and_int8(monkeypatch):
    set_cpu_support(monkeypatch, "float32", "bfloat16", "int8")
    for name in ("bfloat16", torch.bfloat16, "auto"):
        resolved = resolve_precision(name, torch.float32, CPU)
        assert resolved.weights == torch.float32
        assert resolved.number_format == "bfloat16"
        assert resolved.results == torch.bfloat16
    resolved = resolve_precision("int8", torch.float32, CPU)
    assert (resolved.weights, resolved.number_format, resolved.results) == (
        torch.float32,
        "int8",
        torch.float32,
    )
    assert resolved.name == "int8"


def test_int8x3_is_a_precision_of_its_own_and_never_chosen_by_auto(monkeypatch):
    set_cpu_support(monkeypatch, "float32", "int8x3")
    for name in ("auto", "float32", None):
        assert resolve_precision(name, torch.float32, CPU).number_format == "float32"
    resolved = resolve_precision("int8x3", torch.float32, CPU)
    assert (resolved.number_format, resolved.results, resolved.name) == (
        "int8x3",
        torch.float32,
        "int8x3",
    )
    set_cpu_support(monkeypatch, "float32", "int8")
    with pytest.raises(ConfigError, match=r"'int8x3' needs .* with AMX, and a C compiler"):
        resolve_precision("int8x3", torch.float32, CPU)


def test_cpu_without_bfloat16_and_int8_resolves_auto_to_float32_and_rejects_int8(monkeypatch):
    set_cpu_support(monkeypatch, "float32")
    assert resolve_precision("auto", torch.float32, CPU).results == torch.float32
    with pytest.raises(ConfigError, match="AVX512-VNNI"):
        resolve_precision("int8", torch.float32, CPU)


@pytest.mark.parametrize("onednn", [False, True])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_falls_back_to_float32_on_unsupported_cpus(monkeypatch, half, onednn):
    """The results have the requested dtype, whether or not oneDNN supports bfloat16."""
    set_cpu_support(monkeypatch, "float32", onednn=onednn)
    weights = torch.bfloat16 if onednn and half == torch.bfloat16 else torch.float32
    for precision, weights_dtype in ((half, torch.float32), (None, half), (half, half)):
        resolved = resolve_precision(precision, weights_dtype, CPU)
        assert (resolved.weights, resolved.number_format, resolved.results) == (
            weights,
            "float32",
            half,
        )
    other_device = resolve_precision(half, torch.float32, torch.device("meta"))
    assert (other_device.weights, other_device.results) == (half, half)


def test_int8_is_rejected_for_non_float32_weights_and_non_cpu_devices(monkeypatch):
    set_cpu_support(monkeypatch, "float32", "bfloat16", "int8")
    for weights_dtype, device in ((torch.bfloat16, CPU), (torch.float32, torch.device("meta"))):
        with pytest.raises(ConfigError, match="precision 'int8' needs a float32 model on a CPU"):
            resolve_precision("int8", weights_dtype, device)


def test_native_formats_need_lstm_dimensions_that_are_multiples_of_64(monkeypatch):
    set_cpu_support(monkeypatch, "float32", "int8x3", "bfloat16", "int8")
    for name in ("int8", "int8x3"):
        with pytest.raises(
            ConfigError, match=f"'{name}' needs LSTM dimensions .* the model has 40"
        ):
            resolve_precision(name, torch.float32, CPU, (128, 40))
        assert resolve_precision(name, torch.float32, CPU, (128, 64)).name == name
    assert resolve_precision("auto", torch.float32, CPU, (128, 40)).name == "float32"
    assert resolve_precision("auto", torch.float32, CPU, (128, 64)).name == "bfloat16"
    resolved = resolve_precision("bfloat16", torch.float32, CPU, (128, 40))
    assert (resolved.name, resolved.results) == ("float32", torch.bfloat16)


def test_encode_rejects_int8_for_unsupported_lstm_dimensions():
    if not can_compute("int8"):
        pytest.skip("no kernel computes in int8 here")
    elmo = ELMo(random_model(TINY))
    with pytest.raises(ConfigError, match="multiples of 64"):
        elmo.encode(SENTENCES, precision="int8")
    assert len(elmo.encode(SENTENCES, precision="auto")) == len(SENTENCES)


@pytest.mark.parametrize("name", MIN_COSINE)
def test_vectors_in_each_precision_are_close_to_float32(wide, name, monkeypatch):
    if not can_compute(name):
        pytest.skip(f"no kernel computes in {name} here")
    wide._engines = EngineSlot(REFERENCE_KERNELS)
    expected = wide.encode(SENTENCES)
    wide._engines = EngineSlot()
    for ours, true in zip(wide.encode(SENTENCES, precision=name), expected, strict=True):
        assert ours.shape == true.shape
        assert ours.dtype == np.float32
        lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(true, axis=1)
        assert ((ours * true).sum(axis=1) >= MIN_COSINE[name] * lengths).all()
        if name != "float32":
            assert true.size == 0 or (ours != true).any()
        else:
            np.testing.assert_allclose(ours, true, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MIN_COSINE)
@pytest.mark.parametrize(("model", "sentences"), [("small-en", SENTENCES), ("small-ko", KOREAN)])
def test_vectors_of_bundled_models_in_each_precision_are_close_to_float32(model, sentences, name):
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
    assert cosines.min() >= MIN_COSINE[name]
    # The context-independent layer is almost exact in every precision, as all layers depend on it.
    assert cosines[0].mean() >= MIN_LAYER0_COSINE[name]


@pytest.mark.parametrize("name", MIN_COSINE)
def test_vectors_in_each_precision_do_not_depend_on_the_batch(wide, name):
    if not can_compute(name):
        pytest.skip(f"no kernel computes in {name} here")
    together = wide.encode(SENTENCES, precision=name)
    for sentence, vectors in zip(SENTENCES, together, strict=True):
        assert (wide.encode([sentence], precision=name)[0] == vectors).all()


def test_encode_returns_tensors_in_the_requested_precision(wide):
    dtypes = {"bfloat16": torch.bfloat16, "int8": torch.float32}
    dtypes = {name: dtype for name, dtype in dtypes.items() if can_compute(name)}
    dtypes["auto"] = dtypes.get("bfloat16", torch.float32)
    for name, dtype in dtypes.items():
        assert wide.encode(SENTENCES, precision=name, convert_to_tensor=True)[0].dtype == dtype


def test_vectors_with_carried_state_are_close_to_float32_in_each_precision(wide):
    expected = wide.encode(SENTENCES, state="carry", batch_size=2)
    for name in MIN_COSINE:
        if can_compute(name):
            actual = wide.encode(SENTENCES, state="carry", batch_size=2, precision=name)
            for ours, true in zip(actual, expected, strict=True):
                assert np.abs(ours - true).max(initial=0) < 0.1
