"""Tests of the CRF against brute-force enumeration of all sequences and against pytorch-crf."""

import math
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError
from elmo.tasks.tagging.crf import CRF, _forward, _last_in_parallel
from elmo.tasks.tagging.spans import SCHEMES, allowed_transitions, is_well_formed

LENGTHS = [(1,), (4,), (3, 1, 4, 2), (4, 4)]


def random_crf(n_tags=3, seed=0, dtype=torch.float64, **options):
    crf = CRF(n_tags, **options).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return crf


def batch(lengths, n_tags=3, seed=1, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    emissions = torch.randn(*shape, n_tags, generator=generator).to(dtype)
    tags = torch.randint(0, n_tags, shape, generator=generator)
    mask = torch.arange(shape[1])[None] < torch.tensor(lengths)[:, None]
    return emissions, tags, mask


def random_constraints(n_tags, seed):
    """Return random constraints; tag 0 is always allowed, so at least one sequence is."""
    generator = torch.Generator().manual_seed(seed)
    constraints = [torch.rand(shape, generator=generator) < 0.5 for shape in ((n_tags,),) * 2]
    follow = torch.rand((n_tags, n_tags), generator=generator) < 0.5
    constraints[0][0] = constraints[1][0] = follow[0, 0] = True
    return constraints[0], follow, constraints[1]


def slow_score(crf, emissions, path):
    """Return the score of a tag sequence, computed directly from the definition."""
    value = crf.start[path[0]] + crf.end[path[-1]]
    value = value + sum(emissions[time, tag] for time, tag in enumerate(path))
    return value + sum(crf.transitions[pair] for pair in pairwise(path))


def paths(crf, emissions, constraints=None):
    """Return all allowed tag sequences of a sentence with their scores."""
    scored = []
    for path in product(range(crf.n_tags), repeat=len(emissions)):
        if constraints is not None:
            start, follow, end = constraints
            steps = [follow[pair] for pair in pairwise(path)]
            if not (start[path[0]] and end[path[-1]] and all(steps)):
                continue
        scored.append((path, slow_score(crf, emissions, path).item()))
    return scored


# ------------------------------------------------------------------------------------ reduction


@pytest.mark.parametrize("lengths", [(1,), (2,), (3, 1), (8, 5, 1, 7), (17, 16, 2)])
def test_parallel_forward_scores_equal_sequential_ones(lengths):
    crf = random_crf(4, dtype=torch.float32)
    emissions, _, mask = batch(lengths, 4, dtype=torch.float32)
    emissions.requires_grad_()

    def total_and_gradients(compute_last):
        prepared, edges = crf._prepare(emissions, mask)
        total = (compute_last(prepared, mask, edges) + edges.end).logsumexp(dim=1)
        return total, *torch.autograd.grad(
            total.sum(), [emissions, *crf.parameters()], allow_unused=True
        )

    for fast, slow in zip(
        total_and_gradients(_last_in_parallel),
        total_and_gradients(_forward),
        strict=True,
    ):
        if slow is None or not slow.any():
            assert fast is None or not fast.any()
        else:
            torch.testing.assert_close(fast, slow)


def test_parallel_forward_scores_are_stable_for_large_values():
    """Scores far below the maximum are clamped, and no result is NaN."""
    crf = random_crf(4, dtype=torch.float32)
    emissions, _, mask = batch((9, 6), 4, dtype=torch.float32)
    emissions = (1e3 * emissions).requires_grad_()
    prepared, edges = crf._prepare(emissions, mask)
    actual, expected = _last_in_parallel(prepared, mask, edges), _forward(prepared, mask, edges)
    torch.testing.assert_close(actual.amax(dim=1), expected.amax(dim=1))
    gradients = [
        torch.autograd.grad(y.logsumexp(1).sum(), emissions, retain_graph=True)[0]
        for y in (actual, expected)
    ]
    torch.testing.assert_close(*gradients)


# ------------------------------------------------------------------------------------ enumeration


@pytest.mark.parametrize("lengths", LENGTHS)
def test_sequence_score_matches_definition(lengths):
    crf = random_crf()
    emissions, tags, mask = batch(lengths)
    scores = crf.score(emissions, tags, mask)
    for row, length in enumerate(lengths):
        path = tuple(tags[row, :length].tolist())
        assert scores[row].item() == pytest.approx(slow_score(crf, emissions[row], path).item())


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("constrained", [False, True])
def test_crf_matches_brute_force_enumeration(lengths, constrained):
    constraints = random_constraints(3, seed=4) if constrained else None
    crf = random_crf(constraints=constraints)
    emissions, tags, mask = batch(lengths)
    total = crf.log_partition(emissions, mask)
    best = crf.decode(emissions, mask)
    loss = 0.0
    for row, length in enumerate(lengths):
        sequences = paths(crf, emissions[row, :length])
        scores = torch.tensor([score for _, score in sequences], dtype=torch.float64)
        assert total[row].item() == pytest.approx(scores.logsumexp(0).item())
        allowed = paths(crf, emissions[row, :length], constraints)
        assert best[row] == list(max(allowed, key=lambda pair: pair[1])[0])
        gold = slow_score(crf, emissions[row], tuple(tags[row, :length].tolist()))
        loss += (scores.logsumexp(0) - gold).item() / len(lengths)
    assert crf.loss(emissions, tags, mask).item() == pytest.approx(loss)


def test_crf_loss_passes_gradcheck():
    crf = random_crf()
    emissions, tags, mask = batch((3, 1, 2))

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.crf = crf

        def forward(self, emissions):
            return self.crf.loss(emissions, tags, mask)

    names = [f"crf.{name}" for name, _ in crf.named_parameters()]

    def loss(emissions, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(Loss(), named, (emissions,))

    inputs = [emissions, *(value.detach().clone() for value in crf.parameters())]
    inputs = [value.requires_grad_() for value in inputs]
    assert torch.autograd.gradcheck(loss, inputs)


# ------------------------------------------------------------------------------------ pytorch-crf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [(1,), (7, 3, 1, 12, 12), (30, 29)])
def test_crf_matches_pytorch_crf(lengths, dtype):
    torchcrf = pytest.importorskip("torchcrf")
    crf = random_crf(5, dtype=dtype)
    other = torchcrf.CRF(5, batch_first=True).to(dtype)
    with torch.no_grad():
        other.transitions.copy_(crf.transitions)
        other.start_transitions.copy_(crf.start)
        other.end_transitions.copy_(crf.end)
    emissions, tags, mask = batch(lengths, 5, dtype=dtype)
    loss = crf.loss(emissions, tags, mask)
    expected = -other(emissions, tags, mask=mask, reduction="mean")
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    torch.testing.assert_close(loss, expected, **tolerance)
    ours = torch.autograd.grad(loss, [crf.transitions, crf.start, crf.end])
    # pytorch-crf does not use the transitions if all sentences have one word.
    theirs = torch.autograd.grad(
        expected + 0 * other.transitions.sum(),
        [other.transitions, other.start_transitions, other.end_transitions],
    )
    torch.testing.assert_close(ours, tuple(theirs), **tolerance)
    assert crf.decode(emissions, mask) == other.decode(emissions, mask=mask)


# ------------------------------------------------------------------------------------ padding


@pytest.mark.parametrize("filling", [0.0, 1e30, float("nan"), float("inf"), float("-inf")])
def test_crf_ignores_padding(filling):
    crf = random_crf(4)
    emissions, tags, mask = batch((5, 1, 3), 4)
    alone = [
        crf.loss(emissions[n : n + 1, :k], tags[n : n + 1, :k], mask[n : n + 1, :k])
        for n, k in enumerate((5, 1, 3))
    ]
    paths = [
        crf.decode(emissions[n : n + 1, :k], mask[n : n + 1, :k])[0]
        for n, k in enumerate((5, 1, 3))
    ]
    wide = torch.full((3, 8, 4), filling, dtype=torch.float64)
    wide[:, :5] = torch.where(mask[:, :, None], emissions, filling)
    wide.requires_grad_()
    wide_tags = torch.full((3, 8), -100)
    wide_tags[:, :5] = torch.where(mask, tags, -100)
    wide_mask = torch.zeros(3, 8, dtype=torch.bool)
    wide_mask[:, :5] = mask
    loss = crf.loss(wide, wide_tags, wide_mask)
    torch.testing.assert_close(loss, torch.stack(alone).mean())
    gradients = torch.autograd.grad(loss, [wide, *crf.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][~wide_mask] == 0).all()
    assert crf.decode(wide, wide_mask) == paths


# ------------------------------------------------------------------------------------ precision


def test_crf_loss_is_float32_under_autocast():
    crf = random_crf(dtype=torch.float32)
    emissions, tags, mask = batch((6, 3), dtype=torch.float32)
    expected = crf.loss(emissions, tags, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(crf.loss(emissions, tags, mask), expected)
        narrow = crf.loss(emissions.bfloat16(), tags, mask)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, expected, atol=0.05, rtol=0.05)
    half = random_crf(dtype=torch.float16)
    assert half.loss(emissions.half(), tags, mask).dtype == torch.float32


def test_crf_does_not_overflow_with_large_scores():
    crf = random_crf(dtype=torch.float32)
    emissions, tags, mask = batch((40, 3), dtype=torch.float32)
    loss = crf.loss(emissions * 1e4, tags, mask)
    assert loss.isfinite()


# ------------------------------------------------------------------------------------ constraints


@given(
    seed=st.integers(0, 2**16),
    scheme=st.sampled_from(SCHEMES),
    size=st.sampled_from([1.0, 1e6, 1e20]),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_crf_decode_only_returns_allowed_sequences(seed, scheme, size, lengths):
    prefixes = {"BIOES": "BIES", "BILOU": "BILU"}.get(scheme, "BI")
    tags = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]
    crf = random_crf(len(tags), seed, torch.float32, constraints=allowed_transitions(scheme, tags))
    emissions, _, mask = batch(lengths, len(tags), seed + 1, torch.float32)
    for path, length in zip(crf.decode(emissions * size, mask), lengths, strict=True):
        assert len(path) == length
        assert is_well_formed([tags[number] for number in path], scheme)


def test_constraints_do_not_apply_to_training():
    emissions, _, mask = batch((4, 2))
    free, constrained = random_crf(), random_crf(constraints=random_constraints(3, seed=4))
    total = free.log_partition(emissions, mask)
    assert torch.equal(constrained.log_partition(emissions, mask), total)


def test_constraints_move_with_the_module_but_are_not_saved():
    crf = CRF(3, random_constraints(3, 0))
    assert sorted(crf.state_dict()) == ["end", "start", "transitions"]
    assert crf.to("meta").transitions_allowed.device.type == "meta"
    CRF(3).load_state_dict(random_crf().state_dict())


def test_crf_decode_raises_if_constraints_allow_no_sequence():
    never = torch.zeros(2, 2, dtype=torch.bool)
    crf = CRF(2, (torch.ones(2).bool(), never, torch.ones(2).bool()))
    emissions, _, mask = batch((1, 1), 2)
    assert [len(path) for path in crf.decode(emissions, mask)] == [1, 1]
    emissions, _, mask = batch((1, 3), 2)
    with pytest.raises(ConfigError, match="not allow any tag sequence for a sentence with 3 words"):
        crf.decode(emissions, mask)


# ------------------------------------------------------------------------------------ arguments


def test_new_crf_assigns_equal_probability_to_all_sequences():
    emissions, tags, mask = batch((2,))
    loss = CRF(3).loss(torch.zeros_like(emissions), tags, mask)
    assert loss.item() == pytest.approx(2 * math.log(3))


def test_crf_rejects_invalid_arguments():
    with pytest.raises(ConfigError, match="n_tags must be at least 1"):
        CRF(0)
    with pytest.raises(ConfigError, match="constraints for 3 tags must have the shapes"):
        CRF(3, random_constraints(2, 0))
    crf = CRF(3)
    emissions, tags, mask = batch((4, 2))
    with pytest.raises(ConfigError, match="emissions must have the shape"):
        crf.decode(emissions[:, :, :2], mask)
    with pytest.raises(ConfigError, match="emissions must have the shape"):
        crf.decode(emissions[:0], mask[:0])
    with pytest.raises(ConfigError, match=r"mask must be a torch.bool tensor .*got torch.int64"):
        crf.loss(emissions, tags, mask.long())
    with pytest.raises(ConfigError, match=r"mask must be a torch.bool tensor"):
        crf.log_partition(emissions, mask[:, :3])
    with pytest.raises(ConfigError, match="tags must have the shape"):
        crf.loss(emissions, tags[:, :3], mask)
    for rows in ([True, False, True, True], [False, True, True, True]):
        invalid = torch.tensor([rows, [True] * 4])
        with pytest.raises(ConfigError, match="Each row of mask must be True"):
            crf.decode(emissions, invalid)
