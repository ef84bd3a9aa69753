"""Tests of recurrent language models on a GPU."""

import dataclasses

import pytest
import torch
from small_language_models import TEXT, small_config

from elmo.config import OptimizerConfig, RunConfig
from elmo.config.language_models import (
    AveragingConfig,
    RecurrentConfig,
    RecurrentDropoutConfig,
    SymbolConfig,
)
from elmo.kernels.exact_float32 import exact_float32
from elmo.lab.recurrent_folder import read_model
from elmo.lab.recurrent_model import LanguageModel
from elmo.lab.recurrent_trainable import RecurrentTrainable
from elmo.lab.symbol_text import read_training_text, text_part
from elmo.lab.text_loss import text_loss
from elmo.lab.train_lm import train_lm, training_job
from elmo.train.devices import make_fabric

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

DROPOUTS = RecurrentDropoutConfig(dropout=0.2, weight_drop=0.2, embedding_dropout=0.1)
WORDS = {
    "symbols": SymbolConfig(unit="words"),
    "network": RecurrentConfig(
        n_layers=1, hidden_dim=16, word_input="characters", filters=((1, 4), (2, 4)), n_highway=1
    ),
}


@pytest.fixture
def exact():
    """Compute in full float32: TF32 can turn a rounding error of 1e-7 into one of 1e-3."""
    with exact_float32():
        yield


def trained(config, n_steps, *, use_graph):
    """Return the losses and the final weights of a number of steps."""
    fabric = make_fabric(config.run)
    trainable = RecurrentTrainable(training_job(config, read_training_text(config)), fabric)
    assert trainable.graph_step is not None
    if not use_graph:
        trainable.graph_step = None
    losses = [
        float(trainable.step(batch, number, 1.0).losses)
        for number, batch in zip(range(n_steps), trainable.batches(0), strict=False)
    ]
    return losses, {name: value.clone() for name, value in trainable.network.state_dict().items()}


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "lstmp"])
def test_captured_steps_equal_eager_steps(tmp_path, cell):
    config = small_config(tmp_path, network=RecurrentConfig(cell=cell, n_layers=2, hidden_dim=16))
    graph, eager = (trained(config, 12, use_graph=use) for use in (True, False))
    torch.testing.assert_close(torch.tensor(graph[0]), torch.tensor(eager[0]))
    for name, value in graph[1].items():
        torch.testing.assert_close(value, eager[1][name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "sections",
    [
        {"regularization": DROPOUTS, "averaging": AveragingConfig(average="ema")},
        {"network": RecurrentConfig(n_layers=1, hidden_dim=16, mogrifier_rounds=2)},
        {"regularization": RecurrentDropoutConfig(state_dropout=0.3)},
        WORDS,
    ],
    ids=["dropout and average", "mogrifier", "state dropout", "characters of words"],
)
def test_recipes_lower_the_loss_in_captured_steps(tmp_path, sections):
    losses, _ = trained(small_config(tmp_path, **sections), 60, use_graph=True)
    assert sum(losses[-5:]) < sum(losses[:5]) - 0.5


def test_dropout_differs_between_captured_steps(tmp_path):
    config = small_config(tmp_path, regularization=DROPOUTS)
    graph, eager = (trained(config, 8, use_graph=use)[0] for use in (True, False))
    torch.testing.assert_close(torch.tensor(graph), torch.tensor(eager), rtol=1e-3, atol=1e-3)


def test_model_trained_on_a_gpu_has_the_same_loss_on_a_cpu(tmp_path):
    config = small_config(tmp_path, run=RunConfig(epochs=4, precision="bfloat16"))
    train_lm(config)
    losses = []
    for device in ("cuda", "cpu"):
        model = read_model(config.out, device)
        part = text_part(TEXT, model.symbols)
        losses.append(text_loss(model.network, model.symbols, part).nats)
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)


def test_samples_are_equal_on_gpu_and_cpu(tmp_path):
    config = small_config(tmp_path, run=RunConfig(epochs=4))
    train_lm(config)
    texts = [
        LanguageModel.load(config.out, device).sample("the ", 40) for device in ("cuda", "cpu")
    ]
    assert texts[0] == texts[1]


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("name", ["adamw", "adagrad", "muon"])
def test_resumed_run_equals_uninterrupted_run(tmp_path, name):
    whole = small_config(
        tmp_path,
        # The learning rate rises in all steps: one captured as a constant would be too low.
        optimizer=OptimizerConfig(optimizer=name, learning_rate=0.01, warmup_steps=40),
        regularization=DROPOUTS,
        averaging=AveragingConfig(average="ema"),
        run=RunConfig(epochs=6, max_steps=40, checkpoint_every=10),
    )
    train_lm(whole)
    parts = dataclasses.replace(whole, out=str(tmp_path / "parts"))
    interrupt(parts, at=25)
    train_lm(parts)
    expected = read_model(whole.out).network.state_dict()
    for name, value in read_model(parts.out).network.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-3, atol=1e-4)


def interrupt(config, at):
    """Train until an exception at a step, after which the last checkpoint is left."""
    step = RecurrentTrainable.step

    def failing(self, batch, number, rate_factor):
        if number == at:
            raise KeyboardInterrupt
        return step(self, batch, number, rate_factor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecurrentTrainable, "step", failing)
        with pytest.raises(KeyboardInterrupt):
            train_lm(config)
