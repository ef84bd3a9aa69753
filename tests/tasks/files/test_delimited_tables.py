"""Tests for the reader of tables with a header row."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError, FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.files.delimited_tables import read_table
from elmo.tasks.files.raw_text import PLACEHOLDER


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.tsv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


def test_read_table_ignores_quotes_in_tsv(write):
    path = write('id\ttext\tlabel\r\n1\t"so ""good\t 1 \r\n2\tso, so\t0\n\n')
    assert read_table(path, id="id") == [
        Example((('"so', '""good'),), "1", "1"),
        Example((("so,", "so"),), "0", "2"),
    ]


def test_read_table_reads_quoted_csv_fields(write):
    path = write('text,label\n"a, ""b""\nc",x\n\nd,y\n', "file.csv")
    assert read_table(path) == [Example((("a,", '"b"', "c"),), "x"), Example((("d",),), "y")]
    path = write('text,label\n"a,x\n', "file.csv")
    assert read_table(path, quotes=False) == [Example((('"a',),), "x")]
    path = write('text\tlabel\n"a\tb"\tx\n')
    assert read_table(path, quotes=True, split=list) == [Example((("a", "\t", "b"),), "x")]
    path = write("text;label\na;x\n")
    assert read_table(path, delimiter=";") == [Example((("a",),), "x")]


def test_read_table_reads_fields_longer_than_csv_module_limit(write):
    limit = csv.field_size_limit()
    path = write(f'text,label\n"{"a " * limit}",x\n', "file.csv")
    assert len(read_table(path)[0].words) == limit
    assert csv.field_size_limit() == limit


def test_read_table_skips_filtered_rows_before_checking_them(write):
    path = write("text\tlabel\na\t x \n\ty\n")

    def has_label(label):
        return lambda cells, location: cells["label"] == label

    assert read_table(path, row_filter=has_label("x")) == [Example((("a",),), "x")]
    assert read_table(path, row_filter=has_label("z")) == []


def test_read_table_reads_several_text_columns_and_no_labels(write):
    path = write("label\tpremise\thypothesis\nyes\ta b\tc\n")
    examples = read_table(path, text=["premise", "hypothesis"])
    assert examples == [Example((("a", "b"), ("c",)), "yes")]
    assert read_table(path, text="premise", label=None)[0].target is None


def test_read_table_reads_blank_line_in_single_column_as_empty_text(write):
    path = write("text\na b\n\nc\n")
    assert len(read_table(path, label=None, empty="skip")) == 2
    assert read_table(path, label=None, empty="keep")[1].words == (PLACEHOLDER,)
    with pytest.raises(FormatError, match="line 3: a text has no words"):
        read_table(path, label=None)


@pytest.mark.parametrize("text", ["", "  ", "\u3000"])
def test_read_table_handles_empty_text_as_configured(write, text):
    path = write(f"text\tlabel\na\t1\n{text}\t0\n")
    with pytest.raises(FormatError, match=r"file.tsv, line 3: a text has no words. .*--empty keep"):
        read_table(path)
    assert read_table(path, empty="keep")[1] == Example(((PLACEHOLDER,),), "0")
    assert read_table(path, empty="skip") == [Example((("a",),), "1")]
    with pytest.raises(ConfigError, match="Unknown value 'drop' for empty"):
        read_table(path, empty="drop")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "text\tlabel\na\n",
            {},
            "line 2: the row has 1 columns, but the header has 2: text, label",
        ),
        ("text\tlabel\na\t1\t2\n", {}, "line 2: the row has 3 columns"),
        ("text\tlabel\na\t \n", {}, "line 2: the column 'label' is empty"),
        (
            "title\tlabel\na\t1\n",
            {},
            "line 1: the header has no column 'text'. The columns are: 'title', 'label'",
        ),
        ("Text\tlabel\na\t1\n", {}, "no column 'text'. Did you mean Text. The columns are"),
        ('text\tlabel\n"a\n', {}, "line 2: .* Quotes are not special in a table with tabs"),
        ("text\ttopic\na\t1\n", {}, "no column 'label'.* with --label-column.$"),
        ("text\tlabel\na\t1\n", {"id": "guid"}, "no column 'guid'.* with id.$"),
        ("text\ttext\tlabel\na\tb\t1\n", {}, "the header has 2 columns 'text'"),
        ("text\tlabel\n", {}, "contains no rows below the header"),
        ("", {}, "the header has no column 'text'"),
        (
            'text\tlabel\n"a\t1\n',
            {"quotes": True},
            "line 2: not a valid CSV row: .* must be doubled",
        ),
        ('text\tlabel\n"a"b\t1\n', {"quotes": True}, "line 2: not a valid CSV row"),
    ],
)
def test_read_table_rejects_invalid_file(write, text, options, message):
    with pytest.raises(FormatError, match=message):
        read_table(write(text), **options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'text;label\n"a; ""b""";1\n'),
        ("a.csv", 'text\tlabel\na; "b"\t1\n'),
        ("a.txt", 'text,label\n"a; ""b""",1\n'),
        ("a.tsv", 'text\tlabel\na; "b"\t1\n'),
    ],
)
def test_delimiter_follows_from_file_name_and_header(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    (example,) = read_table(path)
    assert (example.words, example.target) == (("a;", '"b"'), "1")


def test_read_table_rejects_two_character_delimiter(write):
    with pytest.raises(ConfigError, match="delimiter must be a single character"):
        read_table(write("text\n"), delimiter="||")


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(FIELD, min_size=1))
def test_read_table_round_trips_texts_written_by_csv_module(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("table") / "file.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((text, "x") for text in texts)])
    examples = read_table(path, split=lambda text: [text])
    assert [example.words[0] for example in examples] == texts
