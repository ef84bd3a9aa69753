"""Tests of CUDA graph steps: conditions, sizes and, on a GPU, equality with eager steps."""

import contextlib
import copy
import dataclasses
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric
from tiny_runs import CHARACTER_MODEL, make_config, make_network, weights, without_capture

from elmo.config import OptimizerConfig, RegularizationConfig
from elmo.corpus.bptt_segments import BPTTSegment
from elmo.corpus.shards import DistinctWords
from elmo.corpus.token_tables import SegmentBatch, token_tables
from elmo.kernels.exact_float32 import exact_float32
from elmo.text.token_batches import token_mapper
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from elmo.train import checkpoint
from elmo.train import learner as learner_module
from elmo.train.cuda_graph import CudaGraphStep, can_capture, round_up
from elmo.train.learner import Learner
from elmo.train.step_input import StepInput


@pytest.mark.parametrize(
    ("device", "processes", "accumulate", "softmax", "expected"),
    [
        ("cuda", 1, 1, "full", True),
        ("cuda", 1, 1, "sampled", True),
        ("cpu", 1, 1, "full", False),
        ("cuda", 2, 1, "full", False),
        ("cuda", 1, 2, "full", False),
        # The number of targets in a cluster differs between steps.
        ("cuda", 1, 1, "adaptive", False),
    ],
)
def test_can_capture_depends_on_device_and_run_options(
    device, processes, accumulate, softmax, expected
):
    fabric = SimpleNamespace(device=torch.device(device), world_size=processes)
    config = make_config(softmax, accumulate=accumulate)
    assert can_capture(fabric, config) == expected
    run = dataclasses.replace(config.run, kernel="reference")
    assert not can_capture(fabric, dataclasses.replace(config, run=run))


