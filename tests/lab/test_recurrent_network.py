"""Tests of recurrent networks."""

import pytest
import torch
from small_language_models import random_ids, small_network
from torch import nn
from torch.nn import functional

from elmo.config.language_models import RecurrentDropoutConfig

CELLS = ["rnn", "gru", "lstm", "lstmp"]


def run(network, ids, state=None, **options):
    state = network.zero_state(ids.shape[1]) if state is None else state
    return network(network.input_vectors(), ids, state, **options)


def ids(time=7, batch=3):
    return torch.from_numpy(random_ids(time * batch)).long().view(time, batch)


@pytest.mark.parametrize("cell", CELLS)
def test_two_segments_with_carried_state_equal_one(cell):
    network, x = small_network(cell=cell), ids()
    whole = run(network, x)
    first = run(network, x[:4])
    second = run(network, x[4:], first.state)
    torch.testing.assert_close(torch.cat([first.hidden, second.hidden]), whole.hidden)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(
    ("cell", "module"), [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM), ("lstmp", nn.LSTM)]
)
def test_layers_equal_pytorch_modules(cell, module):
    network, x = small_network(cell=cell), ids()
    options = {"proj_size": 4} if cell == "lstmp" else {}
    reference = module(network.config.network.input_dim, 8, 2, **options)
    for number, layer in enumerate(network.recurrent_layers()):
        for name, value in layer.named_parameters():
            getattr(reference, f"{name}_l{number}").data.copy_(value.data)
    vectors = nn.functional.embedding(x, network.input_vectors())
    torch.testing.assert_close(run(network, x).hidden, reference(vectors)[0])


def test_tied_softmax_uses_the_input_vectors():
    network = small_network(tied=True, embedding_dim=6)
    hidden = run(network, ids()).hidden.flatten(0, 1)
    assert hidden.shape[1] == 6
    targets = torch.arange(len(hidden)) % 11
    logits = hidden @ network.embedding.t() + network.bias
    expected = nn.functional.cross_entropy(logits, targets, reduction="none")
    losses = network.losses(hidden, targets, network.input_vectors())
    torch.testing.assert_close(losses, expected)


@pytest.mark.parametrize("options", [{}, {"tied": True}, {"cutoffs": (3,)}])
def test_losses_are_those_of_the_log_probabilities(options):
    network = small_network(**options)
    vectors = network.input_vectors()
    hidden = run(network, ids()).hidden.flatten(0, 1)
    scores = network.log_probabilities(hidden, vectors)
    torch.testing.assert_close(scores.exp().sum(1), torch.ones(len(hidden)))
    targets = torch.arange(len(hidden)) % 11
    expected = -scores.gather(1, targets[:, None]).squeeze(1)
    torch.testing.assert_close(network.losses(hidden, targets, vectors), expected)


def test_dropout_is_off_in_evaluation_mode():
    network = small_network()
    network.regularization = RecurrentDropoutConfig(
        dropout=0.5, state_dropout=0.5, weight_drop=0.5, embedding_dropout=0.5
    )
    x = ids()
    torch.testing.assert_close(run(network, x).hidden, run(network, x).hidden, rtol=0, atol=0)
    network.train()
    assert (run(network, x).hidden != run(network, x).hidden).any()


@pytest.mark.parametrize(
    "rate", ["input_dropout", "output_dropout", "state_dropout", "weight_drop", "embedding_dropout"]
)
def test_each_dropout_changes_the_output(rate):
    network, x = small_network().train(), ids()
    plain = run(network, x).hidden
    network.regularization = RecurrentDropoutConfig(**{rate: 0.5})
    torch.manual_seed(0)
    assert (run(network, x).hidden != plain).any()


def test_locked_dropout_drops_the_same_units_at_all_steps():
    network = small_network().train()
    network.regularization = RecurrentDropoutConfig(output_dropout=0.5)
    torch.manual_seed(0)
    dropped = run(network, ids()).hidden == 0
    assert dropped.any()
    assert (dropped == dropped[:1]).all()


def test_recorded_gates_give_the_outputs():
    network, x = small_network(), ids()
    output = run(network, x, record=True)
    gates = output.gates[1]
    torch.testing.assert_close(output.outputs[1], gates["output"] * gates["cell"].tanh())


def test_mogrifier_has_gates_of_low_rank():
    network = small_network(mogrifier_rounds=3, mogrifier_rank=2)
    assert len(network.layers[0].mogrifier) == 3
    assert run(network, ids()).hidden.shape == (7, 3, 8)


def test_words_in_a_segment_have_the_vectors_of_the_whole_table():
    from elmo.lab.symbols import Symbols

    names = ("<UNK>", "</S>", "cat", "dog")
    config_options = {"word_input": "characters", "filters": ((1, 4), (2, 4)), "embedding_dim": 5}
    network = characters_network(names, **config_options)
    network.set_symbols(Symbols("words", names))
    words = torch.tensor([3, 1])
    torch.testing.assert_close(network.input_vectors(words), network.input_vectors()[words])
    assert (network.input_vectors()[2] != network.input_vectors()[3]).any()


@pytest.mark.parametrize(("tied", "bound"), [(True, 0.5), (False, 1.0)])
def test_centered_vectors_of_words_are_distributed_as_in_a_table(tied, bound):
    from elmo.lab.symbols import Symbols

    names = ("<UNK>", "</S>", "cat", "dog", "house")
    network = characters_network(
        names, word_input="characters", filters=((1, 4), (2, 4)), embedding_dim=5, tied=tied
    )
    network.set_symbols(Symbols("words", names))
    before = network.input_vectors()
    network.center_vectors()
    vectors = network.input_vectors()
    torch.testing.assert_close(vectors.mean(0), torch.zeros(5), rtol=0, atol=1e-6)
    torch.testing.assert_close(vectors.pow(2).mean().sqrt(), torch.tensor(bound / 3**0.5))
    # Only shifted and scaled.
    directions = [functional.normalize((x - x.mean(0)).flatten(), dim=0) for x in (before, vectors)]
    torch.testing.assert_close(*directions)


def test_centering_does_not_change_a_table():
    network = small_network()
    before = network.input_vectors().clone()
    network.center_vectors()
    assert torch.equal(network.input_vectors(), before)


def characters_network(names, **options):
    from elmo.config.language_models import RecurrentConfig, RecurrentModelConfig
    from elmo.lab.recurrent_network import RecurrentNetwork

    shape = RecurrentConfig(n_layers=1, hidden_dim=8, **options)
    network = RecurrentNetwork(
        config=RecurrentModelConfig("words", len(names), shape, max_characters=8)
    )
    network.initialize(1)
    return network.eval()


def test_seed_determines_the_weights():
    first, same, other = small_network(), small_network(), small_network(seed=2)
    for name, value in first.state_dict().items():
        assert torch.equal(value, same.state_dict()[name])
    assert not torch.equal(first.layers[0].weight_hh, other.layers[0].weight_hh)
