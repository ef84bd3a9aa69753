"""Tests of LSTM layers and stacks, and of the state passed between calls."""

import dataclasses

import pytest
import torch

from elmo.config import LSTMConfig
from elmo.errors import ConfigError
from elmo.kernels.torch_kernels import REFERENCE_KERNELS, Kernels
from elmo.model.lstm import LSTMLayer, LSTMStack, LSTMState, StackCall, StepMask, run_stacks

CONFIG = LSTMConfig(
    cell_dim=5, projection_dim=3, n_layers=3, cell_clip=0.5, projection_clip=0.3, residual=True
)
LENGTHS = (6, 4, 4, 2)
MASK = torch.arange(max(LENGTHS))[:, None] < torch.tensor(LENGTHS)
BY_MASK = StepMask(MASK, None)
BY_COUNT = StepMask(MASK, MASK.sum(dim=1).tolist())


def filled(module, seed=0):
    """Fill every parameter with random values."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return module


def random_state(batch, config=CONFIG, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shape = (config.n_layers, 2, batch)
    return LSTMState(
        torch.randn(*shape, config.projection_dim, generator=generator),
        torch.randn(*shape, config.cell_dim, generator=generator),
    )


def inputs(seed=2):
    x = torch.randn(len(MASK), len(LENGTHS), 3, generator=torch.Generator().manual_seed(seed))
    return x * MASK.unsqueeze(2)


def run(stack, x, h, c, step_mask, reverse):
    """Run one stack; return the output of each layer, the final h and the final c."""
    state = LSTMState(h.unsqueeze(1), c.unsqueeze(1))
    (outputs,), final = run_stacks([StackCall(stack, x, step_mask, reverse)], state)
    return outputs, final.h[:, 0], final.c[:, 0]


# ------------------------------------------------------------------------------------ the state


def test_zero_state_has_the_shape_given_by_the_config():
    state = LSTMState.zeros(CONFIG, 4)
    assert state.h.shape == (3, 2, 4, 3)
    assert state.c.shape == (3, 2, 4, 5)
    assert state.batch == 4
    assert not state.h.any()
    assert not state.c.any()


@pytest.mark.parametrize(
    ("dtype", "cell"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ],
)
def test_zero_cell_state_is_at_least_float32(dtype, cell):
    state = LSTMState.zeros(CONFIG, 1, dtype=dtype)
    assert (state.h.dtype, state.c.dtype) == (dtype, cell)


def test_state_rows_truncates_or_pads_the_batch_with_zeros():
    state = random_state(3)
    fewer, same, more = state.rows(2), state.rows(3), state.rows(5)
    assert torch.equal(fewer.h, state.h[:, :, :2])
    assert torch.equal(fewer.c, state.c[:, :, :2])
    assert torch.equal(same.h, state.h)
    assert torch.equal(same.c, state.c)
    for wide, narrow in ((more.h, state.h), (more.c, state.c)):
        assert wide.shape[2] == 5
        assert torch.equal(wide[:, :, :3], narrow)
        assert not wide[:, :, 3:].any()
    assert state.batch == 3


def test_updated_state_keeps_rows_that_are_not_replaced():
    table, new = random_state(4), random_state(2, seed=5)
    mixed = table.updated(new)
    assert torch.equal(mixed.h[:, :, :2], new.h)
    assert torch.equal(mixed.c[:, :, :2], new.c)
    assert torch.equal(mixed.h[:, :, 2:], table.h[:, :, 2:])
    assert torch.equal(mixed.c[:, :, 2:], table.c[:, :, 2:])


def test_updated_state_grows_if_the_new_state_has_more_rows():
    new = random_state(4, seed=5)
    grown = random_state(2).updated(new)
    assert torch.equal(grown.h, new.h)
    assert torch.equal(grown.c, new.c)


def test_select_permutes_state_rows():
    state = random_state(4)
    order = torch.tensor([2, 0, 3, 1])
    selected = state.select(order)
    assert torch.equal(selected.h[:, :, 0], state.h[:, :, 2])
    assert torch.equal(selected.c[:, :, 3], state.c[:, :, 1])
    assert torch.equal(selected.select(order.argsort()).c, state.c)


def test_detached_state_has_no_gradients():
    state = LSTMState(torch.ones(1, 2, 1, 3).requires_grad_(), torch.ones(1, 2, 1, 5) * 2)
    state = LSTMState(state.h * 2, state.c.requires_grad_() * 2)
    assert state.h.requires_grad
    assert state.c.requires_grad
    assert not state.detach().h.requires_grad
    assert not state.detach().c.requires_grad


# ------------------------------------------------------------------------------------ a layer


def test_forget_bias_is_added_to_forget_gate_only():
    layer = filled(LSTMLayer(config=CONFIG))
    added = layer.bias_with_forget() - layer.bias
    expected = torch.zeros(20)
    expected[5:10] = 1.0
    torch.testing.assert_close(added, expected, rtol=0, atol=1e-6)


def test_bias_with_zero_forget_bias_is_the_parameter():
    layer = LSTMLayer(config=dataclasses.replace(CONFIG, forget_bias=0.0))
    assert layer.bias_with_forget() is layer.bias


def test_layer_with_equal_cell_and_output_widths_has_no_projection():
    assert LSTMLayer(config=CONFIG).weight_hr.shape == (3, 5)
    layer = LSTMLayer(config=dataclasses.replace(CONFIG, projection_dim=5))
    assert layer.weight_hr is None
    assert set(layer.state_dict()) == {"weight_ih", "weight_hh", "bias"}


def test_kernel_call_passes_on_weights_input_and_options():
    layer = filled(LSTMLayer(config=dataclasses.replace(CONFIG, forget_bias=0.0)))
    step_mask = StepMask(MASK, BY_COUNT.n_active, resets=~MASK)
    x, index, state = inputs()[0], torch.zeros_like(MASK).long(), random_state(4)
    call = layer.kernel_call(x, state.h[0, 1], state.c[0, 1], step_mask, True, index)
    for name in ("weight_ih", "weight_hh", "bias", "weight_hr"):
        assert getattr(call, name) is getattr(layer, name)
    assert (call.x is x, call.index is index, call.reverse) == (True, True, True)
    assert torch.equal(call.h, state.h[0, 1])
    assert torch.equal(call.c, state.c[0, 1])
    assert (call.cell_clip, call.projection_clip) == (0.5, 0.3)
    assert call.mask is step_mask.mask
    assert call.active is step_mask.n_active
    assert call.resets is step_mask.resets


# ------------------------------------------------------------------------------------ a stack


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_mask_and_active_row_counts_give_same_outputs_and_gradients(reverse, residual):
    stack = filled(LSTMStack(config=dataclasses.replace(CONFIG, residual=residual))).double()
    results = []
    for padding in (BY_MASK, BY_COUNT):
        x = inputs().double().requires_grad_()
        state = random_state(4)
        h = state.h[:, 0].double().requires_grad_()
        c = state.c[:, 0].double().requires_grad_()
        outputs, final_h, final_c = run(stack, x, h, c, padding, reverse)
        values = [*outputs, final_h, final_c]
        loss = sum((value * (number + 1)).square().sum() for number, value in enumerate(values))
        gradients = torch.autograd.grad(loss, [x, h, c, *stack.parameters()])
        assert all(gradient.any() for gradient in gradients)
        results.append([*values, *gradients])
    for by_mask, by_count in zip(*results, strict=True):
        torch.testing.assert_close(by_mask, by_count, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("padding", [BY_MASK, BY_COUNT], ids=["mask", "counts"])
def test_residual_starts_at_second_layer_and_is_not_added_to_state(padding):
    stack = filled(LSTMStack(config=CONFIG))
    x, state = inputs(), random_state(4)
    outputs, final_h, _ = run(stack, x, state.h[:, 0], state.c[:, 0], padding, False)
    last = [length - 1 for length in LENGTHS]
    rows = list(range(4))
    torch.testing.assert_close(outputs[0][last, rows], final_h[0])
    for depth in (1, 2):
        added = outputs[depth - 1][last, rows]
        torch.testing.assert_close(outputs[depth][last, rows], final_h[depth] + added)
    assert (outputs[2].abs() > CONFIG.projection_clip).any()
    assert (final_h.abs() <= CONFIG.projection_clip).all()


def test_output_without_residual_equals_hidden_state():
    stack = filled(LSTMStack(config=dataclasses.replace(CONFIG, residual=False)))
    state = random_state(4)
    outputs, final_h, _ = run(stack, inputs(), state.h[:, 0], state.c[:, 0], BY_MASK, True)
    # The reversed direction ends at the first position.
    torch.testing.assert_close(torch.stack(outputs)[:, 0], final_h)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("padding", [BY_MASK, BY_COUNT], ids=["mask", "counts"])
def test_outputs_at_padding_are_zero_in_every_layer(reverse, padding):
    stack = filled(LSTMStack(config=CONFIG))
    state = random_state(4)
    outputs, _, _ = run(stack, inputs(), state.h[:, 0], state.c[:, 0], padding, reverse)
    for output in outputs:
        assert not output[~MASK].any()
        assert output[MASK].any(dim=1).all()


def test_sequence_in_two_calls_equals_one_call():
    stack = filled(LSTMStack(config=CONFIG))
    x = torch.randn(8, 2, 3, generator=torch.Generator().manual_seed(4))
    padding = StepMask(torch.ones(8, 2, dtype=torch.bool), None)
    half = StepMask(torch.ones(4, 2, dtype=torch.bool), None)
    state = random_state(2)
    whole, whole_h, whole_c = run(stack, x, state.h[:, 0], state.c[:, 0], padding, False)
    first, h, c = run(stack, x[:4], state.h[:, 0], state.c[:, 0], half, False)
    second, h, c = run(stack, x[4:], h, c, half, False)
    torch.testing.assert_close(torch.cat([first[-1], second[-1]]), whole[-1])
    torch.testing.assert_close((h, c), (whole_h, whole_c))


# ------------------------------------------------------------------------------------ two stacks


def two_calls():
    """Return calls with different inputs, masks and directions; the second has an index."""
    resets = torch.zeros_like(MASK)
    resets[2, 1] = True
    vectors = inputs(seed=3).flatten(0, 1)[:5]
    index = torch.arange(MASK.numel()).view(MASK.shape) * 7 % 5
    return [
        StackCall(filled(LSTMStack(config=CONFIG)), inputs(), BY_COUNT, reverse=False),
        StackCall(
            filled(LSTMStack(config=CONFIG), seed=5),
            vectors,
            StepMask(MASK, None, resets),
            reverse=True,
            index=index,
        ),
    ]


def test_stacks_run_together_equal_stacks_run_separately():
    calls, state = two_calls(), random_state(4)
    outputs, final = run_stacks(calls, state)
    assert final.h.shape == state.h.shape
    assert final.c.shape == state.c.shape
    for number, call in enumerate(calls):
        direction = slice(number, number + 1)
        alone, end = run_stacks([call], LSTMState(state.h[:, direction], state.c[:, direction]))
        assert len(outputs[number]) == CONFIG.n_layers
        torch.testing.assert_close(outputs[number], alone[0], rtol=0, atol=0)
        assert torch.equal(final.h[:, direction], end.h)
        assert torch.equal(final.c[:, direction], end.c)
    assert not torch.allclose(outputs[0][0], outputs[1][0])


def test_each_layer_runs_both_directions_in_one_kernel_call():
    launches, drops = [], []

    class Spy(Kernels):
        def lstm(self, directions):
            launches.append(directions)
            return super().lstm(directions)

    def dropout(x, depth):
        drops.append((depth, x.shape))
        return x + 1

    calls = two_calls()
    outputs, _ = run_stacks(calls, random_state(4), dropout=dropout, kernels=Spy())
    assert len(launches) == 3
    for depth, kernel_calls in enumerate(launches):
        for number, (call, kernel_call) in enumerate(zip(calls, kernel_calls, strict=True)):
            assert kernel_call.weight_ih is call.stack.layers[depth].weight_ih
            assert kernel_call.reverse == call.reverse
            assert kernel_call.index is (call.index if depth == 0 else None)
            before = outputs[number][depth - 1] if depth else call.x
            assert torch.equal(kernel_call.x, before + 1)
    # Layer by layer, the first direction before the second.
    assert [depth for depth, _ in drops] == [0, 0, 1, 1, 2, 2]
    assert [shape for _, shape in drops[:2]] == [call.x.shape for call in calls]


def test_run_stacks_uses_the_given_kernels():
    calls, state = two_calls(), random_state(4)
    expected, _ = run_stacks(calls, state)
    outputs, _ = run_stacks(calls, state, kernels=REFERENCE_KERNELS)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=0)
    with pytest.raises(ConfigError, match="Kernel 'cudnn' needs"):
        run_stacks(calls, state, kernels=Kernels("cudnn"))
