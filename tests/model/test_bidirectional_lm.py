"""Tests of the biLM training wrapper: equality with `BiLM`, carried state and all dropout types."""

import dataclasses

import pytest
import torch
from conftest import TINY

from elmo.config import RegularizationConfig
from elmo.kernels.torch_kernels import Kernels
from elmo.model.bidirectional_lm import BidirectionalLM
from elmo.model.initialization import initialize
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork

N_ROWS, STEPS, BATCH, DIM = 9, 7, 3, TINY.lstm.projection_dim


def language_model(config=TINY, **options):
    """Return a model in training mode, with LSTM weights large enough to affect the output."""
    network = ELMoNetwork(config=config)
    initialize(network, 0)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if "_lstm." in name:
                value.mul_(3.0)
    return BidirectionalLM(
        bilm=network.bilm, regularization=RegularizationConfig(**options)
    ).train()


def segment(seed=0, steps=STEPS):
    """Return random distinct token rows and the row index of each position."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(1, 262, (N_ROWS, 12), generator=generator)
    return rows, torch.randint(0, N_ROWS, (2, steps, BATCH), generator=generator)


def zeros(config=TINY, batch=BATCH):
    state = LSTMState.zeros(config.lstm, batch)
    return state.h, state.c


def run(model, rows, index, resets=None, state=None, seed=0):
    torch.manual_seed(seed)
    return model(rows, index, resets, *(state or zeros(model.bilm.config)))


# ------------------------------------------------------------------------------------ the biLM


def test_language_model_equals_bilm():
    model = language_model().eval()
    rows, index = segment()
    hidden, h, c = run(model, rows, index)
    assert hidden.shape == (2, STEPS, BATCH, DIM)
    for direction in (0, 1):
        # `BiLM` reverses the backward direction itself; the language model gets it reversed.
        positions = index[direction].flip(0) if direction else index[direction]
        output = model.bilm(rows, positions.t())
        top = output.layers[-1, :, :, direction * DIM :][:, :, :DIM].transpose(0, 1)
        top = top.flip(0) if direction else top
        torch.testing.assert_close(hidden[direction], top, rtol=0, atol=1e-6)
        state = output.state
        torch.testing.assert_close(h[:, direction], state.h[:, direction], rtol=0, atol=1e-6)
        torch.testing.assert_close(c[:, direction], state.c[:, direction], rtol=0, atol=1e-6)


def test_language_model_shares_weights_of_bilm():
    model = language_model()
    network = ELMoNetwork(config=TINY)
    wrapped = BidirectionalLM(bilm=network.bilm, regularization=RegularizationConfig())
    assert wrapped.bilm is network.bilm
    assert {name.removeprefix("bilm.") for name, _ in model.named_parameters()} == {
        name for name, _ in network.bilm.named_parameters()
    }


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cut", [1, 4])
def test_two_segments_with_carried_state_equal_one_segment(training, cut):
    model = language_model().train(training)
    rows, index = segment()
    whole = run(model, rows, index)
    first, *state = run(model, rows, index[:, :cut])
    second, *state = run(model, rows, index[:, cut:], state=state)
    # Matrix products of another size can have another order of summation.
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole[0], rtol=0, atol=2e-6)
    torch.testing.assert_close(tuple(state), whole[1:], rtol=0, atol=2e-6)
    fresh, *_ = run(model, rows, index[:, cut:])
    assert not torch.allclose(fresh, second, atol=1e-3)


def test_state_resets_apply_only_to_their_own_direction():
    model = language_model()
    rows, index = segment()
    resets = torch.zeros(2, STEPS, BATCH, dtype=torch.bool)
    resets[0, 3, 1] = True
    resets[1, 5, 2] = True
    state = tuple(value + 0.5 for value in zeros())
    with_resets = run(model, rows, index, resets, state)[0]
    without_resets = run(model, rows, index, None, state)[0]
    for direction, step, row in ((0, 3, 1), (1, 5, 2)):
        fresh = run(model, rows, index[:, step:])[0]
        torch.testing.assert_close(with_resets[direction, step:, row], fresh[direction, :, row])
        expected = without_resets.clone()
        expected[direction, step:, row] = with_resets[direction, step:, row]
        torch.testing.assert_close(with_resets[direction], expected[direction])
        assert not torch.allclose(with_resets[direction], without_resets[direction])


def test_token_rows_are_encoded_once_for_both_directions(monkeypatch):
    model = language_model()
    calls = []
    inner = model.bilm.encoder.forward
    monkeypatch.setattr(
        model.bilm.encoder,
        "forward",
        lambda rows, kernels: calls.append(len(rows)) or inner(rows, kernels=kernels),
    )
    run(model, *segment())
    assert calls == [N_ROWS]


# ------------------------------------------------------------------------------------ dropout


class KernelSpy:
    """Records the kernel calls, inputs and outputs of all LSTM layers in one run."""

    def __init__(self):
        self.calls, self.inputs, self.outputs = {}, {}, {}
        self.depth = 0
        self.inner = Kernels.lstm

    def lstm(self, kernels, calls):
        results = self.inner(kernels, calls)
        for direction, (call, result) in enumerate(zip(calls, results, strict=True)):
            self.calls[direction, self.depth] = call
            self.inputs[direction, self.depth] = call.x.detach()
            self.outputs[direction, self.depth] = result[0].detach()
        self.depth += 1
        return results


@pytest.fixture
def spy(monkeypatch):
    spy = KernelSpy()
    monkeypatch.setattr(Kernels, "lstm", lambda kernels, calls: spy.lstm(kernels, calls))
    return spy


def dropped(with_dropout, rate=0.5):
    """Return a mask of dropped values; other values are never exactly zero."""
    zero = with_dropout == 0
    assert 0.25 < zero.float().mean() / (rate / 0.5) < 0.75
    return zero


def test_no_dropout_is_applied_in_training_with_zero_rates():
    rows, index = segment()
    trained = run(language_model(), rows, index)
    evaluated = run(language_model().eval(), rows, index)
    for in_training, in_evaluation in zip(trained, evaluated, strict=True):
        assert torch.equal(in_training, in_evaluation)


@pytest.mark.parametrize("locked", [False, True])
def test_no_dropout_is_applied_in_evaluation_mode(locked):
    rates = dict.fromkeys(
        ("dropout", "input_dropout", "output_dropout", "weight_drop", "embedding_dropout"), 0.5
    )
    rows, index = segment()
    model = language_model(**rates, locked=locked)
    expected = run(language_model().eval(), rows, index)
    for result, expected_result in zip(run(model.eval(), rows, index), expected, strict=True):
        assert torch.equal(result, expected_result)
    assert not torch.equal(run(model.train(), rows, index)[0], expected[0])


@pytest.mark.parametrize("locked", [False, True])
def test_only_locked_dropout_uses_the_same_mask_at_all_steps(spy, locked):
    """Ordinary dropout draws a new mask at each step."""
    model = language_model(dropout=0.5, locked=locked)
    rows, index = segment()
    hidden = run(model, rows, index)[0]
    inputs = [spy.inputs[direction, depth] for direction in (0, 1) for depth in (0, 1)]
    masks = [dropped(value) for value in (*inputs, *hidden)]
    for mask in masks:
        same = [torch.equal(mask[0], mask[step]) for step in range(1, STEPS)]
        assert all(same) if locked else not any(same)
        # Batch rows have different masks.
        assert not torch.equal(mask[:, 0], mask[:, 1])
    for number, mask in enumerate(masks):
        assert not any(torch.equal(mask, other) for other in masks[number + 1 :])


def test_dropout_scales_remaining_values_by_inverse_keep_probability(spy):
    model = language_model(dropout=0.2)
    rows, index = segment()
    run(model, rows, index)
    tokens = torch.nn.functional.embedding(index[0], model.bilm.encoder(rows))
    x = spy.inputs[0, 0]
    torch.testing.assert_close(x, torch.where(x == 0, 0.0, tokens / 0.8))


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("position", ["input", "output", "between"])
def test_input_output_and_layer_dropout_have_separate_rates(spy, locked, position):
    rates = {"input_dropout": 0.0, "output_dropout": 0.0, "dropout": 0.0}
    rates["dropout" if position == "between" else f"{position}_dropout"] = 0.5
    model = language_model(**rates, locked=locked)
    rows, index = segment()
    hidden = run(model, rows, index)[0]
    tensors = {
        "input": spy.inputs[0, 0],
        "between": spy.inputs[0, 1],
        "output": hidden[0],
    }
    for name, value in tensors.items():
        if name == position:
            dropped(value)
        else:
            assert value.all(), name


def test_input_and_output_dropout_default_to_general_dropout_rate():
    rows, index = segment()
    explicit = language_model(dropout=0.5, input_dropout=0.5, output_dropout=0.5)
    default = language_model(dropout=0.5)
    assert torch.equal(run(explicit, rows, index)[0], run(default, rows, index)[0])


def test_residual_adds_input_after_dropout(spy):
    model = language_model(dropout=0.5, output_dropout=0.0)
    hidden = run(model, *segment())[0]
    for direction in (0, 1):
        dropped(spy.inputs[direction, 1])
        expected = spy.outputs[direction, 1] + spy.inputs[direction, 1]
        assert torch.equal(hidden[direction], expected)


def test_output_without_residual_is_top_layer(spy):
    config = dataclasses.replace(TINY, lstm=dataclasses.replace(TINY.lstm, residual=False))
    model = language_model(config)
    hidden = run(model, *segment())[0]
    assert torch.equal(hidden[1], spy.outputs[1, 1])


def test_embedding_dropout_drops_all_occurrences_of_a_word(spy):
    model = language_model(embedding_dropout=0.5)
    rows, index = segment()
    run(model, rows, index)
    tokens = model.bilm.encoder(rows)
    is_dropped = {}
    for direction in (0, 1):
        for word, vector in zip(
            index[direction].flatten().tolist(), spy.inputs[direction, 0].flatten(0, 1), strict=True
        ):
            is_zero = not vector.any()
            assert is_dropped.setdefault(word, is_zero) == is_zero
            if not is_zero:
                torch.testing.assert_close(vector, 2 * tokens[word])
    assert set(is_dropped.values()) == {True, False}


def test_weight_drop_applies_to_recurrent_weights_in_training(spy):
    model = language_model(weight_drop=0.5)
    stacks = (model.bilm.forward_lstm, model.bilm.backward_lstm)
    layers = {
        (direction, depth): layer
        for direction, stack in enumerate(stacks)
        for depth, layer in enumerate(stack.layers)
    }
    before = {name: value.clone() for name, value in model.state_dict().items()}
    run(model, *segment())
    assert spy.calls.keys() == layers.keys()
    masks = []
    for key, layer in layers.items():
        call = spy.calls[key]
        masks.append(dropped(call.weight_hh))
        expected = torch.where(masks[-1], 0.0, 2 * layer.weight_hh)
        torch.testing.assert_close(call.weight_hh, expected)
        assert call.weight_ih is layer.weight_ih
        assert call.weight_hr is layer.weight_hr
    for number, mask in enumerate(masks):
        assert not any(torch.equal(mask, other) for other in masks[number + 1 :])
    spy.depth = 0
    run(model.eval(), *segment())
    for key, layer in layers.items():
        assert torch.equal(spy.calls[key].weight_hh, layer.weight_hh)
    # The stored weights are not changed.
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_bilm_in_evaluation_mode_ignores_weight_drop():
    """The rate is stored in the layers, but a trained model must not apply it."""
    model = language_model(weight_drop=0.5)
    rows, index = segment()
    clean = language_model().bilm.eval()
    expected = clean(rows, index[0].t()).layers
    assert torch.equal(model.eval().bilm(rows, index[0].t()).layers, expected)
