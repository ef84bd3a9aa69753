"""How a reader is registered: its function, and the options of examples that it takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ReaderRow:
    """A reader of files with examples.

    Attributes:
        place: The function, as "module:function".
        text: Its parameter for `text_column`; None if text columns cannot be selected.
        label: Its parameter for `label_column`; None if the label column cannot be selected.
        options: Other options of `ExamplesConfig` that are parameters too: `empty`, `phrases`.
        names: Function that returns the columns or fields of a file, as "module:function", if the
            default columns are those of the task that the file has.
        labels: Label columns that are looked for in a file; the first is the default.
        named: Reader of .csv and .tsv files whose header names the columns of words and labels, if
            this reader is for files without a header.
    """

    place: str
    text: str | None = None
    label: str | None = None
    options: tuple[str, ...] = ()
    names: str | None = None
    labels: tuple[str, ...] = ()
    named: str | None = None
