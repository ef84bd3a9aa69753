"""Tests of the training of recurrent language models, with a stand-in for the CUDA graph."""

from types import SimpleNamespace

import pytest
from small_language_models import small_config

from elmo.config import OptimizerConfig, RunConfig
from elmo.config.language_models import RecurrentConfig, SymbolConfig
from elmo.lab.recurrent_trainable import RecurrentTrainable
from elmo.lab.symbol_text import read_training_text
from elmo.lab.train_lm import training_job
from elmo.train.devices import make_fabric
from elmo.train.optim import make_optimizer


def trainable(tmp_path, **sections):
    config = small_config(tmp_path, run=RunConfig(accelerator="cpu"), **sections)
    return RecurrentTrainable(
        training_job(config, read_training_text(config)), make_fabric(config.run)
    )


def test_options_of_the_optimizer_are_not_loaded(tmp_path):
    """With the learning rate of a GPU run as a CPU tensor, a CUDA graph would capture its value."""
    saved, resumed = trainable(tmp_path), trainable(tmp_path)
    saved.optimizer = make_optimizer(saved.parameters, saved.config.optimizer, capturable=True)
    for number, batch in zip(range(2), saved.batches(0), strict=False):
        saved.step(batch, number, 1.0)
    resumed.load_state_dict(saved.state_dict())
    for group in resumed.optimizer.param_groups:
        assert isinstance(group["lr"], float)
        assert not group["capturable"]
    counts = [state["step"].item() for state in resumed.optimizer.state.values()]
    assert counts == [2.0] * len(resumed.parameters)


def test_number_of_padded_words_is_loaded_and_the_graph_discarded(tmp_path):
    """Embedding dropout draws a random number for padding words too."""
    forgotten = []
    saved, resumed = trainable(tmp_path), trainable(tmp_path)
    saved.graph_step = SimpleNamespace(n_words=128)
    resumed.graph_step = SimpleNamespace(n_words=64, forget=lambda: forgotten.append(True))
    state = saved.state_dict()
    resumed.load_state_dict(state)
    assert (resumed.graph_step.n_words, forgotten) == (128, [True])
    resumed.load_state_dict({name: value for name, value in state.items() if name != "n_words"})
    assert resumed.graph_step.n_words == 0


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_loss_is_per_unit_of_the_text(tmp_path, unit):
    made = trainable(tmp_path, symbols=SymbolConfig(unit=unit))
    assert made.loss_unit == f"nats per {unit[:-1]}"


@pytest.mark.parametrize("word_input", ["ids", "characters"])
def test_muon_trains_the_matrices_of_layers_and_encoder(tmp_path, word_input):
    network = RecurrentConfig(
        cell="lstmp",
        n_layers=1,
        hidden_dim=8,
        projection_dim=4,
        word_input=word_input,
        filters=((1, 4), (2, 4)),
        n_highway=1,
    )
    made = trainable(
        tmp_path,
        symbols=SymbolConfig(unit="words"),
        network=network,
        optimizer=OptimizerConfig(optimizer="muon"),
    )
    names = {value: name for name, value in made.network.named_parameters()}
    expected = {f"layers.0.weight_{kind}" for kind in ("ih", "hh", "hr")}
    if word_input == "characters":
        expected |= {
            "encoder.characters.highway.0.linear.weight",
            "encoder.projection.weight",
        }
    assert {names[value] for value in made.optimizer.param_groups[0]["params"]} == expected
