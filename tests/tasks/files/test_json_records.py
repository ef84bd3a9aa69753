"""Tests for the reader of JSON lines and JSON lists."""

import json

import pytest

from elmo.errors import FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.files.json_records import read_jsonl


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "file.jsonl"
        path.write_text(text, encoding="utf-8")
        return path

    return write


RECORDS = [
    {"text": "a  b", "label": "x", "n": 7},
    {"text": ["c", "d e"], "label": 1},
    {"text": "한국", "label": 0.5},
    {"text": "f", "label": True},
]
EXAMPLES = [
    Example((("a", "b"),), "x"),
    Example((("c", "d e"),), "1"),
    Example((("한국",),), "0.5"),
    Example((("f",),), "true"),
]


def test_read_jsonl_reads_one_record_per_line(write):
    path = write("\n".join(map(json.dumps, RECORDS)) + "\n\n")
    assert read_jsonl(path) == EXAMPLES


@pytest.mark.parametrize("indent", [None, 4])
def test_read_jsonl_reads_list_of_records(write, indent):
    assert read_jsonl(write(json.dumps(RECORDS, indent=indent))) == EXAMPLES


def test_read_jsonl_reads_tags_several_texts_and_ids(write):
    path = write('{"words": ["a", "b"], "tags": ["O", "B-X"], "id": 3, "more": "c d"}')
    examples = read_jsonl(path, text="words", label="tags", id="id")
    assert examples == [Example((("a", "b"),), ("O", "B-X"), "3")]
    examples = read_jsonl(path, text=("words", "more"), label=None, split=list)
    assert examples == [Example((("a", "b"), ("c", " ", "d")))]


def test_read_jsonl_accepts_record_without_id(write):
    path = write('{"text": "a", "label": 1, "id": 0}\n{"text": "b", "label": 1}\n')
    assert [example.id for example in read_jsonl(path, id="id")] == ["0", ""]


def test_read_jsonl_skips_filtered_records_before_checking_them(write):
    path = write('{"text": "a", "label": 1}\n{"text": "", "label": 2}\n')

    def has_label(label):
        return lambda record, location: record["label"] == label

    assert read_jsonl(path, row_filter=has_label(1)) == [Example((("a",),), "1")]
    assert read_jsonl(path, row_filter=has_label(3)) == []


def test_read_jsonl_handles_empty_text_as_configured(write):
    path = write('{"text": " ", "label": "x"}\n{"text": [], "label": "y"}\n')
    with pytest.raises(FormatError, match="line 1: a text has no words"):
        read_jsonl(path)
    assert [example.words for example in read_jsonl(path, empty="keep")] == [(".",), (".",)]
    with pytest.raises(FormatError, match="contains no records"):
        read_jsonl(path, empty="skip")


def test_read_jsonl_replaces_lone_surrogates(write):
    path = write(r'{"text": "a\ud83d", "label": "x\udc00"}')
    assert read_jsonl(path) == [Example((("a?",),), "x?")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a", "label": 1}\n{"text":', "line 2: not a JSON record: .* at character"),
        ('[{"text": "a",\n "label": 1},\n {]', "file.jsonl, line 3: not a JSON list of records"),
        ("[" * 100_000, "not a JSON list of records"),
        ("3\n", r"line 1: expected a JSON object with fields \(got int\)"),
        ("[3]", "file.jsonl, line 1, record 1: expected a JSON object with fields"),
        (
            json.dumps([{}, RECORDS[1], {"a": [1, "]"]}], indent=1),
            "line 2, record 1: there is no field",
        ),
        (
            json.dumps([*RECORDS, {"text": 3}], indent=1),
            "line 22, record 5: the field 'text' must be",
        ),
        ('[{"text": "a",\n\n "label": 1} ,\r\n\n 3]', "line 5, record 2: expected a JSON object"),
        (
            '{"title": "a", "label": 1}',
            "line 1: there is no field 'text'. The fields are: 'title', 'lab",
        ),
        ('{"text": "a"}', "no field 'label'.* with --label-column.$"),
        ("{}", "no field 'text'. The fields are: none"),
        ('{"text": 3, "label": 1}', r"'text' must be a string or a list of words \(got int\)"),
        ('{"text": ["a", 3], "label": 1}', r"must be a string or a list of words \(got list\)"),
        ('{"text": ["a", ""], "label": 1}', "the field 'text' contains an empty word"),
        ('{"text": "a", "label": ""}', r"'label' must be a label or a list of tags \(got \"\"\)"),
        (
            '{"text": "a", "label": 1}\n{"text": "b", "label": null}',
            "line 2: the field 'label' is null",
        ),
        ('{"text": "a", "label": {"b": 1}}', r'must be a label or a list of tags \(got {"b": 1}\)'),
        ('{"text": "a", "label": ["X", 1]}', "must be a label or a list of tags"),
        ('{"text": "a b", "label": ["X"]}', "line 1: the record has 2 words but 1 tags"),
        ("", "contains no records"),
    ],
)
def test_read_jsonl_rejects_invalid_file(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_jsonl(write(text))


def test_read_jsonl_accepts_integer_tags_and_suggests_a_field(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": ["a", "b"], "label": [0, 1]}\n')
    assert read_jsonl(path)[0].target == ("0", "1")
    with pytest.raises(FormatError, match=r"no field 'lable'\. Did you mean label\?"):
        read_jsonl(path, label="lable")
