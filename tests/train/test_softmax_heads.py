"""Tests of softmax heads: row selection, gradients, and exchange between processes."""

from types import SimpleNamespace

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
    sampled_logits,
    sampled_losses,
)
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
    """Begin a step as the learner does, including the targets of other processes if given."""
    all_targets = targets if others is None else torch.stack([targets, others])
    head.begin(head.draw(number, all_targets.numpy(), multiple))


def step(head, number=0, targets=TARGETS, **options):
    """Compute the losses and gradients of both directions; return hidden vectors and losses."""
    hidden = numbers(2, targets.shape[1], DIM, seed=9).requires_grad_()
    begin(head, number, targets, **options)
    losses = torch.stack([head.losses(hidden[side], targets[side], side) for side in (0, 1)])
    losses.square().sum().backward()
    return hidden, losses


def candidates(number, side, n_samples=6):
    return draw_candidates(n_samples, N_WORDS, (3, number, side))


def used_rows(number):
    """Return the candidate and target rows used in a step, in ascending order."""
    drawn = {int(word) for side in (0, 1) for word in candidates(number, side).ids}
    return sorted(drawn | set(TARGETS.flatten().tolist()))


# ------------------------------------------------------------------------------------ sampled


def test_sampled_head_equals_computing_the_loss_from_the_whole_table():
    head = make_sampled()
    hidden, losses = step(head, 4)
    softmax = make_softmax()
    again = hidden.detach().clone().requires_grad_()
    expected = []
    for side in (0, 1):
        drawn, targets = candidates(4, side), TARGETS[side]
        sampled = torch.from_numpy(drawn.ids)
        logits = sampled_logits(
            again[side],
            true_weight=softmax.weight[targets],
            true_bias=softmax.bias[targets],
            true_log_expected=log_expected_count(targets, N_WORDS, drawn.n_tries),
            sampled_weight=softmax.weight[sampled],
            sampled_bias=softmax.bias[sampled],
            sampled_log_expected=log_expected_count(sampled, N_WORDS, drawn.n_tries),
            targets=targets,
            sampled=sampled,
        )
        expected.append(sampled_losses(logits))
    torch.stack(expected).square().sum().backward()
    torch.testing.assert_close(losses, torch.stack(expected))
    torch.testing.assert_close(hidden.grad, again.grad)
    ids = head._rows.ids
    for gradient, whole in zip(
        head.gradients(), (softmax.weight.grad, softmax.bias.grad), strict=True
    ):
        torch.testing.assert_close(gradient, whole[ids], rtol=1e-5, atol=1e-6)
        others = torch.ones(N_WORDS, dtype=torch.bool)
        others[ids] = False
        assert not whole[others].any()


def test_logits_of_another_table_are_those_of_a_head_with_this_table():
    head, other = make_sampled(), make_sampled()
    other.softmax.weight.data.mul_(-2.0)
    other.softmax.bias.data.sub_(1.0)
    hidden, losses = step(head, 4)
    begin(other, 4)
    table = other.softmax.weight[head.rows.ids], other.softmax.bias[head.rows.ids]
    for side in (0, 1):
        true, others = head.logits(hidden[side], TARGETS[side], side)
        log_sum = torch.cat([true.unsqueeze(1), others], dim=1).logsumexp(dim=1)
        assert torch.equal(log_sum - true, losses[side])
        result = head.logits(hidden[side], TARGETS[side], side, table)
        assert not torch.equal(result[0], true)
        assert all(map(torch.equal, result, other.logits(hidden[side], TARGETS[side], side)))


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda config: config.optimizer)
def test_sampled_head_updates_only_candidate_and_target_rows(optimizer):
    head = make_sampled(optimizer=optimizer)
    step(head, 2)
    head.update(0.5)
    updated = used_rows(2)
    others = [word for word in range(N_WORDS) if word not in updated]
    assert others
    before, after = make_softmax(), head.softmax
    assert torch.equal(after.weight[others], before.weight[others])
    assert torch.equal(after.bias[others], before.bias[others])
    for word in updated:
        assert not torch.equal(after.weight[word], before.weight[word])


def test_sampled_candidates_differ_between_directions_and_steps():
    head = make_sampled()
    seen = []
    for number in (0, 1):
        drawn = head.draw(number, TARGETS.numpy())
        seen += drawn.sampled.tolist()
        for side in (0, 1):
            assert drawn.sampled[side].tolist() == candidates(number, side).ids.tolist()
            assert drawn.n_tries[side] == candidates(number, side).n_tries
    assert len({tuple(ids) for ids in seen}) == 4


def test_draw_returns_the_rows_of_candidates_and_targets():
    drawn = make_sampled().draw(2, TARGETS.numpy())
    assert drawn.ids.tolist() == used_rows(2)
    assert drawn.valid.tolist() == [1] * len(drawn.ids)
    assert {tensor.dtype for tensor in vars(drawn).values()} == {torch.int64}


