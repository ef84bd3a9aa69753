"""Tests of the run plan: number of steps, memory estimate, and suggested batch size."""

import pytest
import torch
from conftest import TINY

from elmo.config import (
    EncoderConfig,
    LossConfig,
    LSTMConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainConfig,
    RegularizationConfig,
    RunConfig,
    StreamConfig,
    TextConfig,
)
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.bilm import BiLM
from elmo.train import run_plan as planning
from elmo.train.run_plan import RunPlan, available_memory, fitting_batch, length_notes, plan

ORIGINAL = ModelConfig(n_softmax_words=793_471)


def make(model=ORIGINAL, stream=None, loss=None, optimizer=None, run=None, n_pairs=1_000_000):
    config = PretrainConfig(
        data=(),
        out="",
        stream=stream or StreamConfig(),
        loss=loss or LossConfig(softmax="sampled"),
        optimizer=optimizer or OptimizerConfig(),
        run=run or RunConfig(),
    )
    return plan(model, config, n_bilm=93_600_848, n_softmax=793_471 * 513, n_pairs=n_pairs)


def test_plan_returns_the_number_of_steps():
    two_epochs = make(run=RunConfig(epochs=2))
    assert two_epochs.tokens_per_step == 128 * 20
    assert two_epochs.steps_per_epoch == 1_000_000 / 2560
    assert two_epochs.n_steps == 782  # rounded up
    assert make(run=RunConfig(max_steps=5)).n_steps == 5
    assert make(n_pairs=3).n_steps == 1


def test_memory_estimate_depends_on_training_options():
    base = make().memory
    assert make(stream=StreamConfig(batch_size=256)).memory.segment > 1.7 * base.segment
    assert make(stream=StreamConfig(batch_size=256)).memory.fixed == base.fixed
    assert make(stream=StreamConfig(directions="independent")).memory.segment > base.segment
    assert make(run=RunConfig(accumulate=2)).memory.segment < base.segment
    assert make(run=RunConfig(devices=2)).memory.segment < base.segment
    assert make(run=RunConfig(devices=2)).memory.fixed > base.fixed
    assert make(run=RunConfig(precision="bfloat16")).memory.segment < base.segment
    assert make(optimizer=OptimizerConfig(optimizer="adamw")).memory.fixed > base.fixed
    full, adaptive = (make(loss=LossConfig(softmax=name)).memory for name in ("full", "adaptive"))
    assert full.fixed > base.fixed
    assert adaptive.segment > base.segment
    assert base.total == base.fixed + base.segment


def test_notes_explain_a_run_that_is_shorter_than_max_steps_or_than_warmup():
    optimizer = OptimizerConfig(warmup_steps=100)
    (ends, rises) = length_notes(8, optimizer, RunConfig(epochs=3.0, max_steps=10))
    assert "before --max-steps 10, because --epochs is 3;" in ends
    assert "--warmup-steps 100" in rises
    assert length_notes(101, optimizer, RunConfig(max_steps=101)) == []
    assert length_notes(1, OptimizerConfig(), RunConfig()) == []


def test_memory_estimate_is_lower_for_word_input_than_for_characters():
    words = ModelConfig(
        TextConfig(characters="none"),
        EncoderConfig(n_characters=0, n_words=100, word_dim=16),
        LSTMConfig(cell_dim=32, projection_dim=16),
        n_softmax_words=100,
    )
    assert 0 < make(words).memory.segment < make().memory.segment


def kept_bytes(module, *inputs):
    """Return the number of bytes that autograd saves for the backward pass, excluding weights."""
    weights = {weight.untyped_storage().data_ptr() for weight in module.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage  # keep a reference, so that no address is reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(*inputs)
    return sum(storage.nbytes() for storage in kept.values())


def test_segment_memory_estimate_matches_memory_saved_by_autograd(monkeypatch):
    steps, streams, distinct = 10, 8, 40
    monkeypatch.setattr(planning, "distinct_words", lambda _: distinct)
    config = ModelConfig(
        TextConfig(max_characters=20),
        EncoderConfig(filters=((1, 16), (3, 32)), n_highway=2),
        LSTMConfig(cell_dim=96, projection_dim=32),
    )
    bilm = BiLM(config=config)
    for weight in bilm.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    model = BidirectionalLM(bilm=bilm, regularization=RegularizationConfig(dropout=0.1))
    rows = torch.randint(1, 262, (distinct, 20))
    index = torch.randint(0, distinct, (2, steps, streams))
    state = torch.zeros(2, 2, streams, 32), torch.zeros(2, 2, streams, 96)
    measured = kept_bytes(model, rows, index, None, *state)
    estimated = planning.segment_memory(
        config, n_streams=streams, n_steps=steps, shared=True, loss=LossConfig(), value_bytes=4
    )
    # The estimate also counts one gradient, which exists only during the backward pass.
    assert measured < estimated < 1.3 * measured


def test_run_plan_is_formatted_as_a_table():
    text = str(make())
    assert "93.6 M biLM, 407.1 M softmax" in text
    assert "1,000,000 tokens" in text
    assert "390.6 steps of 2,560" in text
    assert "3,907 steps, 10 epochs" in text
    assert "GiB per device" in text
    small = str(RunPlan(645904, 78975, 10, 10, 1, make(TINY).memory))
    assert "645,904 biLM, 78,975 softmax" in small
    assert "run      1 step, 1 epoch\n" in small


@pytest.mark.parametrize(
    ("available", "batch"),
    [(1060, 96), (1000, 64), (740, 64), (700, 48), (110, 1), (109, 0), (50, 0), (10**9, 96)],
)
def test_fitting_batch_returns_the_largest_round_size_that_fits(available, batch):
    # 100 bytes are fixed, and each row needs 10 more.
    assert fitting_batch(128, 100 + 1280, 100, available) == batch


def test_available_memory_on_cpu_is_plausible_or_unknown():
    available = available_memory(torch.device("cpu"))
    assert available is None or available > 2**20


def test_available_memory_returns_none_if_unknown(monkeypatch):
    monkeypatch.setattr(planning.Path, "read_text", lambda *_, **__: "MemTotal: 3 kB\n")
    assert available_memory(torch.device("cpu")) is None

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(planning.Path, "read_text", missing)
    assert available_memory(torch.device("cpu")) is None
