"""Tests that a GPU computes the same vectors as a CPU, for any batch size and precision."""

import numpy as np
import pytest
import torch
from conftest import random_model

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, TextConfig
from elmo.embed import encoding
from elmo.embed.embedder import ELMo

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CONFIG = ModelConfig(
    TextConfig(max_characters=12),
    EncoderConfig(character_dim=8, filters=((1, 16), (3, 48)), n_highway=1),
    LSTMConfig(cell_dim=96, projection_dim=32),
)
SENTENCES = [[f"word{n * k % 71}" for k in range(n % 23)] for n in range(1500)]


@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 1e-5), ("float16", 4e-3), ("bfloat16", 3e-2)]
)
@pytest.mark.parametrize("state", ["reset", "carry"])
def test_gpu_vectors_are_close_to_cpu_vectors(monkeypatch, precision, tolerance, state):
    monkeypatch.setitem(encoding.MAX_POSITIONS, "cuda", 4000)
    # Smaller weights than in most tests, so that rounding errors do not grow along a sentence.
    elmo = ELMo(random_model(CONFIG, seed=3, scale=1.0))
    expected = elmo.encode(SENTENCES, state=state, batch_size=40)
    actual = elmo.encode(SENTENCES, state=state, batch_size=40, device="cuda", precision=precision)
    assert {vectors.dtype for vectors in actual} == {np.dtype(np.float32)}
    runs = [actual]
    if state == "reset":
        runs.append(elmo.encode(SENTENCES, precision=precision))
    true = np.concatenate(expected)
    for run in runs:
        assert [vectors.shape for vectors in run] == [vectors.shape for vectors in expected]
        error = np.linalg.norm(np.concatenate(run) - true)
        assert error <= tolerance * np.linalg.norm(true)


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_batch_is_split_if_gpu_memory_runs_out(monkeypatch, state):
    """Device memory is limited to half of what the largest batch needs."""
    elmo = ELMo(random_model(CONFIG, seed=3, scale=1.0))
    sentences = [[f"word{(n + k * k) % 2000}" for k in range(30)] for n in range(2000)]
    inner, sizes = encoding.EncodingRun._compute, []

    def compute(self, batch, *rest):
        pending = inner(self, batch, *rest)
        sizes.append(len(batch))
        return pending

    monkeypatch.setattr(encoding.EncodingRun, "_compute", compute)
    arguments = {"state": state, "batch_size": 1000, "device": "cuda"}
    elmo.encode(sentences[:4], **arguments)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    minimum = torch.cuda.memory_reserved()
    expected = elmo.encode(sentences, **arguments)
    maximum = torch.cuda.max_memory_reserved()
    assert max(sizes) == 1000
    sizes.clear()
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction((minimum + maximum) / 2 / total)
    try:
        actual = elmo.encode(sentences, **arguments)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert max(sizes) < 1000
    for vectors, reference in zip(actual, expected, strict=True):
        np.testing.assert_allclose(vectors, reference, rtol=0, atol=1e-5)