def test_round_up_returns_few_distinct_sizes_slightly_above_n():
    sizes = [round_up(n) for n in range(1, 16_385)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 64
    assert all(size - n < max(64, n / 8) for n, size in enumerate(sizes, start=1) if size != n)
    assert all(round_up(size) == size for size in set(sizes))


# ------------------------------------------------------------------------------------ fake CUDA


@pytest.fixture
def graph_step(monkeypatch):
    """Return a `CudaGraphStep` on the CPU, whose graphs do nothing when they are replayed."""
    for name in ("Stream", "current_stream", "Event", "CUDAGraph"):
        monkeypatch.setattr(torch.cuda, name, lambda *arguments: MagicMock())
    for name in ("stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, lambda argument: contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    empty = torch.empty
    monkeypatch.setattr(
        torch, "empty", lambda *size, pin_memory=False, **rest: empty(*size, **rest)
    )
    return CudaGraphStep(torch.device("cpu"))


def input_of(n_words, seed):
    draw = np.random.default_rng(seed)
    index, targets = draw.integers(0, n_words, (2, 2, STEPS, STREAMS))
    batch = SegmentBatch(draw.integers(1, 500, n_words), index, targets, targets > n_words / 2)
    return StepInput.of([batch], None)


def test_graph_step_captures_the_second_step_of_each_shape_and_replays_it(graph_step):
    updates = []

    def update(step_input, frozen):
        updates.append((step_input, frozen))
        return torch.tensor(float(len(updates))), torch.zeros(())

    # Number of distinct words, whether the biLM is frozen, total number of updates called.
    steps = [
        *((40, True, 1), (50, True, 2), (64, True, 2), (40, True, 2)),
        *((40, False, 3), (40, False, 4), (40, False, 4)),
        *((100, False, 5), (40, False, 6), (128, False, 6), (129, False, 7)),
    ]
    for number, (n_words, frozen, n_updates) in enumerate(steps):
        step_input = input_of(n_words, number)
        loss, _ = graph_step(update, step_input, frozen=frozen)
        assert (len(updates), loss) == (n_updates, n_updates), number
        captured = graph_step._captured
        padded = step_input.pad_words(graph_step.n_words)
        assert (len(padded.batches[0].words), updates[-1][1]) == (graph_step.n_words, frozen)
        if captured.graph is None:
            (given,) = updates[-1][0].batches
        else:
            # The buffer from which the graph reads its input.
            (given,) = padded.split(captured.flat).batches
        torch.testing.assert_close(vars(given), vars(padded.batches[0]), rtol=0, atol=0)
    assert graph_step.n_words == 192
    captured = graph_step._captured
    graph_step.forget()
    graph_step(update, input_of(40, 0), frozen=False)
    assert (len(updates), captured.graph, graph_step._captured.graph) == (8, None, None)


def test_graph_step_counts_replays(graph_step):
    def update(step_input, frozen):
        return torch.zeros(2), torch.zeros(())

    for number in range(5):
        graph_step(update, input_of(40, number), frozen=False)
    # The second step captures the graph, which does not run the step, and replays it.
    assert graph_step._captured.graph.replay.call_count == 4


# ------------------------------------------------------------------------------------ on a GPU

on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

WORDS = [f"w{number}" for number in range(500)]
# The last hundred words are not in the softmax vocabulary.
VOCABULARY = Vocabulary([*SPECIAL_TOKENS, *WORDS[:400]])
SHAPE = dataclasses.replace(CHARACTER_MODEL, n_softmax_words=len(VOCABULARY))
STREAMS, STEPS = 8, 20
# Number of words of each segment: three sizes, each at least four times.
SIZES = [40, 40, 40, 200, 500, 40, 200, 500, 40, 200, 500, 200, 500, 40]
EVERY = range(len(SIZES))
# In the first steps, all of one size, only the softmax is trained.
SOFTMAX_STEPS = 3
ROWS_MULTIPLE = 128

DROPOUTS = RegularizationConfig(dropout=0.3, output_dropout=0.2, weight_drop=0.2)
# Schedules that change the rate: a rate captured as a constant would give other results.
ADAGRAD = OptimizerConfig(warmup_steps=10)
ADAMW = OptimizerConfig(
    optimizer="adamw",
    learning_rate=0.003,
    weight_decay=0.1,
    warmup_steps=5,
    schedule="cosine",
    clip_norm=1.0,
)
MUON = dataclasses.replace(ADAMW, optimizer="muon")


@pytest.fixture(params=["full", "sampled"])
def softmax(request, monkeypatch):
    monkeypatch.setattr(learner_module, "ROWS_MULTIPLE", ROWS_MULTIPLE)
    return request.param


@pytest.fixture(params=[ADAGRAD, ADAMW, MUON], ids=lambda config: config.optimizer)
def optimizer(request):
    return request.param


@pytest.fixture
def exact():
    with exact_float32():
        yield


def config_of(softmax, optimizer=ADAGRAD, regularization=DROPOUTS):
    return make_config(
        softmax, optimizer, regularization, batch_size=STREAMS, unroll=STEPS, reset=0.5
    )


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


def segment_of(number):
    """Return the BPTT segment for a step."""
    generator, shape = np.random.default_rng(number), (2, STEPS, STREAMS)
    inputs, targets = generator.integers(0, SIZES[number] + 2, (2, *shape))
    resets = generator.random(shape) < 0.1
    return BPTTSegment(inputs, targets, resets, np.ones(shape[1:], dtype=bool), {})


def run_steps(learner, numbers=EVERY):
    """Run training steps and return their losses and gradient norms, of shape (steps, 3)."""
    results = []
    for number in numbers:
        batches = learner.batches(segment_of(number))
        # Random numbers drawn between steps must have no effect.
        torch.rand(number, device=learner.fabric.device)
        result = learner.step(batches, number, learner.draw(batches, number))
        # Copied at once, since the next captured step overwrites them.
        results.append([*result.losses.tolist(), float(result.norm)])
    return torch.tensor(results)


@contextlib.contextmanager
def no_synchronization():
    """Raise an error at every synchronization with the device."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def check_captured(learner):
    """Check that a graph was captured for the last size, so that it was replayed at least once."""
    assert learner.graph_step._captured.graph is not None
    words = [learner.batches(segment_of(number))[0].words for number in EVERY]
    assert learner.graph_step.n_words == max(round_up(len(distinct)) for distinct in words)


def check_same(captured, eager, results, expected):
    """Check that two learners have equal states and results after the same steps."""
    torch.testing.assert_close(results, expected, rtol=2e-4, atol=0)
    torch.testing.assert_close((captured.h, captured.c), (eager.h, eager.c), rtol=0, atol=1e-3)
    start, one, other = make_network(SHAPE).state_dict(), weights(captured), weights(eager)
    total = 0.0
    for name, first in start.items():
        # Relative to the total change, since Adam amplifies the rounding of gradients near 0.
        change = float((other[name].cpu() - first).norm())
        assert float((one[name] - other[name]).norm()) <= 0.01 * change + 1e-6, name
        total += change
    assert total > 1.0


def test_segments_in_gpu_tests_have_several_padded_sizes():
    """The GPU tests assume that sizes grow and that the largest size occurs several times."""
    learner = learner_of(config_of("sampled"), "cpu")
    sizes = []
    for number in EVERY:
        (batch,) = learner.batches(segment_of(number))
        drawn = learner.head.draw(number, batch.targets, ROWS_MULTIPLE)
        sizes.append((round_up(len(batch.words)), len(drawn.ids)))
    assert len(set(sizes)) >= 3
    for column in zip(*sizes, strict=True):
        assert column.count(max(column)) >= 3
    rows = [n_rows for _, n_rows in sizes]
    assert rows == sorted(rows)


@pytest.mark.usefixtures("exact")
def test_padded_steps_equal_eager_steps(softmax, optimizer):
    """This runs without a GPU: inputs are padded as for a CUDA graph, but steps run eagerly."""
    config = config_of(softmax, optimizer)
    padded, eager = learner_of(config, "cpu"), learner_of(config, "cpu")
    without_capture(padded)
    check_same(padded, eager, run_steps(padded), run_steps(eager))


class TestCaptured:
    pytestmark = on_gpu

    @pytest.mark.usefixtures("exact")
    def test_captured_steps_equal_eager_steps(self, softmax, optimizer):
        config = config_of(softmax, optimizer)
        captured, eager = learner_of(config), learner_of(config)
        assert captured.graph_step is not None
        eager.graph_step = None
        results, expected = run_steps(captured), run_steps(eager)
        check_captured(captured)
        check_same(captured, eager, results, expected)

    def test_captured_steps_equal_eager_steps_in_bfloat16_with_large_batch(
        self, monkeypatch, softmax, optimizer
    ):
        """With a large batch, PyTorch uses different kernels for embedding gradients."""
        monkeypatch.setattr(sys.modules[__name__], "STREAMS", 256)
        config = config_of(softmax, optimizer)
        captured, eager = (learner_of(config, precision="bf16-mixed") for _ in range(2))
        eager.graph_step = None
        results, expected = run_steps(captured), run_steps(eager)
        check_captured(captured)
        assert torch.isfinite(expected).all()
        torch.testing.assert_close(results, expected, rtol=2e-2, atol=0)

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize("locked", [False, True])
    def test_captured_steps_use_the_same_dropout_masks_as_padded_eager_steps(self, softmax, locked):
        """This includes embedding dropout, which also draws random numbers for padding words."""
        regularization = dataclasses.replace(DROPOUTS, embedding_dropout=0.2, locked=locked)
        config = config_of(softmax, regularization=regularization)
        captured, eager = learner_of(config), learner_of(config)
        without_capture(eager)
        results, expected = run_steps(captured), run_steps(eager)
        check_captured(captured)
        check_same(captured, eager, results, expected)

    @pytest.mark.usefixtures("exact")
    def test_dropout_in_captured_steps_depends_only_on_the_step_number(self):
        """Replays use the same dropout mask only for the same step number."""
        learner = learner_of(config_of("full"))
        run_steps(learner, range(SOFTMAX_STEPS, len(SIZES)))
        check_captured(learner)
        state = copy.deepcopy(learner.state_dict())
        batches = learner.batches(segment_of(4))
        results = []
        for number in (20, 21, 20):
            # In place, so that the graph stays valid.
            learner.network.load_state_dict(state["weights"])
            learner.h.copy_(state["h"])
            learner.c.copy_(state["c"])
            result = learner.step(batches, number)
            results.append([*result.losses.tolist(), float(result.norm)])
        assert results[0] == pytest.approx(results[2], rel=1e-5)
        assert results[0] != pytest.approx(results[1], rel=1e-4)

    @pytest.mark.filterwarnings("ignore:Synchronization debug mode")
    @pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
    def test_captured_step_does_not_synchronize_with_the_device(
        self, softmax, optimizer, precision
    ):
        """Only reading the loss synchronizes with the device."""
        learner = learner_of(config_of(softmax, optimizer), precision=precision)
        run_steps(learner)
        check_captured(learner)
        batches = learner.batches(segment_of(SIZES.index(500)))
        drawn = learner.draw(batches, len(SIZES))
        with no_synchronization():
            for number in range(len(SIZES), len(SIZES) + 5):
                result = learner.step(batches, number, drawn)
            with pytest.raises(RuntimeError, match="synchroniz"):
                result.norm.item()
        assert torch.isfinite(result.losses).all()

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
    def test_captured_steps_after_resuming_equal_uninterrupted_steps(
        self, tmp_path, softmax, optimizer, precision
    ):
        config = config_of(softmax, optimizer)
        learner, resumed = (learner_of(config, seed=seed, precision=precision) for seed in (0, 99))
        run_steps(learner, range(9))
        checkpoint.save(tmp_path, 9, {"learner": learner.state_dict()})
        left = range(9, len(SIZES))
        expected = run_steps(learner, left)
        # A new learner, and one that must discard its captured graph.
        for each in (resumed, learner):
            each.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
            torch.testing.assert_close(run_steps(each, left), expected, rtol=1e-3, atol=0)

    @pytest.mark.usefixtures("exact")
    @pytest.mark.parametrize(("before", "after"), [("cpu", "cuda"), ("cuda", "cpu")])
    def test_checkpoint_can_be_resumed_on_another_device(
        self, tmp_path, softmax, optimizer, before, after
    ):
        """Dropout is disabled, because its masks differ between devices."""
        config = config_of(softmax, optimizer, RegularizationConfig(dropout=0.0))
        learner, resumed = learner_of(config, before), learner_of(config, after, seed=99)
        run_steps(learner, range(6))
        checkpoint.save(tmp_path, 6, {"learner": learner.state_dict()})
        left = range(6, len(SIZES))
        expected = run_steps(learner, left)
        resumed.load_state_dict(checkpoint.load_newest(tmp_path)["learner"])
        torch.testing.assert_close(run_steps(resumed, left), expected, rtol=1e-3, atol=0)
