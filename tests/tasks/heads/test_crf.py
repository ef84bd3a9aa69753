"""The chain against enumeration of all sequences, and against pytorch-crf."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import ConfigError
from elmo.tasks.heads.crf import CRF, _forward, _last_by_halves
from elmo.tasks.spans import SCHEMES, allowed_transitions, is_well_formed

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


def random_limits(n_tags, seed):
    """Constraints which leave tag 0 free, so that there is always a way."""
    generator = torch.Generator().manual_seed(seed)
    limits = [torch.rand(shape, generator=generator) < 0.5 for shape in ((n_tags,),) * 2]
    follow = torch.rand((n_tags, n_tags), generator=generator) < 0.5
    limits[0][0] = limits[1][0] = follow[0, 0] = True
    return limits[0], follow, limits[1]


def slow_score(crf, emissions, path):
    """Give the score of a path as the definition has it."""
    value = crf.start[path[0]] + crf.end[path[-1]]
    value = value + sum(emissions[time, tag] for time, tag in enumerate(path))
    return value + sum(crf.transitions[pair] for pair in pairwise(path))


def paths(crf, emissions, limits=None):
    """Give all paths of one sentence, only those allowed, with their scores."""
    found = []
    for path in product(range(crf.n_tags), repeat=len(emissions)):
        if limits is not None:
            start, follow, end = limits
            steps = [follow[pair] for pair in pairwise(path)]
            if not (start[path[0]] and end[path[-1]] and all(steps)):
                continue
        found.append((path, slow_score(crf, emissions, path).item()))
    return found


# ------------------------------------------------------------------------------------ two ways


@pytest.mark.parametrize("lengths", [(1,), (2,), (3, 1), (8, 5, 1, 7), (17, 16, 2)])
@pytest.mark.parametrize("constrained", [False, True])
def test_halves_give_what_word_by_word_does(lengths, constrained):
    options = {"constraints": random_limits(4, 3), "constrain_training": True}
    crf = random_crf(4, dtype=torch.float32, **(options if constrained else {}))
    emissions, _, mask = batch(lengths, 4, dtype=torch.float32)
    emissions.requires_grad_()

    def found(way):
        prepared, edges = crf._prepared(emissions, mask, crf._forbidden_in_training())
        total = (way(prepared, mask, edges) + edges.end).logsumexp(dim=1)
        return total, *torch.autograd.grad(
            total.sum(), [emissions, *crf.parameters()], allow_unused=True
        )

    for fast, slow in zip(
        found(_last_by_halves), found(lambda *given: _forward(*given)[-1]), strict=True
    ):
        if slow is None or not slow.any():
            assert fast is None or not fast.any()
        else:
            torch.testing.assert_close(fast, slow)


def test_halves_of_scores_far_apart():
    """Nothing but zero is left of what is far below, and nothing is without a number."""
    crf = random_crf(4, dtype=torch.float32)
    emissions, _, mask = batch((9, 6), 4, dtype=torch.float32)
    emissions = (1e3 * emissions).requires_grad_()
    prepared, edges = crf._prepared(emissions, mask, None)
    found, expected = _last_by_halves(prepared, mask, edges), _forward(prepared, mask, edges)[-1]
    torch.testing.assert_close(found.amax(dim=1), expected.amax(dim=1))
    gradients = [
        torch.autograd.grad(y.logsumexp(1).sum(), emissions, retain_graph=True)[0]
        for y in (found, expected)
    ]
    torch.testing.assert_close(*gradients)


# ------------------------------------------------------------------------------------ enumeration


@pytest.mark.parametrize("lengths", LENGTHS)
def test_score(lengths):
    crf = random_crf()
    emissions, tags, mask = batch(lengths)
    found = crf.score(emissions, tags, mask)
    for row, length in enumerate(lengths):
        path = tuple(tags[row, :length].tolist())
        assert found[row].item() == pytest.approx(slow_score(crf, emissions[row], path).item())


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("constrained", [False, True])
def test_against_enumeration(lengths, constrained):
    limits = random_limits(3, seed=4) if constrained else None
    crf = random_crf(constraints=limits, constrain_training=constrained)
    emissions, tags, mask = batch(lengths)
    total, chances = crf.log_partition(emissions, mask), crf.marginals(emissions, mask)
    best = crf.decode(emissions, mask)
    loss = 0.0
    for row, length in enumerate(lengths):
        each = paths(crf, emissions[row, :length], limits)
        scores = torch.tensor([score for _, score in each], dtype=torch.float64)
        assert total[row].item() == pytest.approx(scores.logsumexp(0).item())
        expected = torch.zeros(max(lengths), 3, dtype=torch.float64)
        for (path, _), chance in zip(each, scores.softmax(0), strict=True):
            expected[range(length), path] += chance
        torch.testing.assert_close(chances[row], expected)
        assert best[row] == list(max(each, key=lambda pair: pair[1])[0])
        gold = slow_score(crf, emissions[row], tuple(tags[row, :length].tolist()))
        loss += (scores.logsumexp(0) - gold).item() / len(lengths)
    if not constrained:
        assert crf.loss(emissions, tags, mask).item() == pytest.approx(loss)


def test_marginals_are_the_gradient_of_the_partition():
    crf = random_crf(4)
    emissions, _, mask = batch((5, 2, 3), 4)
    emissions.requires_grad_()
    (gradient,) = torch.autograd.grad(crf.log_partition(emissions, mask).sum(), emissions)
    torch.testing.assert_close(crf.marginals(emissions, mask), gradient)
    torch.testing.assert_close(gradient.sum(dim=2), mask.double())


@pytest.mark.parametrize("constrained", [False, True])
def test_gradients(constrained):
    limits = random_limits(3, seed=4) if constrained else None
    crf = random_crf(constraints=limits, constrain_training=constrained)
    emissions, tags, mask = batch((3, 1, 2))
    if constrained:
        tags = torch.zeros_like(tags)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.crf = crf

        def forward(self, emissions):
            return self.crf.loss(emissions, tags, mask)

    names = [f"crf.{name}" for name, _ in crf.named_parameters()]

    def graded(emissions, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(Loss(), named, (emissions,))

    given = [emissions, *(value.detach().clone() for value in crf.parameters())]
    given = [value.requires_grad_() for value in given]
    assert torch.autograd.gradcheck(graded, given)


# ------------------------------------------------------------------------------------ pytorch-crf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lengths", [(1,), (7, 3, 1, 12, 12), (30, 29)])
def test_against_pytorch_crf(lengths, dtype):
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
    digits = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    torch.testing.assert_close(loss, expected, **digits)
    ours = torch.autograd.grad(loss, [crf.transitions, crf.start, crf.end])
    # It does not touch the transitions where all sentences are of one word.
    theirs = torch.autograd.grad(
        expected + 0 * other.transitions.sum(),
        [other.transitions, other.start_transitions, other.end_transitions],
    )
    torch.testing.assert_close(ours, tuple(theirs), **digits)
    assert crf.decode(emissions, mask) == other.decode(emissions, mask=mask)


# ------------------------------------------------------------------------------------ padding


@pytest.mark.parametrize("filling", [0.0, 1e30, float("nan"), float("inf"), float("-inf")])
def test_padding_does_not_matter(filling):
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
    assert (crf.marginals(wide, wide_mask)[~wide_mask] == 0).all()
    assert crf.decode(wide, wide_mask) == paths


# ------------------------------------------------------------------------------------ precision


def test_full_precision_whatever_the_autocast():
    crf = random_crf(dtype=torch.float32)
    emissions, tags, mask = batch((6, 3), dtype=torch.float32)
    expected = crf.loss(emissions, tags, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(crf.loss(emissions, tags, mask), expected)
        narrow = crf.loss(emissions.bfloat16(), tags, mask)
        chances = crf.marginals(emissions.bfloat16(), mask)
    assert narrow.dtype == chances.dtype == torch.float32
    torch.testing.assert_close(narrow, expected, atol=0.05, rtol=0.05)
    half = random_crf(dtype=torch.float16)
    assert half.loss(emissions.half(), tags, mask).dtype == torch.float32


def test_large_scores_do_not_overflow():
    crf = random_crf(dtype=torch.float32)
    emissions, tags, mask = batch((40, 3), dtype=torch.float32)
    loss = crf.loss(emissions * 1e4, tags, mask)
    assert loss.isfinite()
    assert crf.marginals(emissions * 1e4, mask).isfinite().all()


# ------------------------------------------------------------------------------------ constraints


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**16),
    scheme=st.sampled_from(SCHEMES),
    size=st.sampled_from([1.0, 1e6, 1e20]),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
)
def test_constraints_are_never_broken(seed, scheme, size, lengths):
    prefixes = {"BIOES": "BIES", "BILOU": "BILU"}.get(scheme, "BI")
    tags = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]
    crf = random_crf(len(tags), seed, torch.float32, constraints=allowed_transitions(scheme, tags))
    emissions, _, mask = batch(lengths, len(tags), seed + 1, torch.float32)
    for path, length in zip(crf.decode(emissions * size, mask), lengths, strict=True):
        assert len(path) == length
        assert is_well_formed([tags[number] for number in path], scheme)


def test_constraints_in_training():
    limits = random_limits(3, seed=4)
    emissions, tags, mask = batch((4, 2))
    free, decoding = random_crf(), random_crf(constraints=limits)
    both = random_crf(constraints=limits, constrain_training=True)
    total = free.log_partition(emissions, mask)
    assert torch.equal(decoding.log_partition(emissions, mask), total)
    assert (both.log_partition(emissions, mask) < total).all()
    # A gold sequence that breaks them costs much, and can be learned from.
    assert not limits[1].all()
    row, column = (~limits[1]).nonzero()[0].tolist()
    tags[0, :2] = torch.tensor([row, column])
    loss = both.loss(emissions.requires_grad_(), tags, mask)
    assert 1e3 < loss.item() < 1e6
    loss.backward()
    assert emissions.grad.isfinite().all()


def test_constraints_are_not_saved_but_move():
    crf = CRF(3, random_limits(3, 0))
    assert sorted(crf.state_dict()) == ["end", "start", "transitions"]
    assert crf.to("meta").transitions_allowed.device.type == "meta"
    CRF(3).load_state_dict(random_crf().state_dict())


def test_no_way_at_all():
    never = torch.zeros(2, 2, dtype=torch.bool)
    crf = CRF(2, (torch.ones(2).bool(), never, torch.ones(2).bool()))
    emissions, _, mask = batch((1, 1), 2)
    assert [len(path) for path in crf.decode(emissions, mask)] == [1, 1]
    emissions, _, mask = batch((1, 3), 2)
    with pytest.raises(ConfigError, match="no sequence of tags for a sentence of 3 words"):
        crf.decode(emissions, mask)


# ------------------------------------------------------------------------------------ misuse


def test_a_new_chain_is_uniform():
    emissions, _, mask = batch((2,))
    chances = CRF(3).marginals(torch.zeros_like(emissions), mask)
    torch.testing.assert_close(chances, torch.full_like(chances, 1 / 3))


def test_refused():
    with pytest.raises(ConfigError, match="at least one tag"):
        CRF(0)
    with pytest.raises(ConfigError, match="no constraints"):
        CRF(2, constrain_training=True)
    with pytest.raises(ConfigError, match="constraints of 3 tags have shapes"):
        CRF(3, random_limits(2, 0))
    crf = CRF(3)
    emissions, tags, mask = batch((4, 2))
    with pytest.raises(ConfigError, match="emissions have shape"):
        crf.decode(emissions[:, :, :2], mask)
    with pytest.raises(ConfigError, match="emissions have shape"):
        crf.decode(emissions[:0], mask[:0])
    with pytest.raises(ConfigError, match=r"the mask is torch.int64"):
        crf.loss(emissions, tags, mask.long())
    with pytest.raises(ConfigError, match="the mask is"):
        crf.log_partition(emissions, mask[:, :3])
    with pytest.raises(ConfigError, match="tags have shape"):
        crf.loss(emissions, tags[:, :3], mask)
    for rows in ([True, False, True, True], [False, True, True, True]):
        broken = torch.tensor([rows, [True] * 4])
        with pytest.raises(ConfigError, match="true from its beginning"):
            crf.decode(emissions, broken)
