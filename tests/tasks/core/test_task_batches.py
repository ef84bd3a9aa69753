"""Tests of training batches for tasks."""

from itertools import islice

import pytest
import torch
from small_tasks import EXAMPLES, LABELED, TAGGED, fabric, make_fitted_task, task_config

from elmo.tasks.core.input_features import TokenIndexer
from elmo.tasks.core.task_batches import POOL, TaskBatches, epoch_order, split_batch
from elmo.tasks.registry.task_classes import task_for
from elmo.tasks.training.task_trainable import TaskTrainingJob

LENGTHS = [(7 * n) % 11 + 1 for n in range(300)]


def flat(batches):
    return [number for batch in batches for number in batch]


def test_epoch_order_contains_each_example_once():
    for epoch in range(3):
        batches = epoch_order(LENGTHS, 7, (1, epoch))
        assert sorted(flat(batches)) == list(range(300))
        assert sorted(map(len, batches)) == [300 % 7] + [7] * 42


def test_epoch_order_depends_on_seed_and_epoch():
    assert epoch_order(LENGTHS, 7, (1, 0)) == epoch_order(LENGTHS, 7, (1, 0))
    orders = [flat(epoch_order(LENGTHS, 7, seed)) for seed in ((1, 0), (1, 1), (2, 0))]
    assert len(set(map(tuple, orders))) == 3


def test_epoch_order_groups_examples_of_similar_length():
    batches = epoch_order(LENGTHS, 4, (1, 0))
    spread = sum(max(LENGTHS[n] for n in b) - min(LENGTHS[n] for n in b) for b in batches)
    assert spread / len(batches) < 1
    # The batches themselves are not sorted by length.
    means = [sum(LENGTHS[n] for n in batch) / len(batch) for batch in batches]
    assert means != sorted(means)
    assert POOL * 4 < len(LENGTHS)


def batches_of(task, examples, seed=1, size=6, words=10_000):
    task = task_for(task, examples)
    label_ids = {label: number for number, label in enumerate(task.labels(examples))}
    indexer = TokenIndexer(has_characters=True)
    return TaskBatches(
        examples, indexer, task, label_ids, batch_size=size, batch_words=words, seed=seed
    )


def tensors(parts):
    values = [
        value
        for part in parts
        for group in part.groups
        for value in (*vars(group).values(), *vars(group.layout).values(), part.targets)
    ]
    return [value for value in values if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize(("task", "examples"), [("classification", LABELED), ("tagging", TAGGED)])
def test_batch_of_a_step_does_not_depend_on_the_first_step(task, examples):
    batches = batches_of(task, examples)
    assert batches.per_epoch == 4
    expected = list(islice(batches.from_step(0), 11))
    for first in (1, 3, 4, 7):
        for parts, expected_parts in zip(batches.from_step(first), expected[first:], strict=False):
            for actual, tensor in zip(tensors(parts), tensors(expected_parts), strict=True):
                assert torch.equal(actual, tensor)
    other = next(batches_of(task, examples, seed=2).from_step(0))
    assert not torch.equal(other[0].groups[0].characters, expected[0][0].groups[0].characters)


def test_tagging_targets_are_padded_like_the_texts():
    batches = batches_of("tagging", TAGGED, size=20)
    (batch,) = next(batches.from_step(0))
    (tokens,) = batch.groups
    assert batch.targets.shape == tokens.mask.shape == (20, 5)
    assert not batch.targets[~tokens.mask].any()
    moved = batch.to(torch.device("meta"))
    assert moved.targets.device.type == moved.groups[0].mask.device.type == "meta"


def test_batch_size_can_exceed_number_of_examples():
    batches = batches_of("classification", LABELED, size=task_config("x").batch_size * 100)
    assert batches.per_epoch == 1
    (batch,) = next(batches.from_step(5))
    assert len(batch.targets) == 20


def test_split_batch_respects_word_and_example_limits():
    lengths = [(n, 12 - n) for n in LENGTHS]
    order = sorted(range(300), key=LENGTHS.__getitem__)
    for max_words, max_examples in ((90, None), (100, 3), (1, None)):
        parts = list(split_batch(order, lengths, max_words=max_words, max_examples=max_examples))
        assert flat(parts) == order
        for part in parts:
            padded = sum(max(lengths[index][text] for index in part) for text in range(2))
            # A single example is never split.
            assert len(part) == 1 or padded * len(part) <= max_words
            assert len(part) <= (max_examples or len(part))
    assert list(split_batch([], lengths, max_words=5)) == []
    assert list(split_batch([2, 1, 0], [(3,)] * 3, max_words=9)) == [[2, 1, 0]]


@pytest.mark.parametrize("task", sorted(EXAMPLES))
def test_gradients_do_not_depend_on_micro_batch_size(tmp_path, task):
    gradients, counts = [], []
    for batch_words in (10_000, 12):
        examples = EXAMPLES[task]
        fitted = make_fitted_task(
            tmp_path, examples, task=task, batch_words=batch_words, batch_size=10
        )
        trainable = TaskTrainingJob(fitted, examples, ()).make_trainable(fabric())
        parts = next(trainable.batches(0))
        assert sum(part.share for part in parts) == pytest.approx(1)
        losses = [part.share * trainable.model.loss(part.groups, part.targets) for part in parts]
        torch.stack(losses).sum().backward()
        counts.append(len(parts))
        gradients.append([value.grad for value in trainable.model.parameters()])
    assert counts[0] == 1 < counts[1]
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second, atol=1e-6, rtol=1e-4)
