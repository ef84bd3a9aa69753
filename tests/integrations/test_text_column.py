"""Tests for texts from lists, arrays and tables."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from elmo.errors import InputError
from elmo.integrations.text_column import text_column

TEXTS = ["a b", "", "c"]


class PolarsFrame:
    """The part of a Polars table that is used."""

    columns = ("text",)
    shape = (3, 1)

    def __getitem__(self, name):
        return {"text": TEXTS}[name]


@pytest.mark.parametrize(
    "column",
    [
        TEXTS,
        tuple(TEXTS),
        iter(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object)[:, None],
        pd.Series(TEXTS, index=[4, 2, 9]),
        pd.Series(TEXTS, dtype="category"),
        pd.DataFrame({"text": TEXTS}),
        pa.array(TEXTS),
        pa.table({"text": TEXTS}),
        PolarsFrame(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_texts_of_every_container_are_returned(column):
    assert text_column(column) == TEXTS


@pytest.mark.parametrize(
    "column",
    [
        ["a", None, float("nan")],
        np.array(["a", None, np.nan], dtype=object),
        pd.Series(["a", None, pd.NA], dtype="string"),
        pd.DataFrame({"text": ["a", pd.NaT, np.nan]}, dtype=object),
        pa.array(["a", None, None]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_missing_values_become_none(column):
    assert text_column(column) == ["a", None, None]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("a text", "got a single text"),
        (b"bytes", "Decode it first"),
        ({"a": 1}, "Pass a list of texts"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), r"shape \(1, 2\), expected one column"),
        (np.zeros((2, 1, 3)), "expected one column"),
        ([["a", "b"]], r"Text 0 has type list, expected a string \(\['a', 'b'\]\). Join its words"),
        (["a", 3], "Text 1 has type int, .* Pass strings"),
        (["a", b"b"], "Text 1 has type bytes"),
        (3, "texts has type int"),
    ],
)
def test_other_values_are_rejected(column, message):
    with pytest.raises(InputError, match=message):
        text_column(column)
