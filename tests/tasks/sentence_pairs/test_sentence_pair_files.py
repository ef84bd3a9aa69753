"""Tests for the sentence pair reader: SNLI, MultiNLI, SICK and KLUE-NLI."""

import json

import pytest

from elmo.errors import ConfigError, FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.reading.readers import read
from elmo.tasks.sentence_pairs.sentence_pair_files import read_pairs


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.txt"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


SNLI = [
    {"gold_label": "neutral", "pairID": "1e", "sentence1": "A man.", "sentence2": "He eats ."},
    {"gold_label": "-", "pairID": "2e", "sentence1": "A man.", "sentence2": "He ?"},
    {"gold_label": "entailment", "pairID": "3e", "sentence1": "A man.", "sentence2": "One man."},
]
EXPECTED = [
    Example((("A", "man."), ("He", "eats", ".")), "neutral", "1e"),
    Example((("A", "man."), ("One", "man.")), "entailment", "3e"),
]


def test_read_pairs_reads_snli_json_lines(write):
    path = write("".join(json.dumps(record) + "\n" for record in SNLI), "snli.jsonl")
    assert read_pairs(path) == read(path, "sentence_pairs") == EXPECTED


def test_read_pairs_reads_snli_table(write):
    rows = ["\t".join(SNLI[0]), *("\t".join(record.values()) for record in SNLI)]
    assert read_pairs(write("\n".join(rows) + "\n")) == EXPECTED


def test_read_pairs_reads_klue_nli(write):
    records = [{"guid": "k-1", "premise": "가 나", "hypothesis": "다", "gold_label": "neutral"}]
    path = write(json.dumps(records, ensure_ascii=False, indent=4), "klue.json")
    expected = [Example((("가", " ", "나"), ("다",)), "neutral", "k-1")]
    assert read_pairs(path, split=list) == expected


def test_read_pairs_reads_sick_semeval_release(write):
    path = write(
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "7\tA b\tB a\t4.5\tNEUTRAL\n"
    )
    assert read_pairs(path) == [Example((("A", "b"), ("B", "a")), "NEUTRAL", "7")]


def test_read_pairs_reads_explicitly_named_columns(write):
    expected = [Example((("a", "b"), ("c",)), "yes")]
    named = {"text": ("one", "two"), "label": "same"}
    assert read_pairs(write("one\ttwo\tsame\na b\tc\tyes\n"), **named) == expected
    assert read_pairs(write('one,two,same\n"a b",c,yes\n', "file.csv"), **named) == expected
    record = {"one": "a b", "two": "c", "same": "yes", "label": "no"}
    path = write(json.dumps(record), "file.jsonl")
    assert read_pairs(path, **named) == expected
    assert read_pairs(path, text=["one", "two"])[0].target == "no"
    # Known text columns, and an explicit label column.
    path = write("premise\thypothesis\tsame\na b\tc\tyes\n")
    assert read_pairs(path, label="same") == expected


def test_read_pairs_rejects_missing_or_wrong_columns(write):
    path = write("one\ttwo\tsame\na\tb\tyes\n")
    with pytest.raises(
        FormatError, match=r"columns for a text pair .* with --text-column first,second"
    ):
        read_pairs(path, text=("one", "two"))
    with pytest.raises(FormatError, match=r"no column 'three'. .* Choose one with --text"):
        read_pairs(path, text=("one", "three"), label="same")
    for text in ("one", ("one",), ("one", "two", "same")):
        with pytest.raises(
            ConfigError,
            match=r"text_column must name two columns, such as --text-column premise,hy",
        ):
            read_pairs(path, text=text, label="same")


def test_read_pairs_skips_pair_without_majority_label_before_checking_it(write):
    records = [SNLI[0], SNLI[1] | {"sentence2": " "}, SNLI[1] | {"sentence1": None}, SNLI[2]]
    assert read_pairs(write("\n".join(map(json.dumps, records)))) == EXPECTED
    rows = ["gold_label\tpairID\tsentence1\tsentence2", "-\t2e\tA man.\t"]
    rows += ["\t".join(record.values()) for record in (SNLI[0], SNLI[2])]
    assert read_pairs(write("\n".join(rows))) == EXPECTED


def test_read_pairs_accepts_pair_without_id(write):
    without_id = {name: value for name, value in SNLI[2].items() if name != "pairID"}
    for second in (without_id, without_id | {"pairID": None}):
        examples = read_pairs(write("\n".join(map(json.dumps, [SNLI[0], second]))))
        assert [example.id for example in examples] == ["1e", ""]


