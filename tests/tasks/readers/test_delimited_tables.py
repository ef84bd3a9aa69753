"""Tables with a header."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError, FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.delimited_tables import read_table
from elmo.tasks.readers.raw_text import STAND_IN


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.tsv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


def test_quotes_are_plain_in_tsv(write):
    path = write('id\ttext\tlabel\r\n1\t"so ""good\t 1 \r\n2\tso, so\t0\n\n')
    assert read_table(path, id="id") == [
        Example((('"so', '""good'),), "1", "1"),
        Example((("so,", "so"),), "0", "2"),
    ]


def test_quotes_quote_in_csv(write):
    path = write('text,label\n"a, ""b""\nc",x\n\nd,y\n', "file.csv")
    assert read_table(path) == [Example((("a,", '"b"', "c"),), "x"), Example((("d",),), "y")]
    path = write('text,label\n"a,x\n', "file.csv")
    assert read_table(path, quotes=False) == [Example((('"a',),), "x")]
    path = write('text\tlabel\n"a\tb"\tx\n')
    assert read_table(path, quotes=True, split=list) == [Example((("a", "\t", "b"),), "x")]
    path = write("text;label\na;x\n")
    assert read_table(path, delimiter=";") == [Example((("a",),), "x")]


def test_fields_longer_than_csv_usually_takes(write):
    limit = csv.field_size_limit()
    path = write(f'text,label\n"{"a " * limit}",x\n', "file.csv")
    assert len(read_table(path)[0].words) == limit
    assert csv.field_size_limit() == limit


def test_rows_that_are_not_wanted(write):
    """Their texts are not looked at, and there may be no other."""
    path = write("text\tlabel\na\t x \n\ty\n")

    def has_label(label):
        return lambda cells, where: cells["label"] == label

    assert read_table(path, wanted=has_label("x")) == [Example((("a",),), "x")]
    assert read_table(path, wanted=has_label("z")) == []


def test_pairs_and_no_labels(write):
    path = write("label\tpremise\thypothesis\nyes\ta b\tc\n")
    found = read_table(path, text=["premise", "hypothesis"])
    assert found == [Example((("a", "b"), ("c",)), "yes")]
    assert read_table(path, text="premise", label=None)[0].target is None


def test_one_column(write):
    path = write("text\na b\n\nc\n")
    assert len(read_table(path, label=None, empty="skip")) == 2
    assert read_table(path, label=None, empty="keep")[1].words == (STAND_IN,)
    with pytest.raises(FormatError, match="line 3 has a text without words"):
        read_table(path, label=None)


@pytest.mark.parametrize("text", ["", "  ", "\u3000"])
def test_texts_without_words(write, text):
    path = write(f"text\tlabel\na\t1\n{text}\t0\n")
    with pytest.raises(
        FormatError, match=r"file.tsv, line 3 has a text without words; .*--empty keep"
    ):
        read_table(path)
    assert read_table(path, empty="keep")[1] == Example(((STAND_IN,),), "0")
    assert read_table(path, empty="skip") == [Example((("a",),), "1")]
    with pytest.raises(ConfigError, match="empty is 'drop'"):
        read_table(path, empty="drop")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("text\tlabel\na\n", {}, "line 2 has 1 columns, the header has 2: text, label"),
        ("text\tlabel\na\t1\t2\n", {}, "line 2 has 3 columns"),
        ("text\tlabel\na\t \n", {}, "line 2 has no label"),
        ("title\tlabel\na\t1\n", {}, "line 1 names no column 'text'; it has 'title', 'label'"),
        ("text\ttopic\na\t1\n", {}, "no column 'label'.* with --label$"),
        ("text\tlabel\na\t1\n", {"id": "guid"}, "no column 'guid'.* with id$"),
        ("text\ttext\tlabel\na\tb\t1\n", {}, "names 2 columns 'text'"),
        ("text\tlabel\n", {}, "holds no row below its header"),
        ("", {}, "names no column 'text'"),
        ('text\tlabel\n"a\t1\n', {"quotes": True}, "line 2 is no row of a table: .* written twice"),
        ('text\tlabel\n"a"b\t1\n', {"quotes": True}, "line 2 is no row of a table"),
    ],
)
def test_broken(write, text, options, message):
    with pytest.raises(FormatError, match=message):
        read_table(write(text), **options)


def test_a_delimiter_of_two(write):
    with pytest.raises(ConfigError, match="expected one character"):
        read_table(write("text\n"), delimiter="||")


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(FIELD, min_size=1))
def test_whatever_csv_writes_is_read(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("table") / "file.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((text, "x") for text in texts)])
    found = read_table(path, split=lambda text: [text])
    assert [example.words[0] for example in found] == texts
