"""Tests of encoding runs: groups of sentences, float16 results and layer selection."""

import weakref

import numpy as np
import pytest
import torch
from conftest import TINY, random_model

from elmo.embed import encoding
from elmo.embed.embedder import ELMo
from elmo.embed.layer_selection import pool
from elmo.embed.pending_batch import VectorOverflow
from elmo.errors import ConfigError
from elmo.kernels.torch_kernels import Kernels

MODEL = ELMo(random_model(TINY, seed=3, scale=1.5))
GROUPS = [
    ("long", [[f"w{n % 11}"] * (n % 7) for n in range(40)]),
    ("none", []),
    ("one", [["a", "b"]]),
    ("again", [["a", "b"], ["c"], ["a", "b"], []]),
]


@pytest.fixture(params=[False, True], ids=["in caller", "in threads"])
def run(request):
    """Return a run that unpacks batches in the calling thread, or in other threads as on a GPU."""
    run = MODEL.encoding_run(batch_size=3)
    run.unpacks_in_threads = request.param
    return run


def test_encoding_groups_equals_separate_encode_calls(run):
    reported = {key: 0 for key, _ in GROUPS}

    def report(key, count):
        reported[key] += count

    results = list(run.reset(iter(GROUPS), report))
    assert [key for key, _ in results] == [key for key, _ in GROUPS]
    assert reported == {key: len(sentences) for key, sentences in GROUPS}
    for (_, vectors), (_, sentences) in zip(results, GROUPS, strict=True):
        expected = MODEL.encode(sentences, batch_size=3)
        assert [array.tobytes() for array in vectors] == [array.tobytes() for array in expected]


@pytest.mark.parametrize("convert", [False, True])
@pytest.mark.parametrize("state", ["reset", "carry"])
@pytest.mark.parametrize("pooling", ["mean", "max", "first-last"])
def test_pooled_vectors_are_those_of_all_word_vectors(pooling, state, convert):
    sentences = [[f"w{n % 5}"] * (n % 4) for n in range(12)]
    options = {"layers": "all", "state": state, "batch_size": 3, "convert_to_tensor": convert}
    words = MODEL.encode(sentences, **options)
    expected = torch.stack([pool(torch.as_tensor(item), pooling) for item in words])
    pooled = MODEL.encode(sentences, pooling=pooling, **options)
    assert type(pooled) is (torch.Tensor if convert else np.ndarray)
    assert np.asarray(pooled).tobytes() == expected.numpy().tobytes()


@pytest.mark.parametrize("state", ["reset", "carry"])
@pytest.mark.parametrize("pooling", ["mean", "first-last"])
def test_word_vectors_are_freed_with_their_batch_if_they_are_pooled(monkeypatch, state, pooling):
    unpack = encoding.EncodingRun._unpack_rows
    unpacked = []
    n_alive = []

    def counted(self, batch, rows):
        n_alive.append(sum(each() is not None for each in unpacked))
        vectors = unpack(self, batch, rows)
        unpacked.extend(map(weakref.ref, vectors))
        return vectors

    monkeypatch.setattr(encoding.EncodingRun, "_unpack_rows", counted)
    sentences = [[f"w{n}"] * 3 for n in range(40)]
    MODEL.encode(sentences, state=state, batch_size=4)
    assert max(n_alive) == 36
    unpacked.clear()
    n_alive.clear()
    MODEL.encode(sentences, state=state, batch_size=4, pooling=pooling)
    assert max(n_alive) <= 4  # those of the batch before


def test_repeated_sentences_do_not_share_memory(run):
    ((_, vectors),) = run.reset([("again", [["a", "b"], ["a", "b"]])])
    vectors[0][:] = 0
    assert vectors[1].any()


def test_carried_state_continues_across_groups(run):
    sentences = [[f"w{n % 5}"] * (n % 4 + 1) for n in range(12)]
    groups = [("first", sentences[:6]), ("second", sentences[6:])]
    actual = [array for _, vectors in run.carry(groups) for array in vectors]
    expected = MODEL.encode(sentences, state="carry", batch_size=3)
    assert [array.tobytes() for array in actual] == [array.tobytes() for array in expected]


def test_number_of_batches_read_ahead_is_limited():
    run = MODEL.encoding_run(batch_size=1)
    run.unpacks_in_threads = True
    n_read = 0

    def groups():
        nonlocal n_read
        for n in range(20):
            n_read += 1
            yield n, [[f"w{n}"]]

    for n, _ in run.reset(groups()):
        assert n < n_read <= n + 1 + encoding.BATCHES_AHEAD + 1
    assert n_read == 20


