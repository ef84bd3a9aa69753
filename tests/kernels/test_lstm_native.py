"""Tests that compare the native LSTM with the reference, in all precisions and on all CPU types."""

import dataclasses

import pytest
import torch

from elmo.kernels import lstm_native, lstm_reference, native_ffi
from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.native_kernels import NativeKernels
from elmo.kernels.weight_snapshot import WeightSnapshot

TOLERANCE = {"float32": 1e-6, "int8x3": 2e-6, "bfloat16": 1e-2, "int8": 4e-2}


def draw(lengths, *, dim=64, cell=128, out=64, reverse=False, indexed=False, clips=(0.4, 0.5)):
    """Return a random LSTM call whose rows are sorted by decreasing length."""
    generator = torch.Generator().manual_seed(len(lengths) + cell)

    def normal(*shape, scale=1.0):
        return scale * torch.randn(shape, generator=generator)

    n_steps, batch = max(lengths), len(lengths)
    active = [sum(length > step for length in lengths) for step in range(n_steps)]
    x, index = normal(n_steps, batch, dim), None
    if indexed:
        x = normal(11, dim)
        index = torch.randint(0, 11, (n_steps, batch), generator=generator)
    return LSTMCall(
        x,
        weight_ih=normal(4 * cell, dim, scale=dim**-0.5),
        weight_hh=normal(4 * cell, out, scale=out**-0.5),
        bias=normal(4 * cell, scale=0.3),
        weight_hr=None if cell == out else normal(out, cell, scale=3 * cell**-0.5),
        h=normal(batch, out, scale=0.3),
        c=normal(batch, cell, scale=0.3),
        mask=torch.arange(n_steps)[:, None] < torch.tensor(lengths),
        active=active,
        cell_clip=clips[0],
        projection_clip=clips[1],
        reverse=reverse,
        index=index,
    )


def both_directions(lengths, **settings):
    return [draw(lengths, reverse=reverse, **settings) for reverse in (False, True)]


def snapshot_of(directions):
    weights = [(call.weight_ih, call.weight_hh, call.weight_hr) for call in directions]
    return WeightSnapshot(weight for group in weights for weight in group if weight is not None)


def lstm(directions, precision):
    return lstm_native.lstm(directions, snapshot_of(directions), precision)


def check(directions, precision, snapshot=None):
    snapshot = snapshot or snapshot_of(directions)
    with torch.inference_mode():
        expected = lstm_reference.lstm(directions)
        assert lstm_native.can_run(directions, precision)
        actual = lstm_native.lstm(directions, snapshot, precision)
    for result, expected_result in zip(actual, expected, strict=True):
        for value, true in zip(result, expected_result, strict=True):
            assert value.shape == true.shape
            assert (value - true).norm() <= TOLERANCE[precision] * true.norm()


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("lengths", [[1], [3, 3, 1], [7] * 16 + [2] * 17 + [1] * 5])
def test_native_lstm_matches_reference(precisions, lengths, indexed):
    for precision in precisions:
        check(both_directions(lengths, indexed=indexed), precision)


@pytest.mark.parametrize("clips", [(None, None), (0.4, None), (None, 0.5)])
def test_native_lstm_with_clips_matches_reference(precisions, clips):
    for precision in precisions:
        check(both_directions([5, 2], clips=clips), precision)


def test_native_lstm_without_projection_matches_reference(precisions):
    for precision in precisions:
        check(both_directions([4, 4, 2], cell=64, out=64), precision)


def test_native_lstm_with_different_cell_and_projection_widths_matches_reference(precisions):
    for precision in precisions:
        check(both_directions([4, 3], dim=192, cell=256, out=64), precision)


def test_native_lstm_with_several_threads_matches_reference(precisions, monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 6)
    for precision in precisions:
        check(both_directions(list(range(40, 0, -1)), indexed=True), precision)
        check(both_directions(list(range(40, 0, -1))), precision)


@pytest.mark.parametrize("shared_bytes", [0, 2**28])
def test_native_lstm_with_steps_split_into_several_turns_matches_reference(
    precisions, monkeypatch, shared_bytes
):
    monkeypatch.setattr(lstm_native, "MAX_TURN_POSITIONS", 10)
    monkeypatch.setattr(lstm_native, "SHARED_BYTES", shared_bytes)
    for precision in precisions:
        check(both_directions([9, 8, 8, 3, 1], indexed=True), precision)
        check(both_directions([9, 8, 8, 3, 1]), precision)
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 6)
    for precision in precisions:
        check(both_directions(list(range(40, 0, -1)), indexed=True), precision)
        check(both_directions(list(range(40, 0, -1))), precision)


