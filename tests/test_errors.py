"""Tests of the suggestions in error messages."""

import pytest

from elmo.errors import did_you_mean, interruption_note, listing, nearest_name, shortened


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


def test_shortened_cuts_long_text_after_a_word_and_marks_the_cut():
    assert shortened("one\n two", 7) == "one two"
    assert shortened("one two three", 7) == "one two ..."
    assert shortened("one two three", 10) == "one two ..."
    assert shortened(ValueError("one two three"), 12) == "one two ..."
    assert shortened("x" * 20, 10) == "x" * 10 + " ..."
    assert shortened("a " + "x" * 20, 10) == "a " + "x" * 8 + " ..."


def test_listing_counts_the_names_that_are_not_shown():
    assert listing([]) == "none"
    assert listing(["a", "b"], 2) == "a, b"
    assert listing(["a", "b", "c", "d"], 2) == "a, b and 2 more"


@pytest.mark.parametrize("exception", [KeyboardInterrupt(), SystemExit(143)])
def test_interruption_has_the_note_of_the_outermost_block_last(exception):
    @interruption_note(lambda: "outer")
    @interruption_note(lambda: "inner")
    @interruption_note(lambda: None)
    def interrupted():
        raise exception

    with pytest.raises(type(exception)) as caught:
        interrupted()
    assert caught.value.__notes__ == ["inner", "outer"]
