"""Tests of the reference LSTM: gradients, padding, chunks, precision and state resets."""

import math

import pytest
import torch

from elmo.kernels import lstm_reference
from elmo.kernels.lstm_call import LSTMCall

DIM, CELL, PROJECTION = 3, 4, 2
LENGTHS = (5, 3, 3, 1)
MASK = torch.arange(max(LENGTHS))[:, None] < torch.tensor(LENGTHS)
ACTIVE = MASK.sum(dim=1).tolist()
CLIPS = {"none": (None, None), "cell": (0.4, None), "projection": (None, 0.3), "both": (0.4, 0.3)}


def arguments(*, dtype=torch.float64, projected=True, dim=DIM, scale=1.0, mask=MASK, seed=0):
    """Return random weights, input and initial state for one call."""
    generator = torch.Generator().manual_seed(seed)
    width = PROJECTION if projected else CELL
    n_steps, batch = mask.shape
    shapes = {
        "x": (n_steps, batch, dim),
        "weight_ih": (4 * CELL, dim),
        "weight_hh": (4 * CELL, width),
        "bias": (4 * CELL,),
        "weight_hr": (PROJECTION, CELL) if projected else None,
        "h": (batch, width),
        "c": (batch, CELL),
    }
    drawn = {
        name: None if shape is None else scale * torch.randn(shape, generator=generator).to(dtype)
        for name, shape in shapes.items()
    }
    if projected:
        # Outputs must be large enough to reach their clip.
        drawn["weight_hr"] = 2 * drawn["weight_hr"]
    return drawn


def run(tensors, *, clips=(None, None), reverse=False, by="mask", mask=MASK):
    """Run one direction with padding given by a mask, or by row counts and a wrong mask."""
    return lstm_reference.lstm([direction(tensors, clips, reverse, by, mask)])[0]


def direction(tensors, clips=(None, None), reverse=False, by="mask", mask=MASK):
    active = mask.sum(dim=1).tolist() if by == "active" else None
    return LSTMCall(
        **tensors,
        mask=~mask if by == "active" else mask,
        active=active,
        cell_clip=clips[0],
        projection_clip=clips[1],
        reverse=reverse,
    )