def test_native_lstm_output_of_a_row_does_not_depend_on_other_rows(precisions, monkeypatch):
    lengths = [9] * 3 + [6] * 20 + [2] * 19
    for precision in precisions:
        direction = draw(lengths, indexed=True)
        with torch.inference_mode():
            whole = lstm([direction], precision)[0]
            for rows in (slice(0, 1), slice(2, 25), slice(30, 42)):
                part_lengths = lengths[rows]
                part = dataclasses.replace(
                    direction,
                    h=direction.h[rows],
                    c=direction.c[rows],
                    mask=direction.mask[:, rows],
                    index=direction.index[:, rows],
                    active=[sum(length > step for length in part_lengths) for step in range(9)],
                )
                for number, value in enumerate(lstm([part], precision)[0]):
                    expected = whole[number][:, rows] if number == 0 else whole[number][rows]
                    assert torch.equal(value, expected)


@pytest.mark.parametrize("tensor_name", ["x", "c", "bias", "weight_hr"])
def test_native_lstm_propagates_nan(precisions, tensor_name):
    for precision in precisions:
        directions = both_directions([3, 3, 2])
        tensor = getattr(directions[0], tensor_name)
        tensor[(1, 1) if tensor_name in ("x", "weight_hr") else (1,)] = float("nan")
        with torch.inference_mode():
            out, h, c = lstm(directions, precision)[0]
        assert out[1:, 1].isnan().all()
        assert c[1].isnan().all()
        assert h[1].isnan().all()
        is_in_one_row = tensor_name in ("x", "c")
        assert out[:, 0].isnan().any() != is_in_one_row
        assert out[0, 2].isnan().any() != is_in_one_row


def test_native_lstm_with_small_cell_outputs_matches_reference(precisions):
    """Trained models have nearly closed output gates and large projection weights."""
    for precision in precisions:
        directions = []
        for direction in both_directions([2, 2, 1], cell=256, clips=(3.0, 3.0)):
            direction.bias.view(4, -1)[3] -= 4
            directions.append(dataclasses.replace(direction, weight_hr=8 * direction.weight_hr))
        check(directions, precision)


def test_native_lstm_ignores_previous_contents_of_scratch_memory(precisions):
    for precision in precisions:
        check(both_directions([5, 4, 1]), precision)
        with torch.inference_mode():
            for memory in native_ffi.scratch.buffers.values():
                memory.fill_(255)
        check(both_directions([5, 4, 1]), precision)
        check(both_directions([5, 4, 1], indexed=True), precision)


def test_native_lstm_with_saturated_gates_matches_reference(precisions):
    for precision in precisions:
        directions = both_directions([4, 4])
        directions = [
            dataclasses.replace(call, bias=call.bias * 1e6, x=call.x * 1e4) for call in directions
        ]
        check(directions, precision)


def test_native_lstm_repacks_weights_after_a_change(precisions):
    directions = both_directions([3, 2])
    snapshot = snapshot_of(directions)
    for precision in precisions:
        check(directions, precision, snapshot)
    directions[0].weight_hh.mul_(-1)
    directions[1].weight_hr.data = directions[1].weight_hr * 2
    weights = [call.weight_hh for call in directions] + [call.weight_ih for call in directions]
    snapshot = snapshot.updated([*weights, *(call.weight_hr for call in directions)])
    for precision in precisions:
        check(directions, precision, snapshot)


def test_native_lstm_requires_inference_mode_and_supported_calls(precisions):
    def can_run(direction):
        return lstm_native.can_run([direction], "float32")

    supported = draw([3, 2])
    with torch.inference_mode():
        assert can_run(supported)
        for changes in (
            {"active": None},
            {"resets": torch.zeros(3, 2, dtype=torch.bool)},
            {"x": supported.x.double()},
            {"c": supported.c.double()},
        ):
            assert not can_run(dataclasses.replace(supported, **changes))
        assert not can_run(draw([3, 2], cell=96))
        indexed = draw([3, 2], indexed=True)
        assert can_run(indexed)
        assert not can_run(dataclasses.replace(indexed, index=indexed.index + 11))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert not can_run(supported)
    assert not can_run(supported)


def test_native_kernels_run_the_native_lstm_only_for_weights_of_the_snapshot(precisions):
    direction = draw([3, 2])
    for precision in precisions:
        with torch.inference_mode():
            native = lstm([direction], precision)[0]
            covered = NativeKernels(snapshot_of([direction]), precision).lstm([direction])[0]
            other = NativeKernels(WeightSnapshot(), precision).lstm([direction])[0]
            reference = lstm_reference.lstm([direction])[0]
        for values in zip(native, covered, strict=True):
            assert torch.equal(*values)
        for values in zip(other, reference, strict=True):
            assert torch.equal(*values)


