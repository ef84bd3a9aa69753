"""Tests of the suggestions in error messages."""

import pytest

from elmo.errors import did_you_mean, nearest_name


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("reveiw", "Review"),
        ("REVIEW", "Review"),
        ("label_column", "label-column"),
        ("train", None),
        ("", None),
    ],
)
def test_nearest_name_ignores_case_and_typos(name, nearest):
    assert nearest_name(name, ["Review", "label-column", "stars", "fraction"]) == nearest


def test_did_you_mean_is_a_sentence_or_empty():
    assert did_you_mean("star", ["stars"]) == " Did you mean stars?"
    assert did_you_mean("zzz", ["stars"]) == ""
    assert did_you_mean("star", []) == ""