@pytest.mark.parametrize("by", ["mask", "active"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("clips", CLIPS)
@pytest.mark.parametrize("projected", [True, False])
def test_reference_lstm_gradients_match_finite_differences(by, reverse, clips, projected):
    tensors = arguments(projected=projected)
    names = [name for name, value in tensors.items() if value is not None]

    def call(*values):
        replaced = {**tensors, **dict(zip(names, values, strict=True))}
        return run(replaced, clips=CLIPS[clips], reverse=reverse, by=by)

    outputs, _, final_c = call(*(tensors[name] for name in names))
    cell_clip, projection_clip = CLIPS[clips]
    if cell_clip is not None:
        assert (final_c.abs() == cell_clip).any()
    if projected and projection_clip is not None:
        assert (outputs.abs() == projection_clip).any()
    if not projected and cell_clip is None and projection_clip is not None:
        # Without a projection its clip is ignored.
        assert outputs.abs().max() > projection_clip
    values = [tensors[name].requires_grad_() for name in names]
    assert torch.autograd.gradcheck(call, values, fast_mode=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("clips", CLIPS)
@pytest.mark.parametrize("projected", [True, False])
def test_padding_mask_and_active_row_counts_give_the_same_results(reverse, clips, projected):
    results = {}
    for by in ("mask", "active"):
        tensors = arguments(projected=projected)
        leaves = [value.requires_grad_() for value in tensors.values() if value is not None]
        values = run(tensors, clips=CLIPS[clips], reverse=reverse, by=by)
        loss = sum((value * (number + 1)).square().sum() for number, value in enumerate(values))
        results[by] = [*values, *torch.autograd.grad(loss, leaves)]
    for by_mask, by_active in zip(results["mask"], results["active"], strict=True):
        torch.testing.assert_close(by_mask, by_active, rtol=0, atol=1e-12)


@pytest.mark.parametrize("by", ["mask", "active"])
@pytest.mark.parametrize("reverse", [False, True])
def test_each_row_of_a_batch_equals_the_row_computed_alone(by, reverse):
    tensors = arguments()
    outputs, final_h, final_c = run(tensors, clips=(0.4, 0.3), reverse=reverse, by=by)
    for row, length in enumerate(LENGTHS):
        single = {**tensors, "x": tensors["x"][:length, row : row + 1]}
        single |= {name: tensors[name][row : row + 1] for name in ("h", "c")}
        no_padding = torch.ones(length, 1, dtype=torch.bool)
        expected, h, c = run(single, clips=(0.4, 0.3), reverse=reverse, mask=no_padding)
        torch.testing.assert_close(outputs[:length, row], expected[:, 0], rtol=0, atol=1e-12)
        assert not outputs[length:, row].any()
        torch.testing.assert_close(final_h[row], h[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(final_c[row], c[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("by", ["mask", "active"])
def test_reverse_lstm_equals_forward_lstm_on_reversed_input(by):
    mask = torch.ones(5, 3, dtype=torch.bool)
    tensors = arguments(mask=mask)
    backward = run(tensors, reverse=True, by=by, mask=mask)
    forward = run({**tensors, "x": tensors["x"].flip(0)}, by=by, mask=mask)
    torch.testing.assert_close(backward[0], forward[0].flip(0), rtol=0, atol=1e-12)
    torch.testing.assert_close(backward[1:], forward[1:], rtol=0, atol=1e-12)
    assert not torch.allclose(backward[0], run(tensors, by=by, mask=mask)[0])


@pytest.mark.parametrize("by", ["mask", "active"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_chunk_size_does_not_change_lstm_results(monkeypatch, by, reverse, steps):
    tensors = arguments()
    whole = run(tensors, clips=(0.4, 0.3), reverse=reverse, by=by)
    chunks = []
    inner = lstm_reference._InputGates.gates_of_steps

    def counted(self, start, counts):
        chunks.append(len(counts))
        return inner(self, start, counts)

    monkeypatch.setattr(lstm_reference._InputGates, "gates_of_steps", counted)
    monkeypatch.setattr(lstm_reference, "CHUNK_VALUES", steps * len(LENGTHS) * 4 * CELL)
    parts = run(tensors, clips=(0.4, 0.3), reverse=reverse, by=by)
    expected = {1: [1] * 5, 2: [2, 2, 1], 3: [3, 2]}[steps]
    assert chunks == (expected[::-1] if reverse else expected)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


def test_lstm_chunk_has_at_least_one_step(monkeypatch):
    whole = run(arguments())
    monkeypatch.setattr(lstm_reference, "CHUNK_VALUES", 1)
    torch.testing.assert_close(run(arguments()), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("by", ["mask", "active"])
@pytest.mark.parametrize("reverse", [False, True])
def test_steps_after_the_longest_row_are_padding(by, reverse):
    tensors = arguments()
    extra = torch.zeros(3, len(LENGTHS), dtype=torch.bool)
    wider = {**tensors, "x": torch.cat([tensors["x"], torch.ones(3, len(LENGTHS), DIM).double()])}
    outputs, h, c = run(wider, reverse=reverse, by=by, mask=torch.cat([MASK, extra]))
    expected = run(tensors, reverse=reverse, by=by)
    torch.testing.assert_close((outputs[:5], h, c), expected, rtol=0, atol=1e-12)
    assert not outputs[5:].any()


def test_one_lstm_step_equals_the_formula():
    # One cell, one input: i = 1, f = 2, g = 3, o = 4 before their activations.
    one = torch.ones(1, 1, dtype=torch.float64)
    tensors = {
        "x": one[None],
        "weight_ih": torch.tensor([[0.5], [1.5], [2.5], [3.5]], dtype=torch.float64),
        "weight_hh": torch.full((4, 1), 0.25, dtype=torch.float64),
        "bias": torch.full((4,), 0.25, dtype=torch.float64),
        "weight_hr": None,
        "h": one,
        "c": 2 * one,
    }
    mask = torch.ones(1, 1, dtype=torch.bool)
    outputs, h, c = run(tensors, mask=mask)
    i, f, o = (1 / (1 + math.exp(-value)) for value in (1, 2, 4))
    expected = f * 2 + i * math.tanh(3)
    assert c.item() == pytest.approx(expected, abs=1e-12)
    assert h.item() == pytest.approx(o * math.tanh(expected), abs=1e-12)
    assert outputs.item() == h.item()
    assert run(tensors, clips=(0.5, 0.1), mask=mask)[2].item() == 0.5


@pytest.mark.parametrize("reverse", [False, True])
def test_float32_lstm_is_close_to_float64(reverse):
    mask = torch.ones(60, 4, dtype=torch.bool)
    tensors = arguments(mask=mask, scale=0.7)
    float32 = {name: value.float() for name, value in tensors.items()}
    float64 = {name: value.double() for name, value in float32.items()}
    exact = run(float64, clips=(3.0, 3.0), reverse=reverse, mask=mask)
    actual = run(float32, clips=(3.0, 3.0), reverse=reverse, mask=mask)
    for value, true in zip(actual, exact, strict=True):
        assert value.dtype == torch.float32
        assert (value - true).abs().max() < 2e-6


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed, switching to BLAS gemm:UserWarning")
def test_reference_lstm_returns_cell_state_in_its_original_dtype():
    tensors = arguments(dtype=torch.bfloat16)
    tensors["c"] = tensors["c"].float()
    outputs, h, c = run(tensors)
    assert (outputs.dtype, h.dtype, c.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    # If the cell had been rounded to bfloat16, it would be representable in bfloat16.
    assert (c != c.bfloat16()).any()


@pytest.mark.parametrize("by", ["mask", "active"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [0, 2**24])
def test_indexed_input_equals_gathered_input(monkeypatch, by, reverse, limit):
    """Distinct vectors with an index give the same results as the gathered vectors."""
    monkeypatch.setattr(lstm_reference, "SHARED_VALUES", limit)
    tensors = arguments()
    vectors = tensors["x"].flatten(0, 1)[:6]
    index = torch.arange(20).view(5, 4) * 7 % 6
    expected = run({**tensors, "x": vectors[index]}, clips=(0.4, 0.3), reverse=reverse, by=by)
    shared = {**tensors, "x": vectors, "index": index}
    for context in (torch.enable_grad, torch.no_grad):
        with context():
            actual = run(shared, clips=(0.4, 0.3), reverse=reverse, by=by)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("clips", CLIPS)
def test_lstm_without_gradients_equals_lstm_with_gradients(clips):
    """Without gradients, the cell is updated in place."""
    expected = run(arguments(), clips=CLIPS[clips])
    with torch.no_grad():
        actual = run(arguments(), clips=CLIPS[clips])
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------ resets

# Row 0 is reset at step 2, row 1 at steps 0 and 3, row 2 never, row 3 at every step.
RESETS = torch.tensor(
    [[0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1]], dtype=torch.bool
)
ALL_REAL = torch.ones_like(RESETS)


def segments_of_row(row, reverse):
    """Return the steps of a row between resets, in processing order."""
    steps = list(reversed(range(5))) if reverse else list(range(5))
    segments = [[]]
    for step in steps:
        if RESETS[step, row] and segments[-1]:
            segments.append([])
        segments[-1].append(step)
    return segments


def run_segments(tensors, *, clips, reverse):
    """Return the expected result of `run` with resets, by running every segment separately."""
    batch = RESETS.shape[1]
    outputs = [[None] * batch for _ in range(5)]
    finals = []
    for row in range(batch):
        h, c = tensors["h"][row : row + 1], tensors["c"][row : row + 1]
        for steps in segments_of_row(row, reverse):
            if RESETS[steps[0], row]:
                h, c = torch.zeros_like(h), torch.zeros_like(c)
            segment = {**tensors, "x": tensors["x"][sorted(steps), row : row + 1], "h": h, "c": c}
            no_padding = torch.ones(len(steps), 1, dtype=torch.bool)
            values, h, c = run(segment, clips=clips, reverse=reverse, mask=no_padding)
            for step, value in zip(sorted(steps), values, strict=True):
                outputs[step][row] = value[0]
        finals.append((h[0], c[0]))
    return (
        torch.stack([torch.stack(row) for row in outputs]),
        torch.stack([h for h, _ in finals]),
        torch.stack([c for _, c in finals]),
    )


@pytest.mark.parametrize("by", ["mask", "active"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("clips", ["none", "both"])
@pytest.mark.parametrize("projected", [True, False])
def test_state_reset_equals_running_segments_separately(by, reverse, clips, projected):
    tensors = arguments(projected=projected)
    leaves = [value.requires_grad_() for value in tensors.values() if value is not None]

    def with_gradients(values):
        loss = sum((value * (number + 1)).square().sum() for number, value in enumerate(values))
        return [*values, *torch.autograd.grad(loss, leaves)]

    actual = with_gradients(
        run(
            {**tensors, "resets": RESETS},
            clips=CLIPS[clips],
            reverse=reverse,
            by=by,
            mask=ALL_REAL,
        )
    )
    expected = with_gradients(run_segments(tensors, clips=CLIPS[clips], reverse=reverse))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    without_resets = run(tensors, clips=CLIPS[clips], reverse=reverse, by=by, mask=ALL_REAL)
    assert not torch.allclose(actual[0], without_resets[0])


@pytest.mark.parametrize("reverse", [False, True])
def test_state_reset_blocks_the_gradient(reverse):
    tensors = arguments()
    tensors["h"].requires_grad_()
    tensors["c"].requires_grad_()
    resets = torch.zeros_like(RESETS)
    resets[2] = True
    outputs, h, c = run({**tensors, "resets": resets}, reverse=reverse, mask=ALL_REAL)
    after = outputs[:3] if reverse else outputs[2:]
    for gradient in torch.autograd.grad(
        after.sum() + h.sum() + c.sum(), [tensors["h"], tensors["c"]], retain_graph=True
    ):
        assert not gradient.any()
    before = outputs[3:] if reverse else outputs[:2]
    assert all(g.any() for g in torch.autograd.grad(before.sum(), [tensors["h"], tensors["c"]]))


@pytest.mark.parametrize("by", ["mask", "active"])
def test_reset_mask_without_resets_does_not_change_results(by):
    tensors = arguments()
    no_resets = {**tensors, "resets": torch.zeros_like(RESETS)}
    actual = run(no_resets, clips=(0.4, 0.3), by=by)
    torch.testing.assert_close(actual, run(tensors, clips=(0.4, 0.3), by=by), rtol=0, atol=0)


@pytest.mark.parametrize("steps", [1, 2])
def test_chunk_size_does_not_change_results_with_resets(monkeypatch, steps):
    tensors = {**arguments(), "resets": RESETS}
    whole = run(tensors, mask=ALL_REAL)
    monkeypatch.setattr(lstm_reference, "CHUNK_VALUES", steps * len(LENGTHS) * 4 * CELL)
    torch.testing.assert_close(run(tensors, mask=ALL_REAL), whole, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------ directions


def test_lstm_directions_are_computed_independently():
    """Each direction has its own weights, state, padding, clips, resets and index."""
    vectors, index = arguments()["x"].flatten(0, 1)[:6], torch.arange(20).view(5, 4) * 7 % 6
    forward = direction(arguments(), clips=(0.4, 0.3), by="active")
    backward = direction(
        {**arguments(seed=1), "x": vectors, "index": index, "resets": RESETS},
        reverse=True,
        mask=ALL_REAL,
    )
    both = lstm_reference.lstm([forward, backward])
    separate = [lstm_reference.lstm([call])[0] for call in (forward, backward)]
    torch.testing.assert_close(both, separate, rtol=0, atol=0)
    assert lstm_reference.lstm([]) == []
