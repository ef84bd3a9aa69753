"""The LSTM layer in C: the reference's values, in each arithmetic, on each kind of CPU."""

import dataclasses

import pytest
import torch

from elmo.kernels import dispatch, lstm_native, lstm_reference, native_ffi
from elmo.kernels.compute_precision import computing_in
from elmo.kernels.lstm_call import LSTMCall

TOLERANCE = {"float32": 1e-6, "int8x3": 2e-6, "bfloat16": 1e-2, "int8": 4e-2}


def draw(lengths, *, dim=64, cell=128, out=64, reverse=False, indexed=False, clips=(0.4, 0.5)):
    """Draw a direction; rows are sorted by falling length."""
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


def both(lengths, **settings):
    return [draw(lengths, reverse=reverse, **settings) for reverse in (False, True)]


def check(directions, arithmetic):
    with torch.inference_mode():
        expected = lstm_reference.lstm(directions)
        with computing_in(arithmetic):
            assert lstm_native.can_run(directions)
            found = lstm_native.lstm(directions)
    for walk, true in zip(found, expected, strict=True):
        for ours, value in zip(walk, true, strict=True):
            assert ours.shape == value.shape
            tolerance = TOLERANCE[native_ffi.kind_of(arithmetic)]
            assert (ours - value).norm() <= tolerance * value.norm()


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("lengths", [[1], [3, 3, 1], [7] * 16 + [2] * 17 + [1] * 5])
def test_it_is_the_reference(arithmetics, lengths, indexed):
    for arithmetic in arithmetics:
        check(both(lengths, indexed=indexed), arithmetic)


@pytest.mark.parametrize("clips", [(None, None), (0.4, None), (None, 0.5)])
def test_clips(arithmetics, clips):
    for arithmetic in arithmetics:
        check(both([5, 2], clips=clips), arithmetic)


def test_without_projection(arithmetics):
    for arithmetic in arithmetics:
        check(both([4, 4, 2], cell=64, out=64), arithmetic)


def test_widths_that_differ(arithmetics):
    for arithmetic in arithmetics:
        check(both([4, 3], dim=192, cell=256, out=64), arithmetic)


def test_several_threads(arithmetics, monkeypatch):
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 6)
    for arithmetic in arithmetics:
        check(both(list(range(40, 0, -1)), indexed=True), arithmetic)
        check(both(list(range(40, 0, -1))), arithmetic)


@pytest.mark.parametrize("shared_bytes", [0, 2**28])
def test_steps_in_turns(arithmetics, monkeypatch, shared_bytes):
    monkeypatch.setattr(lstm_native, "POSITIONS", 10)
    monkeypatch.setattr(lstm_native, "SHARED_BYTES", shared_bytes)
    for arithmetic in arithmetics:
        check(both([9, 8, 8, 3, 1], indexed=True), arithmetic)
        check(both([9, 8, 8, 3, 1]), arithmetic)
    monkeypatch.setattr(native_ffi.torch, "get_num_threads", lambda: 6)
    for arithmetic in arithmetics:
        check(both(list(range(40, 0, -1)), indexed=True), arithmetic)
        check(both(list(range(40, 0, -1))), arithmetic)


def test_a_row_depends_on_itself_alone(arithmetics, monkeypatch):
    lengths = [9] * 3 + [6] * 20 + [2] * 19
    for arithmetic in arithmetics:
        direction = draw(lengths, indexed=True)
        with torch.inference_mode(), computing_in(arithmetic):
            whole = lstm_native.lstm([direction])[0]
            for rows in (slice(0, 1), slice(2, 25), slice(30, 42)):
                own = lengths[rows]
                part = dataclasses.replace(
                    direction,
                    h=direction.h[rows],
                    c=direction.c[rows],
                    mask=direction.mask[:, rows],
                    index=direction.index[:, rows],
                    active=[sum(length > step for length in own) for step in range(9)],
                )
                for number, value in enumerate(lstm_native.lstm([part])[0]):
                    expected = whole[number][:, rows] if number == 0 else whole[number][rows]
                    assert torch.equal(value, expected)


