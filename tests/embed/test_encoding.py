"""Groups of sentences that are encoded one after another, into arrays of either type."""

import numpy as np
import pytest
import torch
from conftest import TINY, random_model

from elmo.embed import encoding
from elmo.embed.embedder import ELMo
from elmo.embed.pending_batch import BatchTooLarge
from elmo.errors import ConfigError
from elmo.kernels import dispatch

MODEL = ELMo(random_model(TINY, seed=3, scale=1.5))
GROUPS = [
    ("long", [[f"w{n % 11}"] * (n % 7) for n in range(40)]),
    ("none", []),
    ("one", [["a", "b"]]),
    ("again", [["a", "b"], ["c"], ["a", "b"], []]),
]


@pytest.fixture(params=[False, True], ids=["at once", "in threads"])
def run(request):
    """Give a run that cuts batches itself, or has threads do it, as where a GPU computes."""
    made = MODEL.encoding_run(batch_size=3)
    made.is_cut_aside = request.param
    return made


def test_groups_are_what_each_is_alone(run):
    told = {key: 0 for key, _ in GROUPS}

    def report(key, count):
        told[key] += count

    found = list(run.reset(iter(GROUPS), report))
    assert [key for key, _ in found] == [key for key, _ in GROUPS]
    assert told == {key: len(sentences) for key, sentences in GROUPS}
    for (_, vectors), (_, sentences) in zip(found, GROUPS, strict=True):
        expected = MODEL.encode(sentences, batch_size=3)
        assert [one.tobytes() for one in vectors] == [one.tobytes() for one in expected]


def test_vectors_of_a_sentence_that_stands_twice_are_two(run):
    ((_, vectors),) = run.reset([("again", [["a", "b"], ["a", "b"]])])
    vectors[0][:] = 0
    assert vectors[1].any()


def test_groups_that_are_carried_on_are_one(run):
    sentences = [[f"w{n % 5}"] * (n % 4 + 1) for n in range(12)]
    groups = [("first", sentences[:6]), ("second", sentences[6:])]
    found = [one for _, vectors in run.carry(groups) for one in vectors]
    expected = MODEL.encode(sentences, state="carry", batch_size=3)
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]


def test_few_batches_are_read_ahead():
    run = MODEL.encoding_run(batch_size=1)
    run.is_cut_aside = True
    n_read = 0

    def groups():
        nonlocal n_read
        for n in range(20):
            n_read += 1
            yield n, [[f"w{n}"]]

    for n, _ in run.reset(groups()):
        assert n < n_read <= n + 1 + encoding.AHEAD + 1
    assert n_read == 20


@pytest.mark.parametrize("layers", ["average", "all"])
def test_half_precision_is_rounded_as_numpy_rounds(layers):
    _, sentences = GROUPS[0]
    whole = MODEL.encode(sentences, layers=layers)
    halves = MODEL.encoding_run(layers=layers, host=torch.float16).encode(sentences)
    for half, one in zip(halves, whole, strict=True):
        assert half.dtype == np.float16
        assert half.tobytes() == one.astype(np.float16).tobytes()


def in_half(run, monkeypatch, change):
    """Let a run give float16, of vectors that were changed in place."""
    dispatch = run._choose

    def changed(output):
        found = dispatch(output).clone()
        change(found)
        return found

    for name in ("_host", "_travels"):
        monkeypatch.setattr(run, name, torch.float16)
    monkeypatch.setattr(run, "_choose", changed)


@pytest.mark.parametrize("value", [65520.0, -1e9, float("inf")])
def test_what_does_not_fit(run, monkeypatch, value):
    def change(found):
        # The second row is the third sentence: they are sorted by length and words.
        found[1, -1, -1] = value

    in_half(run, monkeypatch, change)
    with pytest.raises(BatchTooLarge, match=r"^not so$"):
        run.encode([["so"], ["it", "is"], ["not", "so"]])


def test_the_largest_number_fits_and_what_is_no_number_is_not_too_large(run, monkeypatch):
    def change(found):
        found[0, 0, :2] = torch.tensor([65519.0, torch.nan])

    in_half(run, monkeypatch, change)
    (found,) = run.encode([["so"]])
    assert found[0, 0] == 65504
    assert np.isnan(found[0, 1])


def test_what_is_infinite_at_padding_is_nobodys(run, monkeypatch):
    def change(found):
        found[1, 2] = 1e9

    in_half(run, monkeypatch, change)
    found = run.encode([["a", "longer", "one"], ["short"]])
    assert [len(one) for one in found] == [3, 1]


@pytest.mark.parametrize(("layers", "expected"), [(0, 0), ("0", 0), (1, 1), (2, 2), ("top", 2)])
def test_layers_above_those_asked_for_are_not_run(monkeypatch, layers, expected):
    elmo = ELMo(random_model())
    sentences = [["a", "b", "a"], ["b"], ["c", "a"]]
    whole = elmo.encode(sentences, layers="all")
    calls = []
    real = dispatch.lstm
    monkeypatch.setattr(dispatch, "lstm", lambda *given: calls.append(1) or real(*given))
    found = elmo.encode(sentences, layers=layers)
    assert len(calls) == expected
    for one, every in zip(found, whole, strict=True):
        np.testing.assert_array_equal(one, every[expected])
    # A state to go on with is that of all layers.
    carried = elmo.encode(sentences, layers=layers, state="carry")
    assert len(calls) == expected + 2
    for one, every in zip(
        carried, elmo.encode(sentences, layers="all", state="carry"), strict=True
    ):
        np.testing.assert_array_equal(one, every[expected])


@pytest.mark.parametrize("layers", [np.array([0, 1]), [0], None, -1, 3, True, "3", "last", 1.0])
def test_layers_that_are_none(layers):
    with pytest.raises(ConfigError, match="expected average, mix, top, all or a number from 0"):
        MODEL.encode([["a"]], layers=layers)
