"""Steps as CUDA graphs: what goes into one anywhere; on a GPU that they are the plain steps."""

import contextlib
import copy
import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from tiny_runs import SPELLED, make_config, make_network, without_capture, weights

from elmo.config import OptimizerConfig, RegularizationConfig
from elmo.corpus.bptt_segments import BPTTSegment
from elmo.corpus.shards import DistinctWords
from elmo.corpus.token_tables import SegmentBatch, token_tables
from elmo.kernels.exact_float32 import exact_float32
from elmo.text.token_batches import token_mapper
from elmo.text.vocabulary import SPECIALS, Vocabulary
from elmo.train import checkpoint
from elmo.train import learner as learner_module
from elmo.train.cuda_graph import (
    _split_by_name,
    step_arrays,
    can_capture,
    pad_words,
    round_up,
    step_rows,
)
from elmo.train.learner import Learner
from elmo.train.softmax_heads import DrawnRows

# ------------------------------------------------------------------------------------ what goes in


@pytest.mark.parametrize(
    ("device", "processes", "accumulate", "softmax", "expected"),
    [
        ("cuda", 1, 1, "full", True),
        ("cuda", 1, 1, "sampled", True),
        ("cpu", 1, 1, "full", False),
        ("cuda", 2, 1, "full", False),
        ("cuda", 1, 2, "full", False),
        # How many targets a cluster has changes from step to step.
        ("cuda", 1, 1, "adaptive", False),
    ],
)
def test_what_can_be_recorded(device, processes, accumulate, softmax, expected):
    fabric = SimpleNamespace(device=torch.device(device), world_size=processes)
    config = make_config(softmax, accumulate=accumulate)
    assert can_capture(fabric, config) == expected
    for change in ({"kernel": "reference"}, {"strategy": "ddp"}):
        run = dataclasses.replace(config.run, **change)
        assert not can_capture(fabric, dataclasses.replace(config, run=run))


def integers(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 100, shape)


BATCH = SegmentBatch(
    words=integers(7),
    index=integers(2, 3, 4, seed=1),
    targets=integers(2, 3, 4, seed=2),
    resets=integers(2, 3, 4, seed=3) > 50,
)
DRAWN = DrawnRows(
    ids=integers(9, seed=4),
    valid=np.array([1, 1, 0, 1, 0, 1, 1, 1, 0]),
    sampled=integers(2, 5, seed=5),
    n_tries=np.array([11, 12]),
)


def test_arrays_of_a_step():
    arrays = step_arrays(BATCH, DRAWN)
    assert all(array.dtype == np.int64 for array in arrays.values())
    expected = {**vars(BATCH), **vars(DRAWN)}
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(arrays[name], array), name
    assert step_arrays(BATCH, None).keys() == vars(BATCH).keys()
    assert step_arrays(None, DRAWN).keys() == vars(DRAWN).keys()


def test_rows_of_a_step():
    given = {name: torch.from_numpy(array) for name, array in step_arrays(BATCH, DRAWN).items()}
    rows = step_rows(given)
    for name, array in vars(DRAWN).items():
        assert np.array_equal(getattr(rows, name).numpy(), array), name
    # Rates are multiplied by it.
    assert rows.valid.dtype == torch.float32
    assert {rows.ids.dtype, rows.sampled.dtype, rows.n_tries.dtype} == {torch.int64}


def test_one_piece_is_cut_again():
    arrays = step_arrays(BATCH, DRAWN)
    flat = np.concatenate([array.ravel() for array in arrays.values()]).astype(np.int32)
    named = _split_by_name(torch.from_numpy(flat), {name: array.shape for name, array in arrays.items()})
    assert list(named) == list(arrays)
    for name, array in arrays.items():
        assert np.array_equal(named[name].numpy(), array), name
        assert named[name].dtype == torch.int64


def test_words_are_filled_up():
    words = np.arange(3, 10)
    filled = pad_words({"words": words, "index": words}, 12)
    assert filled["words"].dtype == words.dtype
    assert filled["words"].tolist() == [*words, 0, 0, 0, 0, 0]
    assert filled["index"] is words


