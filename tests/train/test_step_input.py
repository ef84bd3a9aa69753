"""Tests of the input of a training step: conversion, padding, and copying as one flat tensor."""

import numpy as np
import pytest
import torch

from elmo.corpus.token_tables import SegmentBatch
from elmo.train.softmax_heads import SoftmaxRows
from elmo.train.step_input import StepInput


def integers(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 100, shape)


def batch_of(n_words, n_streams, seed=0):
    shape = (2, 3, n_streams)
    return SegmentBatch(
        words=integers(n_words, seed=seed),
        index=integers(*shape, seed=seed + 1),
        targets=integers(*shape, seed=seed + 2),
        resets=integers(*shape, seed=seed + 3) > 50,
    )


ROWS = SoftmaxRows(
    ids=torch.from_numpy(integers(9, seed=4)),
    valid=torch.tensor([1, 1, 0, 1, 0, 1, 1, 1, 0]),
    sampled=torch.from_numpy(integers(2, 5, seed=5)),
    n_tries=torch.tensor([11, 12]),
)
INPUTS = {
    "one batch": StepInput.of([batch_of(7, 4)], None),
    "with rows": StepInput.of([batch_of(7, 4)], ROWS),
    "accumulated": StepInput.of([batch_of(7, 4), batch_of(5, 2, seed=9)], ROWS),
}


def fields_of(step_input):
    """Return the fields of each batch and of the rows."""
    groups = [*step_input.batches, step_input.rows]
    return [vars(group) for group in groups if group is not None]


def check_equal(actual, expected):
    """Check that two inputs have equal tensors of the same dtypes."""
    torch.testing.assert_close(fields_of(actual), fields_of(expected), rtol=0, atol=0)


def test_of_keeps_the_values_and_dtypes_of_the_batches_and_rows():
    batches = [batch_of(7, 4), batch_of(5, 2, seed=9)]
    step_input = StepInput.of(batches, ROWS)
    assert step_input.rows is ROWS
    for tensors, batch in zip(step_input.batches, batches, strict=True):
        assert vars(tensors).keys() == vars(batch).keys()
        for name, array in vars(batch).items():
            tensor = getattr(tensors, name)
            assert tensor.dtype == (torch.bool if name == "resets" else torch.int64)
            assert np.array_equal(tensor.numpy(), array), name


@pytest.mark.parametrize("name", INPUTS)
def test_split_restores_a_flattened_input(name):
    step_input = INPUTS[name]
    flat = torch.full((step_input.size(),), -1, dtype=torch.int32)
    step_input.flatten(flat)
    check_equal(step_input.split(flat), step_input)
    # Only shapes and dtypes of the instance are used.
    zeros = step_input.split(torch.zeros_like(flat))
    assert not any(tensor.any() for fields in fields_of(zeros) for tensor in fields.values())
    check_equal(zeros.split(flat), step_input)


def test_flatten_writes_the_fields_in_order_as_int32():
    batch = batch_of(7, 4)
    step_input = StepInput.of([batch], ROWS)
    flat = torch.empty(step_input.size(), dtype=torch.int32)
    step_input.flatten(flat)
    fields = [*vars(batch).values(), *vars(ROWS).values()]
    assert flat.tolist() == [int(number) for field in fields for number in np.ravel(field)]


def test_flatten_accepts_arrays_that_are_not_contiguous():
    batch = batch_of(7, 4)
    part = SegmentBatch(
        batch.words, batch.index[:, :, 1:3], batch.targets[:, :2], batch.resets[:, :, ::2]
    )
    step_input = StepInput.of([part], None)
    flat = torch.empty(step_input.size(), dtype=torch.int32)
    step_input.flatten(flat)
    check_equal(step_input.split(flat), step_input)


def test_shapes_differ_if_words_are_padded_or_rows_are_missing():
    one, with_rows = INPUTS["one batch"], INPUTS["with rows"]
    assert one.shapes() == ((7,), (2, 3, 4), (2, 3, 4), (2, 3, 4))
    assert with_rows.shapes() == (*one.shapes(), (9,), (9,), (2, 5), (2,))
    assert with_rows.pad_words(8).shapes() == ((8,), *with_rows.shapes()[1:])


def test_pad_words_appends_word_0_and_keeps_all_other_tensors():
    step_input = INPUTS["with rows"]
    (before,) = step_input.batches
    padded = step_input.pad_words(12)
    (after,) = padded.batches
    assert after.words.dtype == before.words.dtype
    assert after.words.tolist() == [*before.words.tolist(), 0, 0, 0, 0, 0]
    assert all(getattr(after, name) is getattr(before, name) for name in ("index", "targets"))
    assert after.resets is before.resets
    assert padded.rows is step_input.rows
    check_equal(step_input.pad_words(7), step_input)


@pytest.mark.parametrize("name", INPUTS)
def test_to_copies_all_tensors_to_the_device(name):
    step_input = INPUTS[name]
    check_equal(step_input.to(torch.device("cpu")), step_input)
    on_meta = step_input.to(torch.device("meta"))
    assert on_meta.shapes() == step_input.shapes()
    assert all(tensor.is_meta for fields in fields_of(on_meta) for tensor in fields.values())
