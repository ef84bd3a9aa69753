"""The biLM as it is trained: it is the plain biLM, its state goes on, and every dropout's place."""

import dataclasses

import pytest
import torch
from conftest import TINY

from elmo.config import RegularizationConfig
from elmo.kernels import dispatch
from elmo.model.initialization import initialize
from elmo.model.language_model import LanguageModel
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork

N_ROWS, STEPS, LANES, DIM = 9, 7, 3, TINY.lstm.projection_dim


def language_model(config=TINY, **regular):
    """Make a model whose LSTMs do something, in training."""
    network = ELMoNetwork(config=config)
    initialize(network, 0)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if "_lstm." in name:
                value.mul_(3.0)
    return LanguageModel(bilm=network.bilm, regularization=RegularizationConfig(**regular)).train()


def window(seed=0, steps=STEPS):
    """Draw distinct rows and where they stand."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(1, 262, (N_ROWS, 12), generator=generator)
    return rows, torch.randint(0, N_ROWS, (2, steps, LANES), generator=generator)


def zeros(config=TINY, lanes=LANES):
    state = LSTMState.zeros(config.lstm, lanes)
    return state.h, state.c


def run(model, rows, index, resets=None, state=None, seed=0):
    torch.manual_seed(seed)
    return model(rows, index, resets, *(state or zeros(model.bilm.config)))


# ------------------------------------------------------------------------------------ the biLM


def test_it_is_the_bilm():
    model = language_model().eval()
    rows, index = window()
    hidden, h, c = run(model, rows, index)
    assert hidden.shape == (2, STEPS, LANES, DIM)
    for side in (0, 1):
        # The backward side of the biLM reads from the end; its lanes come here reversed.
        places = index[side].flip(0) if side else index[side]
        plain = model.bilm(rows, places.t())
        top = plain.layers[-1, :, :, side * DIM :][:, :, :DIM].transpose(0, 1)
        torch.testing.assert_close(hidden[side], top.flip(0) if side else top, rtol=0, atol=1e-6)
        torch.testing.assert_close(h[:, side], plain.state.h[:, side], rtol=0, atol=1e-6)
        torch.testing.assert_close(c[:, side], plain.state.c[:, side], rtol=0, atol=1e-6)


def test_weights_are_shared():
    model = language_model()
    network = ELMoNetwork(config=TINY)
    wrapped = LanguageModel(bilm=network.bilm, regularization=RegularizationConfig())
    assert wrapped.bilm is network.bilm
    assert {name.removeprefix("bilm.") for name, _ in model.named_parameters()} == {
        name for name, _ in network.bilm.named_parameters()
    }


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cut", [1, 4])
def test_two_windows_are_one(training, cut):
    model = language_model().train(training)
    rows, index = window()
    whole = run(model, rows, index)
    first, *state = run(model, rows, index[:, :cut])
    second, *state = run(model, rows, index[:, cut:], state=state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(tuple(state), whole[1:], rtol=0, atol=1e-6)
    fresh, *_ = run(model, rows, index[:, cut:])
    assert not torch.allclose(fresh, second, atol=1e-3)


def test_each_direction_has_its_resets():
    model = language_model()
    rows, index = window()
    resets = torch.zeros(2, STEPS, LANES, dtype=torch.bool)
    resets[0, 3, 1] = True
    resets[1, 5, 2] = True
    state = tuple(value + 0.5 for value in zeros())
    found, plain = (run(model, rows, index, given, state)[0] for given in (resets, None))
    for side, step, lane in ((0, 3, 1), (1, 5, 2)):
        fresh = run(model, rows, index[:, step:])[0]
        torch.testing.assert_close(found[side, step:, lane], fresh[side, :, lane])
        expected = plain.clone()
        expected[side, step:, lane] = found[side, step:, lane]
        torch.testing.assert_close(found[side], expected[side])
        assert not torch.allclose(found[side], plain[side])


def test_a_table_of_rows_is_encoded_once_for_both(monkeypatch):
    model = language_model()
    calls = []
    inner = model.bilm.encoder.forward
    monkeypatch.setattr(
        model.bilm.encoder, "forward", lambda rows: calls.append(len(rows)) or inner(rows)
    )
    run(model, *window())
    assert calls == [N_ROWS]


# ------------------------------------------------------------------------------------ dropout


class Spied:
    """Records what goes into and comes out of every LSTM layer of both directions, in one run."""

    def __init__(self):
        self.directions, self.inputs, self.outputs = {}, {}, {}
        self.depth = 0
        self.inner = dispatch.lstm

    def lstm(self, directions, kernel):
        walks = self.inner(directions, kernel)
        for side, (direction, walk) in enumerate(zip(directions, walks, strict=True)):
            self.directions[side, self.depth] = direction
            self.inputs[side, self.depth] = direction.x.detach()
            self.outputs[side, self.depth] = walk[0].detach()
        self.depth += 1
        return walks


@pytest.fixture
def spied(monkeypatch):
    spied = Spied()
    monkeypatch.setattr(dispatch, "lstm", spied.lstm)
    return spied


def dropped(with_dropout, share=0.5):
    """Whether each value is left out; tokens and outputs are never exactly zero by themselves."""
    zero = with_dropout == 0
    assert 0.25 < zero.float().mean() / (share / 0.5) < 0.75
    return zero


def test_no_share_no_dropout():
    rows, index = window()
    trained = run(language_model(), rows, index)
    evaluated = run(language_model().eval(), rows, index)
    for one, other in zip(trained, evaluated, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("locked", [False, True])
def test_evaluation_has_no_dropout(locked):
    shares = dict.fromkeys(
        ("dropout", "input_dropout", "output_dropout", "weight_drop", "embedding_dropout"), 0.5
    )
    rows, index = window()
    model = language_model(**shares, locked=locked)
    expected = run(language_model().eval(), rows, index)
    for one, other in zip(run(model.eval(), rows, index), expected, strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(run(model.train(), rows, index)[0], expected[0])


@pytest.mark.parametrize("locked", [False, True])
def test_places_and_masks(spied, locked):
    """At the input of every layer and at the output; fresh at each step, or one for all."""
    model = language_model(dropout=0.5, locked=locked)
    rows, index = window()
    hidden = run(model, rows, index)[0]
    places = [spied.inputs[side, depth] for side in (0, 1) for depth in (0, 1)]
    masks = [dropped(value) for value in (*places, *hidden)]
    for mask in masks:
        same = [torch.equal(mask[0], mask[step]) for step in range(1, STEPS)]
        assert all(same) if locked else not any(same)
        # A lane has a mask of its own.
        assert not torch.equal(mask[:, 0], mask[:, 1])
    for number, mask in enumerate(masks):
        assert not any(torch.equal(mask, other) for other in masks[number + 1 :])


def test_what_is_left_is_scaled(spied):
    model = language_model(dropout=0.2)
    rows, index = window()
    run(model, rows, index)
    tokens = torch.nn.functional.embedding(index[0], model.bilm.encoder(rows))
    found = spied.inputs[0, 0]
    torch.testing.assert_close(found, torch.where(found == 0, 0.0, tokens / 0.8))


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("place", ["input", "output", "between"])
def test_other_shares(spied, locked, place):
    shares = {"input_dropout": 0.0, "output_dropout": 0.0, "dropout": 0.0}
    shares["dropout" if place == "between" else f"{place}_dropout"] = 0.5
    model = language_model(**shares, locked=locked)
    rows, index = window()
    hidden = run(model, rows, index)[0]
    found = {
        "input": spied.inputs[0, 0],
        "between": spied.inputs[0, 1],
        "output": hidden[0],
    }
    for name, value in found.items():
        if name == place:
            dropped(value)
        else:
            assert value.all(), name


def test_shares_that_are_not_set_are_the_general_one():
    rows, index = window()
    said = language_model(dropout=0.5, input_dropout=0.5, output_dropout=0.5)
    unsaid = language_model(dropout=0.5)
    assert torch.equal(run(said, rows, index)[0], run(unsaid, rows, index)[0])


def test_the_residual_adds_the_dropped_input(spied):
    model = language_model(dropout=0.5, output_dropout=0.0)
    hidden = run(model, *window())[0]
    for side in (0, 1):
        dropped(spied.inputs[side, 1])
        expected = spied.outputs[side, 1] + spied.inputs[side, 1]
        assert torch.equal(hidden[side], expected)


def test_without_residual_the_output_is_the_layers(spied):
    config = dataclasses.replace(TINY, lstm=dataclasses.replace(TINY.lstm, residual=False))
    model = language_model(config)
    hidden = run(model, *window())[0]
    assert torch.equal(hidden[1], spied.outputs[1, 1])


def test_embedding_dropout_leaves_out_words_everywhere(spied):
    model = language_model(embedding_dropout=0.5)
    rows, index = window()
    run(model, rows, index)
    tokens = model.bilm.encoder(rows)
    fates = {}
    for side in (0, 1):
        for word, vector in zip(
            index[side].flatten().tolist(), spied.inputs[side, 0].flatten(0, 1), strict=True
        ):
            is_out = not vector.any()
            assert fates.setdefault(word, is_out) == is_out
            if not is_out:
                torch.testing.assert_close(vector, 2 * tokens[word])
    assert set(fates.values()) == {True, False}


def test_weight_drop_is_of_the_recurrent_weights_in_training(spied):
    model = language_model(weight_drop=0.5)
    stacks = (model.bilm.forward_lstm, model.bilm.backward_lstm)
    layers = {
        (side, depth): layer
        for side, stack in enumerate(stacks)
        for depth, layer in enumerate(stack.layers)
    }
    before = {name: value.clone() for name, value in model.state_dict().items()}
    run(model, *window())
    assert spied.directions.keys() == layers.keys()
    masks = []
    for place, layer in layers.items():
        used = spied.directions[place]
        masks.append(dropped(used.weight_hh))
        expected = torch.where(masks[-1], 0.0, 2 * layer.weight_hh)
        torch.testing.assert_close(used.weight_hh, expected)
        assert used.weight_ih is layer.weight_ih
        assert used.weight_hr is layer.weight_hr
    for number, mask in enumerate(masks):
        assert not any(torch.equal(mask, other) for other in masks[number + 1 :])
    spied.depth = 0
    run(model.eval(), *window())
    for place, layer in layers.items():
        assert torch.equal(spied.directions[place].weight_hh, layer.weight_hh)
    # The weights themselves are as they were.
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_plain_bilm_after_training_with_weight_drop():
    """Weight drop lives in the layers; the model saved and used later must not feel it."""
    model = language_model(weight_drop=0.5)
    rows, index = window()
    clean = language_model().bilm.eval()
    expected = clean(rows, index[0].t()).layers
    assert torch.equal(model.eval().bilm(rows, index[0].t()).layers, expected)
