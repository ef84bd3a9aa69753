"""The softmax in training: which rows a step touches, its gradients, other processes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_runs import DIM
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
from elmo.train.cuda_graph import step_arrays, step_rows
from elmo.train.softmax_heads import ExactSoftmaxHead, SampledSoftmaxHead

N_WORDS = 40
OPTIMIZERS = [OptimizerConfig(), OptimizerConfig(optimizer="adamw", weight_decay=0.1)]


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def make_softmax(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(DIM, N_WORDS)


def make_sampled(n_samples=6, optimizer=OPTIMIZERS[0], softmax=None):
    loss = LossConfig("sampled", n_samples=n_samples)
    return SampledSoftmaxHead(softmax or make_softmax(), loss, optimizer, seed=3)


# Two directions, three predictions each.
TARGETS = torch.tensor([[5, 30, 5], [0, 39, 17]])


def begin(head, number=0, targets=TARGETS, multiple=1, others=None):
    """Begin a step as the learner does, other processes' targets being drawn for too."""
    known = targets if others is None else torch.stack([targets, others])
    drawn = head.draw(number, known.numpy(), multiple)
    if drawn is None:
        head.begin(None)
        return
    arrays = step_arrays(None, drawn)
    head.begin(step_rows({name: torch.from_numpy(array) for name, array in arrays.items()}))


def step(head, number=0, targets=TARGETS, **given):
    """Compute a step of both directions and its gradients; gives hidden vectors and losses."""
    hidden = numbers(2, targets.shape[1], DIM, seed=9).requires_grad_()
    begin(head, number, targets, **given)
    losses = torch.stack([head.losses(hidden[side], targets[side], side) for side in (0, 1)])
    losses.square().sum().backward()
    return hidden, losses


def candidates(number, side, n_samples=6):
    return draw_candidates(n_samples, N_WORDS, (3, number, side))


def real_rows(number):
    """Give the candidates and targets of a step, rising."""
    drawn = {int(word) for side in (0, 1) for word in candidates(number, side).ids}
    return sorted(drawn | set(TARGETS.flatten().tolist()))


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
    ids = head._rows.ids
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
    touched = real_rows(2)
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
        drawn = head.draw(number, TARGETS.numpy())
        seen += drawn.sampled.tolist()
        for side in (0, 1):
            assert drawn.sampled[side].tolist() == candidates(number, side).ids.tolist()
            assert drawn.n_tries[side] == candidates(number, side).n_tries
    assert len({tuple(ids) for ids in seen}) == 4


def test_the_rows_of_a_step():
    drawn = make_sampled().draw(2, TARGETS.numpy())
    assert drawn.ids.tolist() == real_rows(2)
    assert drawn.valid.tolist() == [1] * len(drawn.ids)
    assert {array.dtype for array in vars(drawn).values()} == {np.dtype(np.int64)}


@pytest.mark.parametrize("multiple", [1, 2, 7, 16, N_WORDS, 64])
@pytest.mark.parametrize("number", range(4))
def test_rows_that_fill_up(number, multiple):
    plain = make_sampled().draw(number, TARGETS.numpy())
    drawn = make_sampled().draw(number, TARGETS.numpy(), multiple)
    assert (np.diff(drawn.ids) > 0).all()
    assert 0 <= drawn.ids[0] <= drawn.ids[-1] < N_WORDS
    assert drawn.ids[drawn.valid == 1].tolist() == real_rows(number)
    assert not set(drawn.ids[drawn.valid == 0]) & set(real_rows(number))
    assert set(drawn.valid) <= {0, 1}
    # A vocabulary that is too small for a multiple is taken whole.
    n_real = len(real_rows(number))
    assert len(drawn.ids) == min(-(-n_real // multiple) * multiple, N_WORDS)
    assert drawn.sampled.tolist() == plain.sampled.tolist()
    assert drawn.n_tries.tolist() == plain.n_tries.tolist()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda config: config.optimizer)
def test_rows_that_fill_up_change_nothing(optimizer):
    filled, plain = make_sampled(optimizer=optimizer), make_sampled(optimizer=optimizer)
    for number in range(3):
        results = [step(filled, number, multiple=32), step(plain, number)]
        assert not filled._rows.valid.all()
        for found, expected in zip(*results, strict=True):
            torch.testing.assert_close(found, expected)
        for gradient in filled.gradients():
            assert not gradient[filled._rows.valid == 0].any()
        for head in (filled, plain):
            head.update(0.5)
    for one, other in zip(filled.row_optimizers(), plain.row_optimizers(), strict=True):
        torch.testing.assert_close(one.table, other.table)
        torch.testing.assert_close(one.state, other.state)


@pytest.mark.parametrize("make", [make_sampled, lambda: ExactSoftmaxHead(make_softmax())])
def test_the_mean_loss(make):
    head = make()
    hidden, losses = step(head, 4)
    for side in (0, 1):
        found = head.mean_loss(hidden[side], TARGETS[side], side)
        assert torch.equal(found, losses[side].mean())


def test_an_exact_softmax_draws_nothing():
    assert ExactSoftmaxHead(make_softmax()).draw(0, TARGETS.numpy(), 8) is None


def test_parts_add_up():
    whole, parts = make_sampled(), make_sampled()
    hidden, _ = step(whole)
    begin(parts)
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
    head = ExactSoftmaxHead(softmax)
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
    head = ExactSoftmaxHead(softmax)
    step(head, targets=torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert len(head.dense_parameters()) == 5
    assert len(head.gradients()) == 1


def test_tied_rows_are_the_input_words():
    table = nn.Embedding(N_WORDS + 1, DIM, padding_idx=0)
    softmax = make_softmax()
    head = ExactSoftmaxHead(softmax, tied_to=table)
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
    """Stands in for two processes, the other of which has no gradient."""

    world_size = 2

    def all_reduce(self, value, reduce_op):
        assert reduce_op == "mean"
        return value / 2


def test_rows_for_other_processes_change_no_gradient():
    others = torch.tensor([[11, 12, 13], [14, 15, 16]])
    head, alone = make_sampled(), make_sampled()
    step(head, others=others)
    step(alone)
    ids = head._rows.ids
    assert {*TARGETS.flatten().tolist(), *others.flatten().tolist()} <= set(ids.tolist())
    assert head._rows.valid.all()
    places = torch.searchsorted(ids, alone._rows.ids)
    for found, expected in zip(head.gradients(), alone.gradients(), strict=True):
        torch.testing.assert_close(found[places], expected)
    before = [gradient.clone() for gradient in head.gradients()]
    head.exchange(TwoProcesses())
    for found, expected in zip(head.gradients(), before, strict=True):
        assert torch.equal(found, expected / 2)


def test_gradients_are_averaged():
    head = ExactSoftmaxHead(nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, [10, 20]))
    step(head, targets=torch.tensor([[1, 2, 3], [4, 5, 6]]))
    before = head.gradients()[0].clone()
    head.exchange(TwoProcesses())
    # A process without a target in a cluster takes part in the exchange all the same.
    assert len(head.gradients()) == 5
    assert torch.equal(head.gradients()[0], before / 2)
    assert not any(gradient.any() for gradient in head.gradients()[1:])


@pytest.mark.parametrize("make", [make_sampled, lambda: ExactSoftmaxHead(make_softmax())])
def test_a_process_alone_exchanges_nothing(make):
    head = make()
    step(head)
    before = [gradient.clone() for gradient in head.gradients()]
    head.exchange(SimpleNamespace(world_size=1))
    assert all(map(torch.equal, head.gradients(), before))
