"""Tests for reading records from text, JSON lines, CSV, TSV and Parquet files."""

import csv
import gzip
import io
import json
import sys
import unicodedata
from functools import partial
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from elmo.corpus import input_records, line_blocks
from elmo.corpus.input_records import InputFile
from elmo.errors import InputError

ROWS = [
    {"id": "1", "text": 'She said "no", twice', "label": "x"},
    {"id": "2", "text": "two\nlines", "label": ""},
    {"id": "3", "text": "é 日本語", "label": "y"},
]


def write(path, rows=ROWS):
    """Write rows in the format of the extension."""
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return str(path)
    stream = io.StringIO(newline="")
    if path.suffix == ".csv":
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    else:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(stream.getvalue().encode())
    return str(path)


def values(name, input_format=None, columns=None):
    return [dict(record.values) for record in InputFile(name, input_format).records(columns)]


def assert_error(call, *words):
    with pytest.raises(InputError) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("block_bytes", [1, 7, 2**22])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.txt", "t.parquet"])
def test_records_have_values_of_rows_with_any_block_size(tmp_path, monkeypatch, name, block_bytes):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", block_bytes)
    assert values(write(tmp_path / name)) == ROWS


def test_numbers_of_csv_records_are_their_last_lines(tmp_path):
    records = list(InputFile(write(tmp_path / "t.csv")).records())
    assert [record.number for record in records] == [2, 4, 5]
    assert records[1].location == f"{tmp_path}/t.csv: line 4"
    assert records[1].text("text") == "two\nlines"


