"""Examples in batches."""

from itertools import islice

import pytest
import torch
from small_tasks import LABELLED, TAGGED, task_config

from elmo.tasks.batches import POOL, Batches, epoch_order
from elmo.tasks.kinds import kind_for
from elmo.tasks.tokens import TokenFields

LENGTHS = [(7 * n) % 11 + 1 for n in range(300)]


def flat(batches):
    return [number for batch in batches for number in batch]


def test_each_example_comes_once_an_epoch():
    for epoch in range(3):
        batches = epoch_order(LENGTHS, 7, (1, epoch))
        assert sorted(flat(batches)) == list(range(300))
        assert sorted(map(len, batches)) == [300 % 7] + [7] * 42


def test_the_order_is_decided_by_seed_and_epoch():
    assert epoch_order(LENGTHS, 7, (1, 0)) == epoch_order(LENGTHS, 7, (1, 0))
    orders = [flat(epoch_order(LENGTHS, 7, place)) for place in ((1, 0), (1, 1), (2, 0))]
    assert len(set(map(tuple, orders))) == 3


def test_examples_of_like_length_stand_together():
    batches = epoch_order(LENGTHS, 4, (1, 0))
    spread = sum(max(LENGTHS[n] for n in b) - min(LENGTHS[n] for n in b) for b in batches)
    assert spread / len(batches) < 1
    # In an order that says nothing of their lengths.
    means = [sum(LENGTHS[n] for n in batch) / len(batch) for batch in batches]
    assert means != sorted(means)
    assert POOL * 4 < len(LENGTHS)


def batches_of(task, examples, seed=1, size=6):
    kind = kind_for(task, examples)
    numbers = {label: number for number, label in enumerate(kind.labels(examples))}
    fields = TokenFields(has_letters=True)
    return Batches(examples, fields, kind, numbers, batch_size=size, seed=seed)


def tensors(batch):
    found = [*vars(batch.tokens).values(), batch.targets]
    return [value for value in found if value is not None]


@pytest.mark.parametrize(("task", "examples"), [("classification", LABELLED), ("tagging", TAGGED)])
def test_from_any_step_on_it_is_the_same(task, examples):
    batches = batches_of(task, examples)
    assert batches.per_epoch == 4
    whole = list(islice(batches.from_step(0), 11))
    for first in (1, 3, 4, 7):
        for one, other in zip(batches.from_step(first), whole[first:], strict=False):
            for found, expected in zip(tensors(one), tensors(other), strict=True):
                assert torch.equal(found, expected)
    other = next(batches_of(task, examples, seed=2).from_step(0))
    assert not torch.equal(other.tokens.letters, whole[0].tokens.letters)


def test_targets_fit_the_texts():
    batches = batches_of("tagging", TAGGED, size=20)
    (batch,) = islice(batches.from_step(0), 1)
    assert batch.targets.shape == batch.tokens.mask.shape == (20, 5)
    assert not batch.targets[~batch.tokens.mask].any()
    moved = batch.to(torch.device("meta"))
    assert moved.targets.device.type == moved.tokens.mask.device.type == "meta"


def test_a_batch_larger_than_all_examples():
    batches = batches_of("classification", LABELLED, size=task_config("x").batch_size * 100)
    assert batches.per_epoch == 1
    assert len(next(batches.from_step(5)).targets) == 20
