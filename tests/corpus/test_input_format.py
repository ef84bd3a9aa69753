"""Tests for the recognition of input formats by name and content."""

import gzip
import json
import logging

import pyarrow
import pyarrow.parquet
import pytest

from elmo.corpus.input_format import SAMPLE_LINES, format_of_content, format_of_name, table_format

RECORD = b'{"text": "a b"}\n'


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.jsonl", "jsonl"),
        ("a.JSON.gz", "jsonl"),
        ("a.ndjson.zst", "jsonl"),
        ("a.csv", "csv"),
        ("a.tsv.XZ", "tsv"),
        ("a.parquet", "parquet"),
        ("a.txt", None),
        ("jsonl", None),
        ("-", None),
    ],
)
def test_format_of_name_follows_extension(name, expected):
    assert format_of_name(name) == expected


@pytest.mark.parametrize(
    "data",
    [
        RECORD,
        RECORD.removesuffix(b"\n"),
        b"\n  \n" + RECORD * 3,
        RECORD.replace(b"\n", b"\r\n") * 2,
        b'  {"id": 1, "nested": {"a": [1]}}  \n' + RECORD,
        # Only the beginning decides; a later damaged record is an error while reading.
        RECORD * SAMPLE_LINES + b"damaged\n",
    ],
)
def test_records_are_recognized_as_json_lines(data):
    assert format_of_content(data, "x") == "jsonl"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"plain text\n",
        b"{ the set of all x }\n",
        b"{}\n{}\n",
        b"{\n",
        b'{\n "text": "a"\n}\n',
        b"{'text': 'a'}\n",
        b"{1, 2, 3} is a set.\n",
        b'{"text": "a"} is a JSON record.\n',
        b'[{"text": "a"}]\n',
        b'"text"\n12\n',
        b"{" * 100_000 + b"\n",
        b"{\xff}\n",
        b"PAR1 is the magic number of Parquet files.\n",
        b"text,label\na,b\n",
        b"text\tlabel\na\tb\n",
    ],
)
def test_other_content_is_plain_text_without_warning(data, caplog):
    with caplog.at_level(logging.WARNING):
        assert format_of_content(data, "x") == "text"
    assert not caplog.records


def test_text_after_json_record_is_plain_text_with_warning(caplog):
    assert format_of_content(RECORD + b"\nThis record is an example.\n", "doc.txt") == "text"
    (message,) = caplog.messages
    assert "doc.txt starts with a JSON record, but line 3 is not one" in message
    assert "--input-format jsonl" in message


def test_parquet_is_recognized_by_its_first_bytes(tmp_path):
    for number, columns in enumerate([{"text": ["a"]}, {"text": pyarrow.array([], "string")}]):
        path = tmp_path / str(number)
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        assert format_of_content(path.read_bytes(), "x") == "parquet"


def test_python_json_dump_is_recognized():
    records = [{"text": "é", "n": None}, {"text": "{"}]
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    assert format_of_content(data, "x") == "jsonl"
    assert format_of_content(gzip.compress(data), "x") == "text"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"id,text\r\n1,A bank\r\n", "csv"),
        (b'id,text\n1,"A bank, and\nlines, lines, lines"\n', "csv"),
        (b'"id","full name",user_2\n1,a,b\n\n2,"c, d",e\n', "csv"),
        (b"id\tstars\n1\t5\n", "tsv"),
        ("번호,본문\n1,강가\n".encode(), "csv"),
        (b"", None),
        (b"id,stars\n", None),
        (b"text\nA bank\n", None),
        (b"Yes, sir\nNo, madam\n", None),
        (b"one,two\nthree\n", None),
        (b"a,a\nb,b\n", None),
        (b"1,000\n2,000\n", None),
        (b"He said , we go\nThey said , no\n", None),
        (b"a," * 100_000 + b"\n", None),
    ],
)
def test_table_format_of_text_follows_from_its_header_and_rows(data, expected):
    assert table_format(data) == expected
