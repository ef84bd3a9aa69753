"""One column of texts from the containers that tables, arrays and lists are passed in."""

from collections.abc import Iterable, Sequence

from elmo.errors import InputError, shortened
from elmo.text.text_values import check_no_spacy, is_missing, iterate_sentences

# A list, an array or Series, or a table with one column.
TextColumn = Iterable[object]


def text_column(texts: TextColumn) -> list[str | None]:
    """Return the texts of a column as strings; missing values become None.

    Args:
        texts: List, Series, array with one dimension or one column, or table with one column, of
            pandas, Polars or PyArrow.

    Raises:
        InputError: The values are not a column of strings.
    """
    if isinstance(texts, str):
        raise InputError(
            f"Expected a list of texts, but got a single text: {shortened(repr(texts), 60)}."
        )
    values = iterate_sentences(_only_column(texts), "texts")
    return [_text(value, number) for number, value in enumerate(values)]


def _only_column(texts: TextColumn) -> TextColumn:
    """Return the column of a table or of an array with two dimensions, and other values as is."""
    shape: Sequence[int] = getattr(texts, "shape", ())
    if len(shape) < 2:
        return texts
    if len(shape) > 2 or shape[1] != 1:
        raise InputError(
            f"texts has the shape {tuple(shape)}, expected one column. Choose the column of the "
            'texts, such as table["text"], or use a ColumnTransformer.'
        )
    if hasattr(texts, "iloc"):  # pandas
        column: TextColumn = texts.iloc[:, 0]
    elif hasattr(texts, "columns"):  # Polars, PyArrow
        columns = texts.columns
        column = columns[0] if not isinstance(columns[0], str) else texts[columns[0]]  # type: ignore[index]
    else:
        column = texts[:, 0]  # type: ignore[index]
    return column


def _text(value: object, number: int) -> str | None:
    # Scalars of PyArrow contain their value.
    value = value.as_py() if hasattr(value, "as_py") else value
    if isinstance(value, str):
        return value
    if is_missing(value):
        return None
    check_no_spacy(value, f"Text {number}")
    remedy = "Join its words with spaces." if isinstance(value, list | tuple) else "Pass strings."
    raise InputError(
        f"Text {number} has type {type(value).__name__}, expected a string "
        f"({shortened(repr(value), 60)}). {remedy}"
    )