@pytest.mark.parametrize("multiple", [1, 2, 7, 16, N_WORDS, 64])
@pytest.mark.parametrize("number", range(4))
def test_draw_pads_the_number_of_rows_to_a_multiple(number, multiple):
    unpadded = make_sampled().draw(number, TARGETS.numpy())
    drawn = make_sampled().draw(number, TARGETS.numpy(), multiple)
    assert (drawn.ids.diff() > 0).all()
    assert 0 <= drawn.ids[0] <= drawn.ids[-1] < N_WORDS
    assert drawn.ids[drawn.valid == 1].tolist() == used_rows(number)
    assert not set(drawn.ids[drawn.valid == 0].tolist()) & set(used_rows(number))
    assert set(drawn.valid.tolist()) <= {0, 1}
    # All words are used if the vocabulary is smaller than the multiple.
    n_used = len(used_rows(number))
    assert len(drawn.ids) == min(-(-n_used // multiple) * multiple, N_WORDS)
    assert drawn.sampled.tolist() == unpadded.sampled.tolist()
    assert drawn.n_tries.tolist() == unpadded.n_tries.tolist()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda config: config.optimizer)
def test_sampled_loss_and_update_do_not_change_if_rows_are_padded(optimizer):
    padded, unpadded = make_sampled(optimizer=optimizer), make_sampled(optimizer=optimizer)
    for number in range(3):
        results = [step(padded, number, multiple=32), step(unpadded, number)]
        assert not padded._rows.valid.all()
        for result, expected in zip(*results, strict=True):
            torch.testing.assert_close(result, expected)
        for gradient in padded.gradients():
            assert not gradient[padded._rows.valid == 0].any()
        for head in (padded, unpadded):
            head.update(0.5)
    for one, other in zip(padded.row_optimizers(), unpadded.row_optimizers(), strict=True):
        torch.testing.assert_close(one.table, other.table)
        torch.testing.assert_close(one.state, other.state)


@pytest.mark.parametrize("make", [make_sampled, lambda: ExactSoftmaxHead(make_softmax())])
def test_mean_loss_equals_the_mean_of_the_individual_losses(make):
    head = make()
    hidden, losses = step(head, 4)
    for side in (0, 1):
        mean = head.mean_loss(hidden[side], TARGETS[side], side)
        assert torch.equal(mean, losses[side].mean())


def test_exact_head_draws_no_rows():
    assert ExactSoftmaxHead(make_softmax()).draw(0, TARGETS.numpy(), 8) is None


def test_sampled_head_accumulates_gradients_over_several_backward_passes():
    whole, parts = make_sampled(), make_sampled()
    hidden, _ = step(whole)
    begin(parts)
    for side in (0, 1):
        for position in range(3):
            vector = hidden.detach()[side, position : position + 1]
            loss = parts.losses(vector, TARGETS[side, position : position + 1], side)
            loss.square().sum().backward()
    torch.testing.assert_close(parts.gradients(), whole.gradients())


def test_begin_discards_the_gradients_of_the_previous_step():
    head = make_sampled()
    step(head, 0)
    first = [gradient.clone() for gradient in head.gradients()]
    step(head, 0)
    assert all(map(torch.equal, head.gradients(), first))


def test_sampled_head_has_no_dense_parameters():
    assert make_sampled().dense_parameters() == []
    assert len(make_sampled().row_optimizers()) == 2


@pytest.mark.parametrize("n_samples", [N_WORDS, N_WORDS + 1])
def test_sampled_head_rejects_too_many_candidates(n_samples):
    with pytest.raises(
        ConfigError, match=rf"n_samples \({n_samples}\) must be smaller than the vocabulary \(40"
    ):
        make_sampled(n_samples)
    make_sampled(N_WORDS - 1)


# ------------------------------------------------------------------------------------ exact


def test_exact_head_computes_exact_losses_and_has_no_row_updates():
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


def test_adaptive_softmax_clusters_without_targets_have_no_gradient():
    softmax = nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, [10, 20])
    head = ExactSoftmaxHead(softmax)
    step(head, targets=torch.tensor([[1, 2, 3], [4, 5, 6]]))
    assert len(head.dense_parameters()) == 5
    assert len(head.gradients()) == 1


def test_tied_head_uses_the_input_word_embeddings_as_weights():
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
    """Simulates two processes, the second of which has zero gradients."""

    world_size = 2

    def all_reduce(self, value, reduce_op):
        assert reduce_op == "mean"
        return value / 2


def test_gradients_do_not_depend_on_the_targets_of_other_processes():
    others = torch.tensor([[11, 12, 13], [14, 15, 16]])
    head, alone = make_sampled(), make_sampled()
    step(head, others=others)
    step(alone)
    ids = head._rows.ids
    assert {*TARGETS.flatten().tolist(), *others.flatten().tolist()} <= set(ids.tolist())
    assert head._rows.valid.all()
    positions = torch.searchsorted(ids, alone._rows.ids)
    for gradient, expected in zip(head.gradients(), alone.gradients(), strict=True):
        torch.testing.assert_close(gradient[positions], expected)
    before = [gradient.clone() for gradient in head.gradients()]
    head.exchange(TwoProcesses())
    for gradient, expected in zip(head.gradients(), before, strict=True):
        assert torch.equal(gradient, expected / 2)


def test_exchange_averages_the_gradients_of_all_adaptive_softmax_clusters():
    head = ExactSoftmaxHead(nn.AdaptiveLogSoftmaxWithLoss(DIM, N_WORDS, [10, 20]))
    step(head, targets=torch.tensor([[1, 2, 3], [4, 5, 6]]))
    before = head.gradients()[0].clone()
    head.exchange(TwoProcesses())
    # A process without targets in a cluster takes part in the exchange with zero gradients.
    assert len(head.gradients()) == 5
    assert torch.equal(head.gradients()[0], before / 2)
    assert not any(gradient.any() for gradient in head.gradients()[1:])


@pytest.mark.parametrize("make", [make_sampled, lambda: ExactSoftmaxHead(make_softmax())])
def test_gradient_exchange_does_nothing_in_a_single_process(make):
    head = make()
    step(head)
    before = [gradient.clone() for gradient in head.gradients()]
    head.exchange(SimpleNamespace(world_size=1))
    assert all(map(torch.equal, head.gradients(), before))