@pytest.mark.parametrize("place", ["x", "c", "bias", "weight_hr"])
def test_what_is_no_number_stays_none(arithmetics, place):
    for arithmetic in arithmetics:
        directions = both([3, 3, 2])
        broken = getattr(directions[0], place)
        broken[(1, 1) if place in ("x", "weight_hr") else (1,)] = float("nan")
        with torch.inference_mode(), computing_in(arithmetic):
            out, h, c = lstm_native.lstm(directions)[0]
        assert out[1:, 1].isnan().all()
        assert c[1].isnan().all()
        assert h[1].isnan().all()
        is_of_a_row = place in ("x", "c")
        assert out[:, 0].isnan().any() != is_of_a_row
        assert out[0, 2].isnan().any() != is_of_a_row


def test_units_that_are_mostly_small(arithmetics):
    """Nearly closed output gates, and a projection that makes up for it, as trained models have."""
    for arithmetic in arithmetics:
        directions = []
        for direction in both([2, 2, 1], cell=256, clips=(3.0, 3.0)):
            direction.bias.view(4, -1)[3] -= 4
            directions.append(dataclasses.replace(direction, weight_hr=8 * direction.weight_hr))
        check(directions, arithmetic)


def test_memory_that_was_used_before(arithmetics):
    for arithmetic in arithmetics:
        check(both([5, 4, 1]), arithmetic)
        with torch.inference_mode():
            for memory in native_ffi.room.named.values():
                memory.fill_(255)
        check(both([5, 4, 1]), arithmetic)
        check(both([5, 4, 1], indexed=True), arithmetic)


def test_large_gates_saturate(arithmetics):
    for arithmetic in arithmetics:
        directions = both([4, 4])
        directions = [
            dataclasses.replace(one, bias=one.bias * 1e6, x=one.x * 1e4) for one in directions
        ]
        check(directions, arithmetic)


def test_weights_that_change_are_packed_anew(arithmetics):
    directions = both([3, 2])
    for arithmetic in arithmetics:
        check(directions, arithmetic)
    directions[0].weight_hh.mul_(-1)
    directions[1].weight_hr.data = directions[1].weight_hr * 2
    for arithmetic in arithmetics:
        check(directions, arithmetic)


def test_where_it_runs(arithmetics):
    plain = draw([3, 2])
    with torch.inference_mode():
        assert lstm_native.can_run([plain])
        for other in (
            {"active": None},
            {"resets": torch.zeros(3, 2, dtype=torch.bool)},
            {"x": plain.x.double()},
            {"c": plain.c.double()},
        ):
            assert not lstm_native.can_run([dataclasses.replace(plain, **other)])
        assert not lstm_native.can_run([draw([3, 2], cell=96)])
        indexed = draw([3, 2], indexed=True)
        assert lstm_native.can_run([indexed])
        assert not lstm_native.can_run([dataclasses.replace(indexed, index=indexed.index + 11)])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert not lstm_native.can_run([plain])
    assert not lstm_native.can_run([plain])


def test_it_is_chosen(arithmetics):
    direction = draw([3, 2])
    with torch.inference_mode():
        named = dispatch.lstm([direction], "native")
        for ours, own in zip(dispatch.lstm([direction])[0], named[0], strict=True):
            assert torch.equal(ours, own)


def test_nothing_is_written_to_what_is_given(arithmetics):
    direction = draw([3, 2])
    before = [direction.h.clone(), direction.c.clone(), direction.x.clone()]
    with torch.inference_mode():
        lstm_native.lstm([direction])
    for value, old in zip((direction.h, direction.c, direction.x), before, strict=True):
        assert torch.equal(value, old)


# ------------------------------------------------------------------ rows that begin alike


def alike(lengths, *, reverse, indexed, n_words=3):
    """Draw rows that begin out of zeros, all with one input, then with one of a few."""
    drawn = draw(lengths, reverse=reverse, indexed=indexed)
    generator = torch.Generator().manual_seed(7)
    words = torch.randint(1, n_words + 1, drawn.mask.shape, generator=generator)
    x = torch.randn(11, drawn.weight_ih.shape[1], generator=generator)
    first = torch.tensor(lengths) - 1 if reverse else torch.zeros(len(lengths), dtype=torch.long)
    words[first, torch.arange(len(lengths))] = 0
    given = {"x": x, "index": words} if indexed else {"x": x[words]}
    h, c = torch.zeros_like(drawn.h), torch.zeros_like(drawn.c)
    return dataclasses.replace(drawn, h=h, c=c, **given)