def test_native_lstm_does_not_modify_its_arguments(precisions):
    direction = draw([3, 2])
    before = [direction.h.clone(), direction.c.clone(), direction.x.clone()]
    with torch.inference_mode():
        lstm([direction], "float32")
    for value, old in zip((direction.h, direction.c, direction.x), before, strict=True):
        assert torch.equal(value, old)


# ------------------------------------------------------------------ first step


def common_start(lengths, *, reverse, indexed):
    """Return rows with a zero state and the same first input."""
    call = draw(lengths, reverse=reverse, indexed=indexed)
    generator = torch.Generator().manual_seed(7)
    words = torch.randint(1, 4, call.mask.shape, generator=generator)
    x = torch.randn(11, call.weight_ih.shape[1], generator=generator)
    first = torch.tensor(lengths) - 1 if reverse else torch.zeros(len(lengths), dtype=torch.long)
    words[first, torch.arange(len(lengths))] = 0
    inputs = {"x": x, "index": words} if indexed else {"x": x[words]}
    h, c = torch.zeros_like(call.h), torch.zeros_like(call.c)
    return dataclasses.replace(call, h=h, c=c, **inputs)


@pytest.fixture
def first_steps(monkeypatch):
    """Enable the common first step for small batches; return a list with the computed ones."""
    computed = []
    make = lstm_native._FirstStep

    def recorded(*arguments):
        computed.append(1)
        return make(*arguments)

    always = dict.fromkeys(lstm_native.MIN_FIRST_STEP_WORK, 0)
    monkeypatch.setattr(lstm_native, "MIN_FIRST_STEP_WORK", always)
    monkeypatch.setattr(lstm_native, "_FirstStep", recorded)
    return computed


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "lengths", [[1], [5], [2, 2], [1] * 3, [6] * 40, [9] * 3 + [6] * 20 + [2] * 19 + [1]]
)
def test_native_lstm_with_common_first_input_matches_reference(
    precisions, first_steps, lengths, indexed
):
    for precision in precisions:
        directions = [
            common_start(lengths, reverse=reverse, indexed=indexed) for reverse in (False, True)
        ]
        snapshot = snapshot_of(directions)
        for _ in range(2):
            check(directions, precision, snapshot)
        # In the second call the first step is that of the first call.
        assert len(first_steps) == 2
        first_steps.clear()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_native_lstm_with_kept_first_step_equals_lstm_without(
    precisions, first_steps, indexed, reverse, monkeypatch
):
    for precision in precisions:
        direction = common_start([7] * 30 + [4] * 10, reverse=reverse, indexed=indexed)
        with torch.inference_mode():
            results = lstm([direction], precision)[0]
            assert first_steps
            first_steps.clear()
            with pytest.MonkeyPatch.context() as patch:
                never = dict.fromkeys(lstm_native.MIN_FIRST_STEP_WORK, 2**60)
                patch.setattr(lstm_native, "MIN_FIRST_STEP_WORK", never)
                expected = lstm([direction], precision)[0]
        assert not first_steps
        for value, true in zip(results, expected, strict=True):
            assert torch.equal(value, true)


def test_kept_first_step_is_recomputed_after_any_relevant_change(precisions, first_steps):
    for precision in precisions:
        call = common_start([3] * 4, reverse=False, indexed=True)
        snapshot = snapshot_of([call])
        for changed in (
            call,
            dataclasses.replace(call, bias=call.bias + 0.1),
            dataclasses.replace(call, cell_clip=0.2),
            dataclasses.replace(call, projection_clip=0.1),
            dataclasses.replace(call, x=call.x + 0.1),
            dataclasses.replace(call, weight_ih=call.weight_ih * 2),
            dataclasses.replace(call, weight_hr=call.weight_hr * 2),
            dataclasses.replace(call, weight_hh=call.weight_hh * 2),
        ):
            first_steps.clear()
            weights = (changed.weight_ih, changed.weight_hh, changed.weight_hr)
            snapshot = snapshot.updated(weights)
            check([changed], precision, snapshot)
            check([changed], precision, snapshot)
            assert len(first_steps) == 1
        # Not used if the initial state is not zero, or if rows begin with different inputs.
        first_steps.clear()
        for changed in (
            dataclasses.replace(call, h=call.h + 0.1),
            dataclasses.replace(call, c=call.c - 0.1),
            dataclasses.replace(call, index=torch.arange(12).view(3, 4) % 11),
        ):
            check([changed], precision)
        assert not first_steps


def test_single_row_computes_a_separate_first_step_only_once(precisions, first_steps):
    for precision in precisions:
        call = common_start([4], reverse=False, indexed=True)
        snapshot = snapshot_of([call])
        check([call], precision, snapshot)
        check([dataclasses.replace(call, x=call.x + 0.1)], precision, snapshot)
        assert len(first_steps) == 1
        first_steps.clear()
