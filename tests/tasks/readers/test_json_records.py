"""JSON lines and lists of records."""

import json

import pytest

from elmo.errors import FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.json_records import read_jsonl


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


def test_lines(write):
    path = write("\n".join(map(json.dumps, RECORDS)) + "\n\n")
    assert read_jsonl(path) == EXAMPLES


@pytest.mark.parametrize("indent", [None, 4])
def test_a_list(write, indent):
    assert read_jsonl(write(json.dumps(RECORDS, indent=indent))) == EXAMPLES


def test_tags_pairs_and_names(write):
    path = write('{"words": ["a", "b"], "tags": ["O", "B-X"], "id": 3, "more": "c d"}')
    found = read_jsonl(path, text="words", label="tags", id="id")
    assert found == [Example((("a", "b"),), ("O", "B-X"), "3")]
    found = read_jsonl(path, text=("words", "more"), label=None, split=list)
    assert found == [Example((("a", "b"), ("c", " ", "d")))]


def test_a_record_without_a_name(write):
    path = write('{"text": "a", "label": 1, "id": 0}\n{"text": "b", "label": 1}\n')
    assert [example.id for example in read_jsonl(path, id="id")] == ["0", ""]


def test_records_that_are_not_wanted(write):
    """Their texts are not looked at, and there may be no other."""
    path = write('{"text": "a", "label": 1}\n{"text": "", "label": 2}\n')

    def has_label(label):
        return lambda record, where: record["label"] == label

    assert read_jsonl(path, wanted=has_label(1)) == [Example((("a",),), "1")]
    assert read_jsonl(path, wanted=has_label(3)) == []


def test_no_words(write):
    path = write('{"text": " ", "label": "x"}\n{"text": [], "label": "y"}\n')
    with pytest.raises(FormatError, match="line 1 has a text without words"):
        read_jsonl(path)
    assert [example.words for example in read_jsonl(path, empty="keep")] == [(".",), (".",)]
    with pytest.raises(FormatError, match="holds no record"):
        read_jsonl(path, empty="skip")


def test_halves_of_surrogate_pairs(write):
    path = write(r'{"text": "a\ud83d", "label": "x\udc00"}')
    assert read_jsonl(path) == [Example((("a?",),), "x?")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a", "label": 1}\n{"text":', "line 2 is no JSON record: .* at character"),
        ('[{"text": "a",\n "label": 1},\n {]', "file.jsonl, line 3 is no JSON list of records"),
        ("[" * 100_000, "is no JSON list of records"),
        ("3\n", "line 1 is a int; expected a record"),
        ("[3]", "file.jsonl, line 1, record 1 is a int; expected a record"),
        (json.dumps([{}, RECORDS[1], {"a": [1, "]"]}], indent=1), "line 2, record 1 has no field"),
        (json.dumps([*RECORDS, {"text": 3}], indent=1), "line 22, record 5: text is int; expected"),
        ('[{"text": "a",\n\n "label": 1} ,\r\n\n 3]', "line 5, record 2 is a int"),
        ('{"title": "a", "label": 1}', "line 1 has no field 'text'; it has 'title', 'label'"),
        ('{"text": "a"}', "no field 'label'.* with --label$"),
        ("{}", "no field 'text'; it has none"),
        ('{"text": 3, "label": 1}', "text is int; expected a string or a list of words"),
        ('{"text": ["a", 3], "label": 1}', "text is list; expected"),
        ('{"text": ["a", ""], "label": 1}', "text holds an empty word"),
        ('{"text": "a", "label": ""}', 'label is ""; expected a label'),
        ('{"text": "a", "label": 1}\n{"text": "b", "label": null}', "line 2: label is null; expec"),
        ('{"text": "a", "label": {"b": 1}}', 'label is {"b": 1}; expected a label'),
        ('{"text": "a", "label": ["X", 1]}', "expected a label or a list of tags"),
        ('{"text": "a b", "label": ["X"]}', "line 1 has 2 words and 1 tags"),
        ("", "holds no record"),
    ],
)
def test_broken(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_jsonl(write(text))
