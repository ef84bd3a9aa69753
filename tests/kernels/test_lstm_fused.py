"""The fused layer: on a GPU, and its logic on the CPU through Triton's interpreter.

The error against float64 may exceed that of the plain version in the same precision by a stated
share only. `make test-kernels` runs this where there is no GPU.
"""

import pytest
import torch
from triton_device import DEVICE, IS_INTERPRETED, KINDS

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
# What the norm of an error may be, taken over all directions: the plain version's by a factor, and
# this share of the value's norm. That is 64 roundings of float32, since a gradient of a weight is
# one long sum here, and one of the halves. A value near its clip may pass in one version and not in
# the other: that one gradient outweighs all roundings, and of millions of cells some do. A gradient
# that passed all clips against the rule would be 300 to 2,700 times what is allowed in float32, in
# float16 7 to 180 times, in bfloat16 3 to 17 times.
FACTOR = 1.25
FACTOR_AT_CLIPS = 4.0
SLACK = {torch.float32: 2.0**-18, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
SLACK_AT_CLIPS = {**SLACK, torch.float32: 2.0**-11}


def draw(n_steps, batch, *, dim=20, cell=37, out=24, projected=True, seed=0):
    """Draw weights, input and state of one direction, large enough to meet their bounds."""
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


def outcome(kernel, sides, dtype, device, dials):
    """Run a kernel and give results and gradients of each direction, as float64 on the CPU."""
    leaves, directions = [], []
    for side, dial in zip(sides, dials, strict=True):
        given = {}
        for name, value in side.items():
            if value is not None:
                kind = torch.promote_types(dtype, torch.float32) if name == "c" else dtype
                given[name] = value.to(device, kind).requires_grad_()
        leaves += given.values()
        moved = {n: v.to(device) if torch.is_tensor(v) else v for n, v in dial.items()}
        directions.append(LSTMCall(**{**side, **given}, **moved))
    results = [value for walk in kernel(directions) for value in walk]
    loss = sum((value.double() * (n + 1)).sin().sum() for n, value in enumerate(results))
    found = [value.detach().double().cpu() for value in results]
    gradients = [value.double().cpu() for value in torch.autograd.grad(loss, leaves)]
    n = len(sides)
    return [one + other for one, other in zip(shares(found, n), shares(gradients, n), strict=True)]


def shares(values, n):
    """Cut a list into equal parts."""
    size = len(values) // n
    return [values[first : first + size] for first in range(0, len(values), size)]


def dials_of(n_steps, batch, *, clips=(0.8, 0.5), reverse=False, lengths=None, resets=None):
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


def check(sides, dials, dtype):
    """Compare the errors against float64, in norm."""
    truth = outcome(lstm_reference.lstm, sides, torch.float64, DEVICE, dials)
    plain = outcome(lstm_reference.lstm, sides, dtype, DEVICE, dials)
    found = outcome(lstm_fused.lstm, sides, dtype, DEVICE, dials)
    is_clipped = dials[0]["cell_clip"] is not None or dials[0]["projection_clip"] is not None
    factor, slack = (FACTOR_AT_CLIPS, SLACK_AT_CLIPS) if is_clipped else (FACTOR, SLACK)
    errors, allowed = relative_errors(found, truth), relative_errors(plain, truth)
    for place, (ours, rough) in enumerate(zip(errors, allowed, strict=True)):
        assert ours <= factor * rough + slack[dtype], (place, ours, rough)


def relative_errors(found, truth):
    """Give the error of each result, root mean square over the directions."""
    errors = []
    for ours, true in zip(zip(*found, strict=True), zip(*truth, strict=True), strict=True):
        assert [one.shape for one in ours] == [one.shape for one in true]
        shares = [float((a - b).norm() / b.norm()) for a, b in zip(ours, true, strict=True)]
        errors.append(sum(share**2 / len(shares) for share in shares) ** 0.5)
    return errors


@pytest.fixture(autouse=True)
def poison(monkeypatch):
    """What is not written is no number."""
    empty, like = torch.empty, torch.empty_like
    kinds = (torch.float16, torch.bfloat16, torch.float32)

    def poisoned(made):
        return made.fill_(float("nan")) if made.dtype in kinds else made

    monkeypatch.setattr(torch, "empty", lambda *a, **k: poisoned(empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: poisoned(like(*a, **k)))


@pytest.fixture(params=PLANS)
def plan(request, monkeypatch):
    monkeypatch.setattr(lstm_fused, "plan_for", lambda batch, dtype: PLANS[request.param])


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("clips", [(None, None), (0.8, None), (None, 0.5), (0.8, 0.5)], ids=str)
@pytest.mark.parametrize("projected", [True, False])
def test_clips(dtype, clips, projected):
    # So many that single gradients which a clip lets through or not do not decide.
    n_steps, batch = (4, 5) if dtype == torch.float32 else (8, 60)
    sides = [draw(n_steps, batch, projected=projected, seed=seed) for seed in (0, 1)]
    check(sides, [dials_of(n_steps, batch, clips=clips)] * 2, dtype)


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("by", ["mask", "active"])
def test_lengths_directions_and_resets(dtype, projected, by):
    # More rows than a tile has: some tiles have nothing but padding at the end.
    lengths, batch = (6,) * 3 + (4,) * 8 + (1,) * 11, 22
    sides = [draw(6, batch, projected=projected, seed=seed) for seed in (0, 1)]
    resets = torch.rand(6, batch, generator=torch.Generator().manual_seed(3)) < 0.3
    resets[0, 0] = True
    dials = [
        dials_of(6, batch, lengths=lengths, resets=resets),
        dials_of(6, batch, lengths=lengths, reverse=True),
    ]
    if by == "mask":
        dials = [{**dial, "active": None} for dial in dials]
    check(sides, dials, dtype)


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("n_directions", [1, 2, 3])
def test_any_number_of_directions(n_directions):
    sides = [draw(3, 4, seed=seed) for seed in range(n_directions)]
    check(sides, [dials_of(3, 4)] * n_directions, torch.float32)


@pytest.mark.usefixtures("plan")
def test_few_vectors_in_many_places():
    sides = [draw(4, 3, seed=seed) for seed in (0, 1)]
    index = torch.arange(12).view(4, 3) * 5 % 7
    for side in sides:
        side["x"] = side["x"].flatten(0, 1)[:7]
    dials = [{**dials_of(4, 3, reverse=reverse), "index": index} for reverse in (False, True)]
    check(sides, dials, torch.float32)


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("lengths", [None, (4,) * 2 + (2,) * 3 + (1,) * 15], ids=str)
def test_without_gradients_it_is_the_same(lengths):
    sides = [draw(4, 20, seed=seed) for seed in (0, 1)]
    dials = [dials_of(4, 20, lengths=lengths, reverse=reverse) for reverse in (False, True)]
    made = []
    for side, dial in zip(sides, dials, strict=True):
        given = {name: value.float().to(DEVICE) for name, value in side.items()}
        moved = {n: v.to(DEVICE) if torch.is_tensor(v) else v for n, v in dial.items()}
        made.append(LSTMCall(**given, **moved))
    found = lstm_fused.lstm(made)
    expected = lstm_reference.lstm(made)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


SIZES = [(1, 1), (3, 19), (127, 2)]
if not IS_INTERPRETED:
    SIZES = [(1, 1), (1, 200), (3, 19), (127, 1), (127, 200), (300, 19), (1030, 3)]


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize(("batch", "n_steps"), SIZES)
@pytest.mark.parametrize("cell", [40, 136] if IS_INTERPRETED else [40, 136, 1000])
@pytest.mark.parametrize("clips", [(None, None), (0.8, 0.5)], ids=str)
def test_odd_shapes(dtype, batch, n_steps, cell, clips):
    """With the plan that the size itself would get."""
    sides = [draw(n_steps, batch, dim=72, cell=cell, out=72, seed=seed) for seed in (0, 1)]
    check(sides, [dials_of(n_steps, batch, clips=clips)] * 2, dtype)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("batch", [30, 64])
def test_the_plans_of_small_batches(dtype, projected, batch):
    n_steps, cell = (2, 40) if IS_INTERPRETED else (20, 256)
    sides = [
        draw(n_steps, batch, dim=72, cell=cell, out=72, projected=projected, seed=seed)
        for seed in (0, 1)
    ]
    check(sides, [dials_of(n_steps, batch, clips=(None, None))] * 2, dtype)


def test_once_back():
    side = {name: value.float().to(DEVICE) for name, value in draw(2, 3).items()}
    side["x"].requires_grad_()
    dials = {n: v.to(DEVICE) if torch.is_tensor(v) else v for n, v in dials_of(2, 3).items()}
    ((out, _, _),) = lstm_fused.lstm([LSTMCall(**side, **dials)])
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="walked back once"):
        out.sum().backward()