@pytest.fixture
def taken(monkeypatch):
    """Look for rows that are alike, however small; gives how many rows had a step of their own."""
    counts = []
    step = lstm_native._NativeLayer._step

    def counted(layer, inputs, h, c):
        counts.append(len(inputs))
        return step(layer, inputs, h, c)

    monkeypatch.setattr(lstm_native, "WORTH_LOOKING", 0)
    monkeypatch.setattr(lstm_native._NativeLayer, "_step", counted)
    return counts


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "lengths", [[1], [5], [2, 2], [1] * 3, [6] * 40, [9] * 3 + [6] * 20 + [2] * 19 + [1]]
)
def test_rows_that_begin_alike(arithmetics, taken, lengths, indexed):
    for arithmetic in arithmetics:
        directions = [alike(lengths, reverse=way, indexed=indexed) for way in (False, True)]
        for _ in range(2):
            check(directions, arithmetic)
        # The second time the first step is remembered.
        assert taken.count(1) == 2
        taken.clear()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
def test_rows_that_begin_alike_are_what_they_are_alone(arithmetics, taken, indexed, reverse):
    lengths = [7] * 30 + [4] * 10
    for arithmetic in arithmetics:
        direction = alike(lengths, reverse=reverse, indexed=indexed)
        with torch.inference_mode(), computing_in(arithmetic):
            whole = lstm_native.lstm([direction])[0]
            # The mark, three words, nine pairs of them, and so on while a fifth is spared.
            assert taken[:3] == [1, 3, 9]
            assert max(taken) <= 0.8 * len(lengths)
            taken.clear()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lstm_native, "WORTH_LOOKING", 2**40)
                expected = lstm_native.lstm([direction])[0]
        assert taken == []
        for value, own in zip(whole, expected, strict=True):
            assert torch.equal(value, own)


def test_a_first_step_is_remembered_while_all_it_depends_on_is_the_same(arithmetics, taken):
    for arithmetic in arithmetics:
        one = alike([3] * 4, reverse=False, indexed=True)
        for changed in (
            one,
            dataclasses.replace(one, bias=one.bias + 0.1),
            dataclasses.replace(one, cell_clip=0.2),
            dataclasses.replace(one, projection_clip=0.1),
            dataclasses.replace(one, x=one.x + 0.1),
            dataclasses.replace(one, weight_ih=one.weight_ih * 2),
            dataclasses.replace(one, weight_hr=one.weight_hr * 2),
            dataclasses.replace(one, weight_hh=one.weight_hh * 2),
        ):
            taken.clear()
            check([changed], arithmetic)
            assert taken[0] == 1
            check([changed], arithmetic)
            assert taken.count(1) == 1
        one.weight_ih.mul_(-1)
        check([one], arithmetic)
        # Out of a state that is not zero nothing is.
        taken.clear()
        check([dataclasses.replace(one, h=one.h + 0.1)], arithmetic)
        check([dataclasses.replace(one, c=one.c - 0.1)], arithmetic)
        assert taken == []


def test_a_row_alone_takes_its_first_step_by_itself_but_once(arithmetics, taken):
    for arithmetic in arithmetics:
        one = alike([4], reverse=False, indexed=True)
        check([one], arithmetic)
        check([dataclasses.replace(one, x=one.x + 0.1)], arithmetic)
        assert taken == [1]
        taken.clear()


def test_inputs_that_only_seem_alike(arithmetics, taken, monkeypatch):
    # Where the sums of two inputs are the same by chance, all rows are walked over.
    one = alike([3] * 8, reverse=False, indexed=False)
    x = one.x.clone()
    x[0, 0, :64] = 0
    x[0, 0, 0] = torch.tensor(3, dtype=torch.int32).view(torch.float32)
    x[0, 1:, :64] = 0
    x[0, 1:, 1] = torch.tensor(1, dtype=torch.int32).view(torch.float32)
    one = dataclasses.replace(one, x=x)
    for arithmetic in arithmetics:
        check([one], arithmetic)
    assert taken == []
