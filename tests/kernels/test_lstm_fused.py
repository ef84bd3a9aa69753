"""Tests that compare the fused LSTM with the reference, on a GPU or with Triton's interpreter.

Both are compared with a float64 result. The error of the fused LSTM must not exceed a fixed
multiple of the reference's error in the same dtype. `make test-kernels` runs these tests without
a GPU.
"""

import pytest
import torch
from triton_device import DEVICE, DTYPES, IS_INTERPRETED

from elmo.kernels import lstm_fused, lstm_reference
from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.lstm_fused_plan import EXACT, LaunchPlan, LaunchTile

pytestmark = pytest.mark.gpu

SMALL = LaunchTile(16, 16, 16, 4, 2)
SPLIT = LaunchTile(16, 16, 16, 4, 2, split=3)
PLANS = {
    "exact": EXACT,
    "fused": LaunchPlan(joint=False, gates=SMALL, projection=SPLIT, recurrent=SPLIT),
    "joint": LaunchPlan(joint=True, gates=SMALL, projection=None, recurrent=None),
}
# Bound of the norm of an error over all directions: FACTOR times the error of the reference, plus
# SLACK times the norm of the value. The slack is 64 roundings in float32, because the gradient of a
# weight is one long sum here, and one rounding in half precision. A value near its clip may be
# clipped in one implementation and not in the other: a single gradient of that kind outweighs all
# rounding errors, and among millions of cells some occur. If gradients ignored the clips, the error
# would be 300 to 2,700 times the bound in float32, 7 to 180 times in float16 and 3 to 17 times in
# bfloat16.
FACTOR = 1.25
FACTOR_AT_CLIPS = 4.0
SLACK = {torch.float32: 2.0**-18, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
SLACK_AT_CLIPS = {**SLACK, torch.float32: 2.0**-11}


def draw(n_steps, batch, *, dim=20, cell=37, out=24, projected=True, seed=0):
    """Return random weights, input and state for one direction, large enough to be clipped."""
    generator = torch.Generator().manual_seed(seed)
    out = out if projected else cell
    shapes = {
        "x": (n_steps, batch, dim),
        "weight_ih": (4 * cell, dim),
        "weight_hh": (4 * cell, out),
        "bias": (4 * cell,),
        "weight_hr": (out, cell),
        "h": (batch, out),
        "c": (batch, cell),
    }
    drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
    drawn["weight_ih"] *= dim**-0.5
    drawn["weight_hh"] *= out**-0.5
    drawn["weight_hr"] *= 2 * cell**-0.5
    return drawn if projected else {**drawn, "weight_hr": None}


def results_and_gradients(kernel, tensors, dtype, device, options):
    """Run a kernel; return the results and gradients of each direction in float64 on the CPU."""
    leaves, directions = [], []
    for direction_tensors, direction_options in zip(tensors, options, strict=True):
        converted = {}
        for name, value in direction_tensors.items():
            if value is not None:
                value_dtype = torch.promote_types(dtype, torch.float32) if name == "c" else dtype
                converted[name] = value.to(device, value_dtype).requires_grad_()
        leaves += converted.values()
        moved = {n: v.to(device) if torch.is_tensor(v) else v for n, v in direction_options.items()}
        directions.append(LSTMCall(**{**direction_tensors, **converted}, **moved))
    results = [value for result in kernel(directions) for value in result]
    loss = sum((value.double() * (n + 1)).sin().sum() for n, value in enumerate(results))
    values = [value.detach().double().cpu() for value in results]
    gradients = [value.double().cpu() for value in torch.autograd.grad(loss, leaves)]
    n = len(tensors)
    pairs = zip(split_list(values, n), split_list(gradients, n), strict=True)
    return [
        direction_values + direction_gradients for direction_values, direction_gradients in pairs
    ]


def split_list(values, n):
    """Split a list into n equal parts."""
    size = len(values) // n
    return [values[first : first + size] for first in range(0, len(values), size)]


def options_for(n_steps, batch, *, clips=(0.8, 0.5), reverse=False, lengths=None, resets=None):
    mask = torch.ones(n_steps, batch, dtype=torch.bool)
    active = [batch] * n_steps
    if lengths is not None:
        mask = torch.arange(n_steps)[:, None] < torch.tensor(lengths)
        active = mask.sum(dim=1).tolist()
    return {
        "mask": mask,
        "active": active,
        "cell_clip": clips[0],
        "projection_clip": clips[1],
        "reverse": reverse,
        "resets": resets,
    }


def check(tensors, options, dtype):
    """Compare the error norms of both implementations relative to float64."""
    exact = results_and_gradients(lstm_reference.lstm, tensors, torch.float64, DEVICE, options)
    reference = results_and_gradients(lstm_reference.lstm, tensors, dtype, DEVICE, options)
    fused = results_and_gradients(lstm_fused.lstm, tensors, dtype, DEVICE, options)
    is_clipped = options[0]["cell_clip"] is not None or options[0]["projection_clip"] is not None
    factor, slack = (FACTOR_AT_CLIPS, SLACK_AT_CLIPS) if is_clipped else (FACTOR, SLACK)
    errors, reference_errors = relative_errors(fused, exact), relative_errors(reference, exact)
    for number, (error, allowed) in enumerate(zip(errors, reference_errors, strict=True)):
        assert error <= factor * allowed + slack[dtype], (number, error, allowed)


def relative_errors(actual, exact):
    """Return the relative error of each result, as root mean square over the directions."""
    errors = []
    for values, true in zip(zip(*actual, strict=True), zip(*exact, strict=True), strict=True):
        assert [value.shape for value in values] == [value.shape for value in true]
        relative = [float((a - b).norm() / b.norm()) for a, b in zip(values, true, strict=True)]
        errors.append(sum(error**2 / len(relative) for error in relative) ** 0.5)
    return errors


@pytest.fixture(autouse=True)
def fill_empty_tensors_with_nan(monkeypatch):
    """Fill uninitialized memory with NaN to detect reads of unwritten values."""
    empty, empty_like = torch.empty, torch.empty_like
    dtypes = (torch.float16, torch.bfloat16, torch.float32)

    def filled(tensor):
        return tensor.fill_(float("nan")) if tensor.dtype in dtypes else tensor

    monkeypatch.setattr(torch, "empty", lambda *a, **k: filled(empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: filled(empty_like(*a, **k)))


@pytest.fixture(params=PLANS)
def plan(request, monkeypatch):
    monkeypatch.setattr(lstm_fused, "plan_for", lambda batch, dtype: PLANS[request.param])


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("clips", [(None, None), (0.8, None), (None, 0.5), (0.8, 0.5)], ids=str)
@pytest.mark.parametrize("projected", [True, False])
def test_fused_lstm_with_clips_matches_reference(dtype, clips, projected):
    # Enough positions that single gradients at a clip do not dominate the error.
    n_steps, batch = (4, 5) if dtype == torch.float32 else (8, 60)
    tensors = [draw(n_steps, batch, projected=projected, seed=seed) for seed in (0, 1)]
    check(tensors, [options_for(n_steps, batch, clips=clips)] * 2, dtype)


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("by", ["mask", "active"])
def test_fused_lstm_with_padding_and_resets_matches_reference(dtype, projected, by):
    # More rows than a tile has: the last tiles contain only padding at the end.
    lengths, batch = (6,) * 3 + (4,) * 8 + (1,) * 11, 22
    tensors = [draw(6, batch, projected=projected, seed=seed) for seed in (0, 1)]
    resets = torch.rand(6, batch, generator=torch.Generator().manual_seed(3)) < 0.3
    resets[0, 0] = True
    options = [
        options_for(6, batch, lengths=lengths, resets=resets),
        options_for(6, batch, lengths=lengths, reverse=True),
    ]
    if by == "mask":
        options = [{**direction, "active": None} for direction in options]
    check(tensors, options, dtype)


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("n_directions", [1, 2, 3])
def test_fused_lstm_with_any_number_of_directions_matches_reference(n_directions):
    tensors = [draw(3, 4, seed=seed) for seed in range(n_directions)]
    check(tensors, [options_for(3, 4)] * n_directions, torch.float32)


@pytest.mark.usefixtures("plan")
def test_fused_lstm_with_indexed_input_matches_reference():
    tensors = [draw(4, 3, seed=seed) for seed in (0, 1)]
    index = torch.arange(12).view(4, 3) * 5 % 7
    for direction_tensors in tensors:
        direction_tensors["x"] = direction_tensors["x"].flatten(0, 1)[:7]
    options = [{**options_for(4, 3, reverse=reverse), "index": index} for reverse in (False, True)]
    check(tensors, options, torch.float32)


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("lengths", [None, (4,) * 2 + (2,) * 3 + (1,) * 15], ids=str)
def test_fused_lstm_without_gradients_matches_reference(lengths):
    tensors = [draw(4, 20, seed=seed) for seed in (0, 1)]
    options = [options_for(4, 20, lengths=lengths, reverse=reverse) for reverse in (False, True)]
    calls = []
    for direction_tensors, direction_options in zip(tensors, options, strict=True):
        converted = {name: value.float().to(DEVICE) for name, value in direction_tensors.items()}
        moved = {n: v.to(DEVICE) if torch.is_tensor(v) else v for n, v in direction_options.items()}
        calls.append(LSTMCall(**converted, **moved))
    actual = lstm_fused.lstm(calls)
    expected = lstm_reference.lstm(calls)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


SIZES = [(1, 1), (3, 19), (127, 2)]
if not IS_INTERPRETED:
    SIZES = [(1, 1), (1, 200), (3, 19), (127, 1), (127, 200), (300, 19), (1030, 3)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("batch", "n_steps"), SIZES)
@pytest.mark.parametrize("cell", [40, 136] if IS_INTERPRETED else [40, 136, 1000])
@pytest.mark.parametrize("clips", [(None, None), (0.8, 0.5)], ids=str)
def test_fused_lstm_with_shapes_that_do_not_fill_tiles_matches_reference(
    dtype, batch, n_steps, cell, clips
):
    """Uses the default launch plan for the batch size."""
    tensors = [draw(n_steps, batch, dim=72, cell=cell, out=72, seed=seed) for seed in (0, 1)]
    check(tensors, [options_for(n_steps, batch, clips=clips)] * 2, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("batch", [30, 64])
def test_fused_lstm_with_launch_plans_for_small_batches_matches_reference(dtype, projected, batch):
    n_steps, cell = (2, 40) if IS_INTERPRETED else (20, 256)
    tensors = [
        draw(n_steps, batch, dim=72, cell=cell, out=72, projected=projected, seed=seed)
        for seed in (0, 1)
    ]
    check(tensors, [options_for(n_steps, batch, clips=(None, None))] * 2, dtype)


def test_second_backward_pass_of_fused_lstm_raises():
    tensors = {name: value.float().to(DEVICE) for name, value in draw(2, 3).items()}
    tensors["x"].requires_grad_()
    options = options_for(2, 3)
    options = {n: v.to(DEVICE) if torch.is_tensor(v) else v for n, v in options.items()}
    ((out, _, _),) = lstm_fused.lstm([LSTMCall(**tensors, **options)])
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only one backward pass"):
        out.sum().backward()
