"""Tests of the data class `Example`."""

import dataclasses

import pytest

from elmo.tasks.core.example import Example


def test_example_is_immutable_and_has_default_values():
    example = Example((("a", "b"), ("c",)), "yes", "7")
    assert example.words == ("a", "b")
    assert Example((("a",),)) == Example((("a",),), None, "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.target = "no"
