"""Tests of input from characters: words that are not symbols are read by their spelling."""

import math

import pytest
import torch
from small_language_models import small_config
from small_networks import small_network

from elmo.config import RunConfig
from elmo.config.language_models import RecurrentConfig, SymbolConfig
from elmo.lab import LanguageModel
from elmo.lab.dynamic_evaluation import dynamic_loss
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.recurrent_trainable import RecurrentTrainable
from elmo.lab.symbol_text import read_training_text, text_part
from elmo.lab.text_loss import text_loss
from elmo.lab.train_lm import train_lm, training_job
from elmo.lab.units.clamp import Clamp
from elmo.lab.units.clamped_recurrent import clamped_generator
from elmo.lab.units.read_traces import read_traces
from elmo.train.devices import make_fabric

CHARACTERS = {"word_input": "characters", "filters": ((1, 4), (2, 4))}
NETWORKS = [CHARACTERS, {**CHARACTERS, "tied": True}]
# Words that are not in the text of the model.
FIRST, SECOND = "to cat or\nthe question\n", "to dogs or\nthe question\n"


def language_model(**options):
    network, symbols = small_network(unit="words", **options)
    return LanguageModel(RecurrentModel(network, symbols, {}))


def losses(model, text):
    return [nats for _, nats in model.score(text)]


@pytest.mark.parametrize("options", NETWORKS, ids=["untied", "tied"])
def test_spelling_of_an_unknown_word_changes_the_next_predictions(options):
    model = language_model(**options)
    first, second = losses(model, FIRST), losses(model, SECOND)
    # Both words are <UNK> as targets.
    assert first[:2] == pytest.approx(second[:2])
    assert first[2] != pytest.approx(second[2], rel=1e-6)
    assert losses(model, FIRST) == pytest.approx(first)


def test_unknown_words_are_equal_without_input_from_characters():
    model = language_model()
    assert (
        losses(model, FIRST) == losses(model, SECOND) == losses(model, "to <unk> or\nthe <unk>\n")
    )


@pytest.mark.parametrize("options", NETWORKS, ids=["untied", "tied"])
def test_all_evaluations_read_the_spelling(options):
    model = language_model(**options)
    part = text_part(FIRST, model.symbols)
    expected = math.fsum(losses(model, FIRST)) / len(part.ids)
    assert text_loss(model.network, model.symbols, part).nats == pytest.approx(expected, rel=1e-5)
    dynamic = dynamic_loss(model.network, model.symbols, part, rate=1e-9, unroll=3)
    assert dynamic.nats == pytest.approx(expected, rel=1e-5)
    traces = read_traces(model, FIRST)
    assert traces.surprisal.sum() * math.log(2) == pytest.approx(expected * len(part.ids), rel=1e-4)


@pytest.mark.parametrize("clamps", [None, [Clamp(0, 1, 0.5)]])
def test_prompt_is_read_by_spelling_without_a_warning(caplog, clamps):
    model = language_model(**CHARACTERS)
    generator = model
    if clamps is not None:
        generator = clamped_generator(model.network, model.symbols, clamps)

    def scores(prompt):
        ids = torch.tensor(generator.codec.prompt_ids(prompt))
        return generator.stepper.read(ids[:, None], generator.stepper.start(1))[0]

    first, second = scores("to cat"), scores("to dogs")
    assert not torch.allclose(first, second)
    assert torch.equal(scores("to cat"), first)
    assert first.shape == (1, len(model.symbols))
    assert not caplog.records
    assert generator.sample("to cat", 5).startswith("to cat")


@pytest.mark.parametrize("tied", [False, True])
def test_training_reads_the_spelling_of_words_outside_the_vocabulary(tmp_path, tied):
    config = small_config(
        tmp_path,
        symbols=SymbolConfig(unit="words", vocab_size=3),
        network=RecurrentConfig(n_layers=1, hidden_dim=16, tied=tied, **CHARACTERS),
        run=RunConfig(accelerator="cpu", max_steps=4),
    )
    text = read_training_text(config)
    model = RecurrentTrainable(training_job(config, text), make_fabric(config.run))
    new_words = text.parts["train"].inputs.new_words
    assert "dog" in new_words
    segment = model.streams.segment(1)
    (batch,) = next(model.batches(1)).inputs.batches
    table = model.network.vectors_with(new_words)
    torch.testing.assert_close(
        model._input_vectors(batch.words)[batch.index], table[torch.from_numpy(segment.inputs)]
    )
    assert batch.targets.max() < len(text.symbols) <= segment.targets.max()
    assert train_lm(config).step == 4