def test_records_of_plain_text_are_lines(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\n\n{ b }\n")
    assert values(str(path), columns={"text": "--text-column"}) == [
        {"text": "a"},
        {"text": ""},
        {"text": "{ b }"},
    ]
    assert_error(
        lambda: values(str(path), columns={"id": "--id-column"}),
        "is read as plain text, which has no columns, but --id-column id is given",
        "--input-format csv, tsv or jsonl",
    )


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_json_lines_are_recognized_in_any_file_and_standard_input(tmp_path, monkeypatch, prefix):
    data = prefix + b'{"text": "a"}\n\n{"text": "b", "n": 1}\n'
    expected = [{"text": "a"}, {"text": "b", "n": 1}]
    (tmp_path / "dump.gz").write_bytes(gzip.compress(data))
    (tmp_path / "dump.log").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    for name in (f"{tmp_path}/dump.gz", f"{tmp_path}/dump.log", "-"):
        file = InputFile(name)
        assert file.format == "jsonl"
        assert [dict(record.values) for record in file.records()] == expected


def test_field_that_is_missing_after_the_first_json_record_is_null(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": 1, "text": "a"}\n{"text": "b"}\n{"id": 3}\n')
    required = {"id": "--id-column", "text": "--text-column"}
    found = values(str(path), columns=required)
    assert found == [{"id": 1, "text": "a"}, {"id": None, "text": "b"}, {"id": 3, "text": None}]
    path.write_text('{"text": "b"}\n{"id": 1, "text": "a"}\n')
    call = partial(values, str(path), columns=required)
    assert_error(call, "line 1 has no field 'id'", "write null")


def test_parquet_is_recognized_in_any_uncompressed_file(tmp_path, monkeypatch):
    name = write(tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "dump").write_bytes(data)
    (tmp_path / "dump.gz").write_bytes(gzip.compress(data))
    assert values(f"{tmp_path}/dump") == values(name) == ROWS
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    for source, label in ((f"{tmp_path}/dump.gz", "dump.gz"), ("-", "standard input")):
        assert_error(lambda source=source: values(source), label, "Parquet", "uncompressed")


def test_input_format_has_priority_over_name_and_content(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a"}\n')
    assert values(str(path), "text") == [{"text": '{"text": "a"}'}]
    assert values(str(path), "tsv") == []
    path = tmp_path / "t.txt"
    path.write_text("text\tn\na\t1\n")
    assert values(str(path), "tsv") == [{"text": "a", "n": "1"}]
    assert_error(lambda: values(str(path), "jsonl"), "t.txt: line 1 is not a JSON record")
    assert_error(lambda: values(str(path), "parquet"), "Cannot read", "t.txt")


def test_quotes_are_ordinary_characters_in_tsv(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text('text\tn\n"a\t1\n\n""b""\t2\n')
    assert values(str(path)) == [{"text": '"a', "n": "1"}, {"text": '""b""', "n": "2"}]


def test_blank_lines_of_csv_are_skipped_unless_there_is_one_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text, n\r\n\r\na,1\r\n")
    assert values(str(path)) == [{"text": "a", "n": "1"}]
    path.write_text("text\na\n\nb\n")
    assert [row["text"] for row in values(str(path))] == ["a", "", "b"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("\na,b\n", ["has no header", "CSV"]),
        ("body,n\na,1\n", ["header has no column 'text' (found: body, n)", "--text-column"]),
        ("text,text\na,b\n", ["header has 2 columns 'text'"]),
        ("text,n\na,1\nb\n", ["line 3: the row has 1 columns, but the header has 2: text, n"]),
        ('text,n\na,1\n"b\nc" d,2\n', ["starts in line 3 is not valid CSV", "doubled"]),
        ('text,n\na,1\n\n"b\nc,2\n', ["is not valid CSV", "quoted"]),
    ],
)
def test_invalid_csv_raises_error(tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_text(content)
    assert_error(lambda: values(str(path), columns={"text": "--text-column"}), str(path), *words)


@pytest.mark.parametrize(
    ("name", "header", "remedy"),
    [
        ("a.csv", "id;text", "separated by semicolons"),
        ("a.csv", "id\ttext", "use --input-format tsv"),
        ("a.tsv", "id,text", "use --input-format csv"),
        ("a.csv", "body", "Set --text-column to another column"),
    ],
)
def test_error_for_missing_column_names_the_separator_of_the_header(tmp_path, name, header, remedy):
    (tmp_path / name).write_text(f"{header}\n1\n")
    path = str(tmp_path / name)
    assert_error(lambda: values(path, columns={"text": "--text-column"}), remedy)


def test_unclosed_quote_is_found_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "MAX_LINE_BYTES", 2000)
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 100)
    limit = csv.field_size_limit()
    path = tmp_path / "t.csv"
    path.write_text('text\n"open\n' + "line\n" * 10_000)
    file = InputFile(str(path))
    assert_error(lambda: list(file.records()), "starts in line 2 is not valid CSV", "limit")
    assert file.n_read < 5000
    assert csv.field_size_limit() == limit


def test_csv_that_is_not_utf8_raises_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"text\na\nna\xefve\n")
    assert_error(lambda: values(str(path)), "is not UTF-8 in line 3")


def test_only_required_columns_of_parquet_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(input_records, "PARQUET_ROWS", 2)
    name = write(tmp_path / "t.parquet")
    columns = {"id": "--id-column", "text": "--text-column"}
    expected = [{key: row[key] for key in columns} for row in ROWS]
    file = InputFile(name)
    assert [dict(record.values) for record in file.records(columns)] == expected
    assert file.n_read == pytest.approx((tmp_path / "t.parquet").stat().st_size, abs=2)
    assert_error(lambda: values(name, columns={"x": "--columns"}), "no column 'x'", "--columns")


def test_text_of_record_is_checked(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": null, "b": 1, "c": "x\\ud800"}\n')
    (record,) = InputFile(str(path)).records()
    assert record.text("a") is None
    assert record.text("c") == "x?"
    assert_error(lambda: record.text("b"), "line 1: the value of 'b' must be a string (got int)")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_column_of_decomposed_characters_is_found_by_its_composed_name(tmp_path, suffix):
    decomposed = unicodedata.normalize("NFD", "리뷰")
    rows = [{"id": "1", decomposed: "one"}, {"id": "2", decomposed: "two"}]
    path = write(tmp_path / f"in.{suffix}", rows)
    records = list(InputFile(path).records({"리뷰": "--text-column"}))
    assert [record.values["리뷰"] for record in records] == ["one", "two"]
    ambiguous = write(tmp_path / f"two.{suffix}", [{"가\u1100": "1", "\u1100\u1161\u1100": "2"}])
    with pytest.raises(InputError, match="has no"):
        list(InputFile(ambiguous).records({"나": "--text-column"}))
