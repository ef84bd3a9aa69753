"""Parity tests with bilm-tf training: losses, gradients, Adagrad, states and perplexity."""

import json

import numpy as np
import pytest
import torch
from lightning.fabric import Fabric

from elmo.config import (
    EvaluateConfig,
    LossConfig,
    OptimizerConfig,
    PretrainConfig,
    RunConfig,
    StreamConfig,
)
from elmo.corpus.token_tables import SegmentBatch, TokenTables, distinct
from elmo.evaluate.evaluate_model import evaluate
from elmo.formats import bilm_hdf5
from elmo.formats.bilm_tf import hdf5_name
from elmo.model.losses import log_expected_count, sampled_logits, sampled_losses
from elmo.model.network import ELMoNetwork
from elmo.text.characters import SHIFT
from elmo.train.learner import Learner

SUFFIXES = ("", "_reverse")


@pytest.fixture
def golden(golden_path):
    return np.load(golden_path("generated/bilm-tf/train_steps_char_skip.npz"))


@pytest.fixture
def options(golden_path):
    path = golden_path("generated/bilm-tf/train_steps_char_skip_options.json")
    return json.loads(path.read_text())


def read_variables(golden, options, prefix):
    """Return the golden variables with the given name prefix as a model."""
    names = [name for name in golden.files if name.startswith(f"{prefix}/")]
    arrays = {hdf5_name(name.removeprefix(f"{prefix}/")): golden[name] for name in names}
    return bilm_hdf5.read(options, arrays, label="golden", origin="golden", vocabulary=None)


def distinct_rows(golden):
    """Return the distinct input tokens of all steps, and the index of each token.

    Returns:
        Character ids of the distinct tokens, (distinct tokens, columns), and the index of each
        input token among them, (steps, 2, time, streams).
    """
    steps = [
        np.stack([golden[f"step{step}/in/tokens_characters{suffix}"] for suffix in SUFFIXES])
        for step in range(3)
    ]
    inputs = np.stack(steps).transpose(0, 1, 3, 2, 4).astype(np.int64) + SHIFT
    rows, index = np.unique(inputs.reshape(-1, inputs.shape[-1]), axis=0, return_inverse=True)
    return rows, index.reshape(inputs.shape[:4])


def batch_of(golden, step):
    """Return the golden inputs of a training step as a batch for the learner."""
    rows, index = distinct_rows(golden)
    targets = np.stack([golden[f"step{step}/in/next_token_id{suffix}"].T for suffix in SUFFIXES])
    resets = np.zeros(targets.shape, dtype=bool)
    return SegmentBatch(*distinct(index[step], len(rows)), targets.astype(np.int64), resets)


def make_learner(golden, options, accumulate=1):
    start = read_variables(golden, options, "init")
    network = ELMoNetwork(config=start.config)
    network.load_state_dict(dict(start.weights))
    config = PretrainConfig(
        data=(),
        out="",
        stream=StreamConfig(batch_size=2, unroll=10),
        loss=LossConfig("full"),
        optimizer=OptimizerConfig(clip_norm=options["all_clip_norm_val"]),
        run=RunConfig(accumulate=accumulate),
    )
    rows, _ = distinct_rows(golden)
    unused = np.zeros(len(rows), dtype=np.int64)
    tables = TokenTables(rows, unused, unused.astype(bool), unused)
    return Learner(Fabric(accelerator="cpu", devices=1), network, config, tables, n_steps=3)


def assert_close(actual, expected, name):
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=2e-6, err_msg=name)


def check_states(learner, golden, number):
    for direction in (0, 1):
        for layer in range(2):
            scope = f"step{number}/state/{direction}/{layer}"
            assert_close(learner.c[layer, direction], golden[f"{scope}/c"], f"{scope}/c")
            assert_close(learner.h[layer, direction], golden[f"{scope}/h"], f"{scope}/h")