@pytest.mark.parametrize(
    ("texts", "label"),
    [
        ("sentence1,sentence2", "gold_label"),
        ("premise,hypothesis", "gold_label"),
        ("sentence_A,sentence_B", "entailment_judgment"),
        ("sentence_A,sentence_B", "entailment_label"),
    ],
)
def test_read_pairs_rejects_unknown_label_in_known_data_set(write, texts, label):
    first, second = texts.split(",")
    labels = ["Entailment", "CONTRADICTION", "neutral", "entailmnt"]
    table = [f"{first}\t{second}\t{label}", *(f"a\tb\t{each}" for each in labels)]
    records = [json.dumps({first: "a", second: "b", label: each}) for each in labels]
    message = (
        f"line {{}}: unknown {label} 'entailmnt'. Expected one of: "
        "entailment, contradiction, neutral, or -"
    )
    for line, lines in ((5, table), (4, records)):
        examples = read_pairs(write("\n".join(lines[:-1])))
        assert [example.target for example in examples] == labels[:-1]
        path = write("\n".join(lines))
        with pytest.raises(FormatError, match=message.format(line)):
            read_pairs(path)
        # With explicit columns any labels are accepted.
        assert [each.target for each in read_pairs(path, label=label)] == labels
        assert [each.target for each in read_pairs(path, text=(first, second))] == labels


def test_read_pairs_accepts_any_labels_in_column_named_label(write):
    path = write("sentence1\tsentence2\tlabel\na\tb\tnot_entailment\n")
    assert read_pairs(path)[0].target == "not_entailment"
    path = write('{"premise": "a", "hypothesis": "b", "label": 2}')
    assert read_pairs(path)[0].target == "2"


WHOLE_SICK = (
    "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
    "1\ta\tb\tNEUTRAL\t3\tTRAIN\n2\tc\td\tENTAILMENT\t5\tTRIAL\n3\te\tf\tNEUTRAL\t1\tTEST\n"
)


def test_read_pairs_selects_parts_of_sick(write):
    path = write(WHOLE_SICK, "SICK.txt")
    assert [example.id for example in read_pairs(path)] == ["1", "2", "3"]
    for part, name in (("train", "1"), ("dev", "2"), ("test", "3")):
        assert [example.id for example in read_pairs(path / part)] == [name]


@pytest.mark.parametrize(
    ("text", "part", "message"),
    [
        ("a\tb\n1\t2\n", "", "line 1: columns for a text pair .* are: a, b. Expected"),
        ("premise\thypothesis\na\tb\n", "", "columns for a text pair"),
        ('{"premise": "a", "label": "x"}\n', "", "The columns are: premise, label. Expected"),
        ("", "", "columns for a text pair"),
        ("[]", "", "columns for a text pair"),
        ('{"premise":', "", "line 1: not a JSON record"),
        ("label\tpremise\thypothesis\n-\ta\tb\n", "", "contains no labeled pairs"),
        (
            "label\tpremise\thypothesis\nx\ta\n",
            "",
            "line 2: the row has 2 columns, but the header has 3",
        ),
        ("label\tpremise\thypothesis\nx\ta\t \n", "", "line 2: a text has no words"),
        (
            "label\tpremise\thypothesis\nx\ta\tb\n",
            "train",
            "cannot select the part 'train', .* no column Sem",
        ),
        (
            WHOLE_SICK.replace("TRIAL", "TEST"),
            "dev",
            "contains no labeled pairs for the part 'dev'",
        ),
        (
            json.dumps(SNLI[0] | {"gold_label": 2}),
            "",
            "line 1: unknown gold_label '2'. Expected one of: en",
        ),
        (
            json.dumps(SNLI[0] | {"gold_label": ["a", "b"]}),
            "",
            "line 1: gold_label has 2 values; expected one label",
        ),
        (
            json.dumps([{"premise": "a", "hypothesis": "b", "label": ["x"]}], indent=1),
            "",
            "line 2, record 1: label has 1 values; expected one label",
        ),
        (
            json.dumps(SNLI[0] | {"gold_label": None}),
            "",
            "line 1: the field 'gold_label' is null",
        ),
        (
            "gold_label\tpremise\thypothesis\n\ta\tb\n",
            "",
            "line 2: the column 'gold_label' is empty",
        ),
        ("gold_label\tpremise\thypothesis\n-\ta\tb\n", "", "contains no labeled pairs"),
    ],
)
def test_read_pairs_rejects_invalid_file(write, text, part, message):
    path = write(text)
    with pytest.raises(FormatError, match=message):
        read_pairs(path / part if part else path)