@pytest.mark.parametrize("layers", ["average", "all"])
def test_float16_results_are_rounded_as_by_numpy(layers):
    _, sentences = GROUPS[0]
    expected = MODEL.encode(sentences, layers=layers)
    actual = MODEL.encoding_run(layers=layers, host_dtype=torch.float16).encode(sentences)
    for half, full in zip(actual, expected, strict=True):
        assert half.dtype == np.float16
        assert half.tobytes() == full.astype(np.float16).tobytes()


def return_float16(run, monkeypatch, change):
    """Make a run return float16 vectors after `change` has modified them in place."""
    select = run._select

    def changed(output):
        vectors = select(output).clone()
        change(vectors)
        return vectors

    for name in ("_host_dtype", "_transfer_dtype"):
        monkeypatch.setattr(run, name, torch.float16)
    monkeypatch.setattr(run, "_select", changed)


@pytest.mark.parametrize("value", [65520.0, -1e9, float("inf")])
def test_float16_overflow_error_names_the_sentence(run, monkeypatch, value):
    def change(vectors):
        # The second row is the third sentence: they are sorted by length and words.
        vectors[1, -1, -1] = value

    return_float16(run, monkeypatch, change)
    with pytest.raises(VectorOverflow, match=r"^not so$"):
        run.encode([["so"], ["it", "is"], ["not", "so"]])


def test_largest_float16_value_and_nan_are_not_reported_as_overflow(run, monkeypatch):
    def change(vectors):
        vectors[0, 0, :2] = torch.tensor([65519.0, torch.nan])

    return_float16(run, monkeypatch, change)
    (vectors,) = run.encode([["so"]])
    assert vectors[0, 0] == 65504
    assert np.isnan(vectors[0, 1])


def test_float16_overflow_in_padding_is_ignored(run, monkeypatch):
    def change(vectors):
        vectors[1, 2] = 1e9

    return_float16(run, monkeypatch, change)
    results = run.encode([["a", "longer", "one"], ["short"]])
    assert [len(vectors) for vectors in results] == [3, 1]


@pytest.mark.parametrize(("layers", "expected"), [(0, 0), ("0", 0), (1, 1), (2, 2), ("top", 2)])
def test_layers_above_the_requested_one_are_not_computed(monkeypatch, layers, expected):
    elmo = ELMo(random_model())
    sentences = [["a", "b", "a"], ["b"], ["c", "a"]]
    all_layers = elmo.encode(sentences, layers="all")
    calls = []
    real = Kernels.lstm
    monkeypatch.setattr(Kernels, "lstm", lambda *arguments: calls.append(1) or real(*arguments))
    actual = elmo.encode(sentences, layers=layers)
    assert len(calls) == expected
    for vectors, reference in zip(actual, all_layers, strict=True):
        np.testing.assert_array_equal(vectors, reference[expected])
    # A carried state needs all layers.
    carried = elmo.encode(sentences, layers=layers, state="carry")
    assert len(calls) == expected + 2
    for vectors, reference in zip(
        carried, elmo.encode(sentences, layers="all", state="carry"), strict=True
    ):
        np.testing.assert_array_equal(vectors, reference[expected])


@pytest.mark.parametrize("layers", [np.array([0, 1]), [0], None, -1, 3, True, "3", "last", 1.0])
def test_encoding_run_rejects_invalid_layers(layers):
    with pytest.raises(ConfigError, match="Expected average, mix, top, all or a number from 0"):
        MODEL.encode([["a"]], layers=layers)


@pytest.mark.parametrize("layers", ["all", "top"])
def test_boundaries_are_the_first_and_last_vectors(layers):
    sentences = [["a", "b", "c"], [], ["d"]]
    with_boundaries = MODEL.encoding_run(layers=layers, boundaries=True).encode(sentences)
    for vectors, inner in zip(
        with_boundaries, MODEL.encoding_run(layers=layers).encode(sentences), strict=True
    ):
        assert vectors.shape[-2] == inner.shape[-2] + 2
        np.testing.assert_allclose(vectors[..., 1:-1, :], inner, rtol=1e-5, atol=1e-6)
        assert np.abs(vectors[..., -1, :]).max() > 0
