"""Examples in batches."""

from itertools import islice

import pytest
import torch
from small_tasks import EXAMPLES, LABELED, TAGGED, fabric, make_fitted_task, task_config

from elmo.tasks.input_features import TokenIndexer
from elmo.tasks.task_batches import POOL, Batches, epoch_order, in_parts
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.tasks.task_types.task_registry import task_for

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


def batches_of(task, examples, seed=1, size=6, words=10_000):
    kind = task_for(task, examples)
    numbers = {label: number for number, label in enumerate(kind.labels(examples))}
    fields = TokenIndexer(has_characters=True)
    return Batches(examples, fields, kind, numbers, batch_size=size, batch_words=words, seed=seed)


def tensors(parts):
    found = [
        value
        for part in parts
        for group in part.groups
        for value in (*vars(group).values(), *vars(group.layout).values(), part.targets)
    ]
    return [value for value in found if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize(("task", "examples"), [("classification", LABELED), ("tagging", TAGGED)])
def test_from_any_step_on_it_is_the_same(task, examples):
    batches = batches_of(task, examples)
    assert batches.per_epoch == 4
    whole = list(islice(batches.from_step(0), 11))
    for first in (1, 3, 4, 7):
        for one, other in zip(batches.from_step(first), whole[first:], strict=False):
            for found, expected in zip(tensors(one), tensors(other), strict=True):
                assert torch.equal(found, expected)
    other = next(batches_of(task, examples, seed=2).from_step(0))
    assert not torch.equal(other[0].groups[0].characters, whole[0][0].groups[0].characters)


def test_targets_fit_the_texts():
    batches = batches_of("tagging", TAGGED, size=20)
    (batch,) = next(batches.from_step(0))
    (tokens,) = batch.groups
    assert batch.targets.shape == tokens.mask.shape == (20, 5)
    assert not batch.targets[~tokens.mask].any()
    moved = batch.to(torch.device("meta"))
    assert moved.targets.device.type == moved.groups[0].mask.device.type == "meta"


def test_a_batch_larger_than_all_examples():
    batches = batches_of("classification", LABELED, size=task_config("x").batch_size * 100)
    assert batches.per_epoch == 1
    (batch,) = next(batches.from_step(5))
    assert len(batch.targets) == 20


def test_parts_hold_no_more_words_than_said():
    sizes = [(n, 12 - n) for n in LENGTHS]
    order = sorted(range(300), key=LENGTHS.__getitem__)
    for words, most in ((90, None), (100, 3), (1, None)):
        parts = list(in_parts(order, sizes, words=words, most=most))
        assert flat(parts) == order
        for part in parts:
            padded = sum(max(sizes[number][place] for number in part) for place in range(2))
            # A single example is never cut.
            assert len(part) == 1 or padded * len(part) <= words
            assert len(part) <= (most or len(part))
    assert list(in_parts([], sizes, words=5)) == []
    assert list(in_parts([2, 1, 0], [(3,)] * 3, words=9)) == [[2, 1, 0]]


@pytest.mark.parametrize("task", sorted(EXAMPLES))
def test_what_is_learned_does_not_depend_on_the_parts(tmp_path, task):
    """Gradients of a step in parts are those of the whole."""
    gradients, counts = [], []
    for words in (10_000, 12):
        examples = EXAMPLES[task]
        trained = make_fitted_task(tmp_path, examples, task=task, batch_words=words, batch_size=10)
        work = TaskTrainingJob(trained, examples, ()).make_trainable(fabric())
        parts = next(work.batches(0))
        assert sum(part.share for part in parts) == pytest.approx(1)
        losses = [part.share * work.model.loss(part.groups, part.targets) for part in parts]
        torch.stack(losses).sum().backward()
        counts.append(len(parts))
        gradients.append([value.grad for value in work.model.parameters()])
    assert counts[0] == 1 < counts[1]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)
