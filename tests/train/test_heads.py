"""The softmax in training: which rows a step touches, its gradients, other processes."""

from types import SimpleNamespace

import pytest
import torch
from small import DIM, fabric
from torch import nn

from elmo.config import LossConfig, OptimizerConfig
from elmo.errors import ConfigError
from elmo.model.losses import (
    draw_candidates,
    exact_losses,
    full_losses,
    log_expected_count,
    sampled_losses,
)
from elmo.train.heads import ExactHead, SampledHead

N_WORDS = 40
OPTIMIZERS = [OptimizerConfig(), OptimizerConfig(optimizer="adamw", weight_decay=0.1)]


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def make_softmax(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(DIM, N_WORDS)


def make_sampled(n_samples=6, optimizer=OPTIMIZERS[0], softmax=None, processes=None):
    loss = LossConfig("sampled", n_samples=n_samples)
    return SampledHead(
        softmax or make_softmax(), loss, optimizer, seed=3, fabric=processes or fabric()
    )


# Two directions, three predictions each.
TARGETS = torch.tensor([[5, 30, 5], [0, 39, 17]])


def step(head, number=0, targets=TARGETS):
    """Compute a step of both directions and its gradients; gives hidden vectors and losses."""
    hidden = numbers(2, targets.shape[1], DIM, seed=9).requires_grad_()
    head.begin(number, targets)
    losses = torch.stack([head.losses(hidden[side], targets[side], side) for side in (0, 1)])
    losses.square().sum().backward()
    return hidden, losses


def candidates(number, side, n_samples=6):
    return draw_candidates(n_samples, N_WORDS, (3, number, side))


# ------------------------------------------------------------------------------------ sampled


def test_sampled_is_indexing_the_whole_table():
    head = make_sampled()
    hidden, losses = step(head, 4)
    softmax = make_softmax()
    again = hidden.detach().clone().requires_grad_()
    expected = []
    for side in (0, 1):
        drawn, aims = candidates(4, side), TARGETS[side]
        sampled = torch.from_numpy(drawn.ids)
        expected.append(
            sampled_losses(
                again[side],
                true_weight=softmax.weight[aims],
                true_bias=softmax.bias[aims],
                true_log_expected=log_expected_count(aims, N_WORDS, drawn.n_tries),
                sampled_weight=softmax.weight[sampled],
                sampled_bias=softmax.bias[sampled],
                sampled_log_expected=log_expected_count(sampled, N_WORDS, drawn.n_tries),
                targets=aims,
                sampled=sampled,
            )
        )
    torch.stack(expected).square().sum().backward()
    torch.testing.assert_close(losses, torch.stack(expected))
    torch.testing.assert_close(hidden.grad, again.grad)
    ids = head._ids
    for found, whole in zip(
        head.gradients(), (softmax.weight.grad, softmax.bias.grad), strict=True
    ):
        torch.testing.assert_close(found, whole[ids], rtol=1e-5, atol=1e-6)
        others = torch.ones(N_WORDS, dtype=torch.bool)
        others[ids] = False
        assert not whole[others].any()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda config: config.optimizer)
def test_only_candidates_and_targets_move(optimizer):
    head = make_sampled(optimizer=optimizer)
    step(head, 2)
    head.update(0.5)
    drawn = {int(word) for side in (0, 1) for word in candidates(2, side).ids}
    touched = sorted(drawn | set(TARGETS.flatten().tolist()))
    others = [word for word in range(N_WORDS) if word not in touched]
    assert others
    before, after = make_softmax(), head.softmax
    assert torch.equal(after.weight[others], before.weight[others])
    assert torch.equal(after.bias[others], before.bias[others])
    for word in touched:
        assert not torch.equal(after.weight[word], before.weight[word])


def test_directions_and_steps_have_their_own_candidates():
    head = make_sampled()
    seen = []
    for number in (0, 1):
        head.begin(number, TARGETS)
        seen += [ids.tolist() for ids, _ in head._sampled]
        for side, (ids, tries) in enumerate(head._sampled):
            assert ids.tolist() == candidates(number, side).ids.tolist()
            assert tries == candidates(number, side).n_tries
    assert len({tuple(ids) for ids in seen}) == 4


def test_parts_add_up():
    whole, parts = make_sampled(), make_sampled()
    hidden, _ = step(whole)
    parts.begin(0, TARGETS)
    for side in (0, 1):
        for place in range(3):
            vector = hidden.detach()[side, place : place + 1]
            loss = parts.losses(vector, TARGETS[side, place : place + 1], side)
            loss.square().sum().backward()
    torch.testing.assert_close(parts.gradients(), whole.gradients())