def test_there_are_few_sizes():
    sizes = [round_up(n) for n in range(1, 16_385)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 64
    assert all(size - n < max(64, n / 8) for n, size in enumerate(sizes, start=1) if size != n)
    assert all(round_up(size) == size for size in set(sizes))


# ------------------------------------------------------------------------------------ on a GPU

on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

WORDS = [f"w{number}" for number in range(500)]
# The last hundred words are unknown to the softmax.
VOCABULARY = Vocabulary([*SPECIALS, *WORDS[:400]])
SHAPE = dataclasses.replace(SPELLED, n_softmax_words=len(VOCABULARY))
LANES, STEPS = 8, 20
# So many words there are in each window: steps of three sizes, each taken at least four times.
SIZES = [40, 40, 40, 200, 500, 40, 200, 500, 40, 200, 500, 200, 500, 40]
EVERY = range(len(SIZES))
# In the first steps, all of one size, the softmax learns alone.
SOFTMAX_STEPS = 3
ROWS_MULTIPLE = 128

DROPOUTS = RegularizationConfig(dropout=0.3, output_dropout=0.2, weight_drop=0.2)
# Rates that change: one that was recorded as a number would be seen.
ADAGRAD = OptimizerConfig(warmup_steps=10)
ADAMW = OptimizerConfig(
    optimizer="adamw",
    learning_rate=0.003,
    weight_decay=0.1,
    warmup_steps=5,
    schedule="cosine",
    clip_norm=1.0,
)


@pytest.fixture(params=["full", "sampled"])
def softmax(request, monkeypatch):
    monkeypatch.setattr(learner_module, "ROWS_MULTIPLE", ROWS_MULTIPLE)
    return request.param


@pytest.fixture(params=[ADAGRAD, ADAMW], ids=lambda config: config.optimizer)
def optimizer(request):
    return request.param


@pytest.fixture
def exact():
    with exact_float32():
        yield


def config_of(softmax, optimizer=ADAGRAD, regularization=DROPOUTS):
    return make_config(softmax, optimizer, regular, batch_size=LANES, unroll=STEPS, reset=0.5)


def learner_of(config, accelerator="cuda", seed=0, precision="32-true"):
    mapper = token_mapper(SHAPE, None, None)
    tables = token_tables(DistinctWords.of(WORDS), mapper, VOCABULARY)
    return Learner(
        Fabric(accelerator=accelerator, devices=1, precision=precision),
        make_network(SHAPE, seed),
        config,
        tables,
        n_steps=len(SIZES),
        softmax_steps=SOFTMAX_STEPS,
    )


def window(number):
    """Give the window of a step."""
    generator, shape = np.random.default_rng(number), (2, STEPS, LANES)
    inputs, targets = generator.integers(0, SIZES[number] + 2, (2, *shape))
    resets = generator.random(shape) < 0.1
    return BPTTSegment(inputs, targets, resets, np.ones(shape[1:], dtype=bool), {})


def take(learner, numbers=EVERY):
    """Take steps, of which a recorded one is overwritten by the next; gives losses and norms."""
    found = []
    for number in numbers:
        batches = learner.batches(window(number))
        # Whatever else is drawn at random between the steps.
        torch.rand(number, device=learner.fabric.device)
        result = learner.step(batches, number, learner.draw(batches, number))
        found.append([*result.losses.tolist(), float(result.norm)])
    return torch.tensor(found)


@contextlib.contextmanager
def unwaiting():
    """Let nothing wait for the device: what does is an error."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def check_recorded(learner):
    """Check that the last size was recorded, and so done again at least once."""
    assert learner.recorded._captured.graph is not None
    words = [learner.batches(window(number))[0].words for number in EVERY]
    assert learner.recorded.n_words == max(round_up(len(distinct)) for distinct in words)


def check_same(recorded, plain, found, expected):
    """Compare two learners after the same steps, and what these gave."""
    torch.testing.assert_close(found, expected, rtol=2e-4, atol=0)
    torch.testing.assert_close((recorded.h, recorded.c), (plain.h, plain.c), rtol=0, atol=1e-3)
    start, one, other = make_network(SHAPE).state_dict(), weights(recorded), weights(plain)
    moved = 0.0
    for name, first in start.items():
        # A share of the way gone: Adam makes much of the rounding of a gradient that is nearly 0.
        gone = float((other[name].cpu() - first).norm())
        assert float((one[name] - other[name]).norm()) <= 0.01 * gone + 1e-6, name
        moved += gone
    assert moved > 1.0


def test_windows_are_of_several_sizes():
    """What the tests on a GPU count on: sizes grow, and the largest comes more than once."""
    learner = learner_of(config_of("sampled"), "cpu")
    sizes = []
    for number in EVERY:
        (batch,) = learner.batches(window(number))
        drawn = learner.head.draw(number, batch.targets, ROWS_MULTIPLE)
        sizes.append((round_up(len(batch.words)), len(drawn.ids)))
    assert len(set(sizes)) >= 3
    for column in zip(*sizes, strict=True):
        assert column.count(max(column)) >= 3
    rows = [n_rows for _, n_rows in sizes]
    assert rows == sorted(rows)


@pytest.mark.usefixtures("exact")
def test_filled_up_is_plain(softmax, optimizer):
    """The same as below without a GPU: nothing is recorded, the sizes are as if it were."""
    config = config_of(softmax, optimizer)
    filled, plain = learner_of(config, "cpu"), learner_of(config, "cpu")
    without_capture(filled)
    check_same(filled, plain, take(filled), take(plain))


class TestRecorded:
    pytestmark = on_gpu

    @pytest.mark.usefixtures("exact")
    def test_recorded_is_plain(self, softmax, optimizer):
        config = config_of(softmax, optimizer)
        recorded, plain = learner_of(config), learner_of(config)
        assert recorded.recorded is not None
        plain.recorded = None
        found, expected = take(recorded), take(plain)
        check_recorded(recorded)
        check_same(recorded, plain, found, expected)

    def test_half_precision_and_many_lanes(self, monkeypatch, softmax, optimizer):
        """So many that gradients of words are sorted and summed by other kernels."""
        monkeypatch.setattr(sys.modules[__name__], "LANES", 256)
        config = config_of(softmax, optimizer)
        recorded, plain = (learner_of(config, precision="bf16-mixed") for _ in range(2))
        plain.recorded = None
        found, expected = take(recorded), take(plain)
        check_recorded(recorded)
        assert torch.isfinite(expected).all()
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=0)

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize("locked", [False, True])
    def test_every_dropout_is_as_if_it_were_not_recorded(self, softmax, locked):
        """Leaving out words too, which is drawn for those that fill up as well."""
        regular = dataclasses.replace(DROPOUTS, embedding_dropout=0.2, locked=locked)
        config = config_of(softmax, regularization=regular)
        recorded, plain = learner_of(config), learner_of(config)
        without_capture(plain)
        found, expected = take(recorded), take(plain)
        check_recorded(recorded)
        check_same(recorded, plain, found, expected)

    @pytest.mark.usefixtures("exact")
    def test_a_step_is_decided_by_its_number(self):
        """Dropouts of a recording are drawn anew for each step, and again for the same one."""
        learner = learner_of(config_of("full"))
        take(learner, range(SOFTMAX_STEPS, len(SIZES)))
        check_recorded(learner)
        state = copy.deepcopy(learner.state_dict())
        batches = learner.batches(window(4))
        found = []
        for number in (20, 21, 20):
            # In their place, so that the recordings stay.
            learner.network.load_state_dict(state["weights"])
            learner.h.copy_(state["h"])
            learner.c.copy_(state["c"])
            result = learner.step(batches, number)
            found.append([*result.losses.tolist(), float(result.norm)])
        assert found[0] == pytest.approx(found[2], rel=1e-5)
        assert found[0] != pytest.approx(found[1], rel=1e-4)

    @pytest.mark.filterwarnings("ignore:Synchronization debug mode")
    @pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
    def test_the_host_does_not_wait(self, softmax, optimizer, precision):
        """A recorded step is launched and left; only who reads its loss waits for it."""
        learner = learner_of(config_of(softmax, optimizer), precision=precision)
        take(learner)
        check_recorded(learner)
        batches = learner.batches(window(SIZES.index(500)))
        drawn = learner.draw(batches, len(SIZES))
        with unwaiting():
            for number in range(len(SIZES), len(SIZES) + 5):
                result = learner.step(batches, number, drawn)
            with pytest.raises(RuntimeError, match="synchroniz"):
                result.norm.item()
        assert torch.isfinite(result.losses).all()

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
    def test_resumed_is_uninterrupted(self, tmp_path, softmax, optimizer, precision):
        config = config_of(softmax, optimizer)
        learner, again = (learner_of(config, seed=seed, precision=precision) for seed in (0, 99))
        take(learner, range(9))
        checkpoint.save(tmp_path, 9, {"learner": learner.state_dict()})
        left = range(9, len(SIZES))
        expected = take(learner, left)
        # One begun anew, and one that has recorded what it must forget.
        for each in (again, learner):
            each.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
            torch.testing.assert_close(take(each, left), expected, rtol=1e-3, atol=0)

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize(("before", "after"), [("cpu", "cuda"), ("cuda", "cpu")])
    def test_another_machine_goes_on(self, tmp_path, softmax, optimizer, before, after):
        """Without dropout, which is another one on another machine."""
        config = config_of(softmax, optimizer, RegularizationConfig(dropout=0.0))
        learner, again = learner_of(config, before), learner_of(config, after, seed=99)
        take(learner, range(6))
        checkpoint.save(tmp_path, 6, {"learner": learner.state_dict()})
        left = range(6, len(SIZES))
        expected = take(learner, left)
        again.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
        torch.testing.assert_close(take(again, left), expected, rtol=1e-3, atol=0)
