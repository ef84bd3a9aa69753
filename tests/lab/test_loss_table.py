"""Tests of the table that compares losses."""

import math

import pytest

from elmo.lab.loss_table import loss_table
from elmo.lab.published_losses import PublishedLoss, known_texts


def published(model, figure, split="test", dynamic=False, note="", measure="nats"):
    return PublishedLoss(model, figure, measure, split, dynamic, "Doe 2020", "http://x", note)


def rows(table):
    """Return the lines of the table without headings and notes."""
    lines = table.splitlines()
    return [line for line in lines[2:] if line.startswith(("  ", "> "))]


def test_rows_are_sorted_by_loss_and_result_is_marked():
    table = loss_table(
        1.5, "characters", [3.0, 2.0], [published("A", 1.0), published("B", 1.7)], "test"
    )
    lines = rows(table)
    names = [line[2:].split("  ")[0] for line in lines]
    assert names == ["A", "this model", "B", "2-gram, Kneser-Ney", "1-gram, Kneser-Ney"]
    assert [line.startswith("> ") for line in lines] == [False, True, False, False, False]
    assert "compared approximately" not in table


def test_row_has_nats_bits_and_perplexity():
    (line,) = rows(loss_table(math.log(4), "characters", [], [], "last 10 %"))
    assert line.split() == [">", "this", "model", "1.3863", "2.000", "4.00", "last", "10", "%"]


def test_measures_of_published_losses_are_converted():
    losses = [published("A", 1.0, measure="bits"), published("B", 16.0, measure="perplexity")]
    by_bits, result, by_perplexity = rows(loss_table(1.0, "characters", [], losses, "test"))
    assert by_bits.split()[1:4] == ["0.6931", "1.000", "2.00"]
    assert result.startswith("> this model")
    assert by_perplexity.split()[1:4] == ["2.7726", "4.000", "16.00"]


def test_bits_of_word_models_are_per_character_and_only_on_the_same_part():
    losses = [
        published("A", 32.0, measure="perplexity"),
        published("B", 64.0, "valid", measure="perplexity"),
    ]
    table = loss_table(5.0, "words", [], losses, "test", characters_per_symbol=5.0)
    same, other, _ = rows(table)
    assert same.split()[1:4] == ["3.4657", "1.000", "32.00"]
    assert other.split()[1:5] == ["4.1589", "-", "64.00", "valid"]
    assert "compared approximately" in table


def test_word_table_without_number_of_characters_has_no_bits():
    (line,) = rows(loss_table(5.0, "words", [], [], "test"))
    assert line.split()[3:5] == ["5.0000", "-"]


def test_bytes_have_bits_per_byte():
    assert "bits/byte" in loss_table(1.0, "bytes", [], [], "test").splitlines()[1]


def test_other_parts_are_listed_only_for_models_without_the_same_part():
    losses = [
        published("A", 1.0, "valid"),
        published("A", 1.1, "test"),
        published("A", 0.9, "valid", dynamic=True),
    ]
    lines = rows(loss_table(2.0, "characters", [], losses, "test"))
    assert [line.split()[:2] for line in lines[:2]] == [["A*", "0.9000"], ["A", "1.1000"]]
    assert len(lines) == 3


def test_dynamic_evaluation_is_marked_and_explained():
    table = loss_table(1.0, "characters", [], [published("A", 2.0)], "test", dynamic=True)
    assert "> this model* " in table
    assert table.splitlines()[-1].startswith("* dynamic evaluation")
    assert "*" not in loss_table(1.0, "characters", [], [published("A", 2.0)], "test")


def test_notes_are_printed_once():
    losses = [published("A", 1.0, note="Estimated."), published("B", 1.0, note="Estimated.")]
    assert loss_table(1.0, "characters", [], losses, "test").count("Estimated.") == 1


@pytest.mark.parametrize("nats", [math.nan, math.inf, 50.0])
def test_loss_of_diverged_model_is_last(nats):
    table = loss_table(nats, "characters", [3.0], [], "test")
    assert rows(table)[-1].startswith("> this model")


@pytest.mark.parametrize("text", known_texts(), ids=lambda text: text.name)
def test_lines_of_known_texts_have_at_most_100_columns(text):
    table = loss_table(
        12.5, text.unit, [11.0] * 6, text.losses, "a part with a long name", 5.6, True
    )
    assert max(map(len, table.splitlines())) <= 100
