"""One labelled text."""

import dataclasses

import pytest

from elmo.tasks.examples import Example


def test_an_example():
    example = Example((("a", "b"), ("c",)), "yes", "7")
    assert example.words == ("a", "b")
    assert Example((("a",),)) == Example((("a",),), None, "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.target = "no"