def test_nothing_is_left_of_the_step_before():
    head = make_sampled()
    step(head, 0)
    first = [gradient.clone() for gradient in head.gradients()]
    step(head, 0)
    assert all(map(torch.equal, head.gradients(), first))


def test_general_optimisers_get_nothing():
    assert make_sampled().dense_parameters() == []
    assert len(make_sampled().row_optimizers()) == 2


@pytest.mark.parametrize("n_samples", [N_WORDS, N_WORDS + 1])
def test_more_candidates_than_words(n_samples):
    with pytest.raises(ConfigError, match=f"n_samples is {n_samples}, the vocabulary has 40"):
        make_sampled(n_samples)
    make_sampled(N_WORDS - 1)


# ------------------------------------------------------------------------------------ exact


def test_full():
    softmax = make_softmax()
    head = ExactHead(softmax)
    hidden, losses = step(head)
    expected = [exact_losses(softmax, hidden[side], TARGETS[side]) for side in (0, 1)]
    assert torch.equal(losses, torch.stack(expected))
    assert head.dense_parameters() == [softmax.weight, softmax.bias]
    assert all(map(torch.equal, head.gradients(), (softmax.weight.grad, softmax.bias.grad)))
    assert head.row_optimizers() == ()
    before = softmax.weight.detach().clone()
    head.update(0.5)
    assert torch.equal(softmax.weight, before)


def test_clusters_without_a_target_have_no_gradient():
    softmax = nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, [10, 20])
    head = ExactHead(softmax)
    step(head, targets=torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert len(head.dense_parameters()) == 5
    assert len(head.gradients()) == 1


def test_tied_rows_are_the_input_words():
    table = nn.Embedding(N_WORDS + 1, DIM, padding_idx=0)
    softmax = make_softmax()
    head = ExactHead(softmax, tied_to=table)
    hidden, losses = step(head)
    expected = [
        full_losses(hidden[side], table.weight[1:], softmax.bias, TARGETS[side]) for side in (0, 1)
    ]
    assert torch.equal(losses, torch.stack(expected))
    assert head.dense_parameters() == [softmax.bias]
    assert softmax.weight.grad is None
    assert table.weight.grad[1:].any()
    assert not table.weight.grad[0].any()


# ------------------------------------------------------------------------------------ processes


class TwoProcesses:
    """Stands in for two processes, the other of which has these targets and no gradient."""

    world_size = 2

    def __init__(self, targets):
        self.targets = targets

    def all_reduce(self, value, reduce_op):
        assert reduce_op == "mean"
        return value / 2


def test_the_targets_of_all_processes_are_among_the_rows(monkeypatch):
    other = torch.tensor([[11, 12, 13], [14, 15, 16]])

    def all_gather(parts, own):
        parts[0].copy_(own)
        parts[1].copy_(other)

    monkeypatch.setattr(torch.distributed, "all_gather", all_gather)
    head = make_sampled(processes=TwoProcesses(other))
    step(head)
    wanted = {*TARGETS.flatten().tolist(), *other.flatten().tolist()}
    assert wanted <= set(head._ids.tolist())
    alone = make_sampled()
    step(alone)
    places = torch.searchsorted(head._ids, alone._ids)
    for found, expected in zip(head.gradients(), alone.gradients(), strict=True):
        torch.testing.assert_close(found[places], expected)
    before = [gradient.clone() for gradient in head.gradients()]
    head.exchange(head.fabric)
    for found, expected in zip(head.gradients(), before, strict=True):
        assert torch.equal(found, expected / 2)


def test_gradients_are_averaged():
    head = ExactHead(nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, [10, 20]))
    step(head, targets=torch.tensor([[1, 2, 3], [4, 5, 6]]))
    before = head.gradients()[0].clone()
    head.exchange(TwoProcesses(None))
    # A process without a target in a cluster takes part in the exchange all the same.
    assert len(head.gradients()) == 5
    assert torch.equal(head.gradients()[0], before / 2)
    assert not any(gradient.any() for gradient in head.gradients()[1:])


@pytest.mark.parametrize("make", [make_sampled, lambda: ExactHead(make_softmax())])
def test_a_process_alone_exchanges_nothing(make):
    head = make()
    step(head)
    before = [gradient.clone() for gradient in head.gradients()]
    head.exchange(SimpleNamespace(world_size=1))
    assert all(map(torch.equal, head.gradients(), before))