def test_three_training_steps_match_bilm_tf(golden, options):
    learner = make_learner(golden, options)
    gradients = []
    step = learner.optimizer.step

    def record_gradients():
        named = learner.network.named_parameters()
        gradients.append({name: v.grad.clone() for name, v in named if v.grad is not None})
        step()

    learner.optimizer.step = record_gradients
    for number in range(3):
        result = learner.step([batch_of(golden, number)], number)
        assert_close(result.losses[0], golden[f"step{number}/loss_forward"], "forward loss")
        assert_close(result.losses[1], golden[f"step{number}/loss_backward"], "backward loss")
        assert_close(result.losses.mean(), golden[f"step{number}/loss_total"], "total")
        assert_close(result.norm, golden[f"step{number}/global_grad_norm"], "norm")
        check_states(learner, golden, number)
    clip = options["all_clip_norm_val"]
    scale = clip / max(float(golden["step0/global_grad_norm"]), clip)
    expected = read_variables(golden, options, "step0/grad").weights
    for name, value in gradients[0].items():
        assert_close(value, expected[name] * scale, f"gradient of {name}")
    check_weights(learner, golden, options)


def check_weights(learner, golden, options):
    """Compare the weights and Adagrad accumulators after three training steps."""
    after = read_variables(golden, options, "after3").weights
    accumulators = read_variables(golden, options, "after3_accumulator").weights
    named = dict(learner.network.named_parameters())
    trained = [name for name in after if not name.startswith("mixes.")]
    assert len(trained) == len(learner.optimizer.state)
    for name in trained:
        assert_close(named[name].detach(), after[name], name)
        # bilm-tf has no row for the mask in the character embedding.
        first = 1 if name == "bilm.encoder.characters.embedding.weight" else 0
        sums = learner.optimizer.state[named[name]]["sum"]
        assert_close(sums[first:], accumulators[name][first:], f"accumulator of {name}")


def test_gradient_accumulation_matches_single_batch(golden, options):
    single, accumulated = make_learner(golden, options), make_learner(golden, options, accumulate=2)
    for number in range(3):
        batch = batch_of(golden, number)
        parts = [
            SegmentBatch(
                batch.words, batch.index[:, :, streams], batch.targets[:, :, streams], batch.resets
            )
            for streams in (slice(0, 1), slice(1, 2))
        ]
        first, second = single.step([batch], number), accumulated.step(parts, number)
        torch.testing.assert_close(first.losses, second.losses)
        torch.testing.assert_close(first.norm, second.norm)
    for name, value in single.network.state_dict().items():
        torch.testing.assert_close(
            accumulated.network.state_dict()[name], value, rtol=1e-4, atol=1e-6
        )


def test_sampled_softmax_loss_matches_bilm_tf(golden_path):
    data = np.load(golden_path("generated/bilm-tf/sampled_softmax.npz"))
    weight, bias, hidden = (torch.from_numpy(data[name]) for name in ("W", "b", "h"))
    labels, sampled = torch.from_numpy(data["labels"]), torch.from_numpy(data["sampled"])
    true_q, sampled_q = (log_expected_count(ids, 1000, 96) for ids in (labels, sampled))
    assert_close(true_q.exp(), data["true_expected"][:, 0], "expected counts of the targets")
    assert_close(sampled_q.exp(), data["sampled_expected"], "expected counts of the candidates")
    logits = sampled_logits(
        hidden,
        true_weight=weight[labels],
        true_bias=bias[labels],
        true_log_expected=true_q,
        sampled_weight=weight[sampled],
        sampled_bias=bias[sampled],
        sampled_log_expected=sampled_q,
        targets=labels,
        sampled=sampled,
    )
    assert_close(sampled_losses(logits), data["losses"], "losses")


@pytest.mark.parametrize("batch_size", [1, 2])
def test_perplexity_matches_bilm_tf_run_test(golden_path, batch_size):
    folder = golden_path("generated/bilm-tf")
    expected = json.loads((folder / "checkpoint_run_test_perplexity.json").read_text())
    train = golden_path("bilm-tf/train")
    result = evaluate(
        EvaluateConfig(
            text=(str(train / "data.txt"),),
            model=str(folder / "checkpoint"),
            vocab=str(train / "vocab.txt"),
            state="carry",
            batch_size=batch_size,
            unroll=1,
            drop_tail=True,
        )
    )
    assert result.perplexity.mean == pytest.approx(expected[f"batch_size={batch_size}"], rel=1e-4)
