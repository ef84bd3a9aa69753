"""Tests of `elmo task fit TASK` on data of the user, without a config file."""

import csv
import json

import pytest
from typer.testing import CliRunner

from elmo import cli
from elmo.config.serialization import load_config, presets
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_presets import task_presets
from elmo.tasks.registry.task_rows import TASKS, synonyms

RUNNER = CliRunner()
QUICK = "--model none --hidden 8 --character-dim 4 --character-filters [[1,4]] --epochs 2".split()
REVIEWS = [
    (number, f"a {word} film,\nreally", stars)
    for number in range(10)
    for word, stars in (("great", 5), ("dull", 1))
]
SENTENCES = [(["Kim", "left"], ["B-PER", "O"]), (["in", "Seoul"], ["O", "B-LOC"])] * 6
PASSAGE = "Kim left, and Lee came."


@pytest.fixture(scope="module")
def elmo():
    """Return a function that runs `elmo task` with the given arguments and standard input."""
    app = cli.application()
    return lambda *words, stdin=None: RUNNER.invoke(app, ["task", *map(str, words)], input=stdin)


def write_rows(path, header, rows, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


def write_records(path, header, rows):
    path.write_text("".join(json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows))
    return path


def write_reviews(path):
    return write_rows(path, ("id", "review", "stars"), REVIEWS)


def fitted(elmo, tmp_path, *words):
    result = elmo("fit", *words, "--out", tmp_path / "run", *QUICK)
    assert result.exit_code == 0, result.output
    return tmp_path / "run"


def fit_error(elmo, tmp_path, *words):
    result = elmo("fit", *words, "--out", tmp_path / "run", *QUICK)
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("elmo: ")
    return result.stderr


@pytest.mark.parametrize("name", list(TASKS))
def test_name_of_every_task_is_a_preset(name):
    for spelling in (name, name.replace("_", "-")):
        config = load_config(TaskConfig, spelling, {"out": "x"}, task_presets())
        assert config.task == name
        assert config.examples.reader == "auto"


@pytest.mark.parametrize(
    ("name", "task"), [("ner", "tagging"), ("NLI", "sentence-pairs"), ("qa", "question-answering")]
)
def test_everyday_name_of_a_task_suggests_the_task(elmo, name, task):
    result = elmo("fit", name, "--out", "x")
    assert result.exit_code == 2
    assert f"There is no preset or file named {name}. Use {task}." in result.stderr


def test_suggested_tasks_exist():
    assert set(synonyms().values()) <= task_presets().keys()
    assert not synonyms().keys() & (task_presets() | presets("tasks")).keys()


def test_classification_of_csv_with_quoted_newlines_and_numeric_labels(elmo, tmp_path):
    path = write_reviews(tmp_path / "my.csv")
    columns = ("--text-column", "review", "--label-column", "stars")
    run = fitted(elmo, tmp_path, "classification", "--train", path, *columns)
    record = json.loads((run / "model" / "config.json").read_text())
    assert record["labels"] == ["1", "5"]
    result = elmo("evaluate", run, path, "--json")
    assert json.loads(result.stdout)["examples"] == len(REVIEWS)
    other = write_rows(tmp_path / "other.csv", ("text", "y"), [row[1:] for row in REVIEWS])
    result = elmo("evaluate", run, other, "--text-column", "text", "--label-column", "y", "--json")
    assert json.loads(result.stdout)["examples"] == len(REVIEWS)


def test_predict_reads_tables_with_the_columns_of_the_training_set(elmo, tmp_path):
    path = write_reviews(tmp_path / "my.csv")
    columns = ("--text-column", "review", "--label-column", "stars")
    run = fitted(elmo, tmp_path, "classification", "--train", path, *columns)
    (tmp_path / "plain.txt").write_text(
        "".join(text.replace("\n", " ") + "\n" for _, text, _ in REVIEWS)
    )
    expected = elmo("predict", run, tmp_path / "plain.txt").stdout
    assert expected.count("\n") == len(REVIEWS)
    assert elmo("predict", run, path).stdout == expected
    header = ("id", "review", "stars")
    assert elmo("predict", run, write_records(tmp_path / "my.jsonl", header, REVIEWS)).stdout == (
        expected
    )
    other = write_rows(tmp_path / "other.csv", ("words",), [row[1:2] for row in REVIEWS])
    assert elmo("predict", run, other, "--text-column", "words").stdout == expected
    message = elmo("predict", run, other).stderr
    assert "no column 'review'. The columns are: 'words'" in message
    message = elmo("predict", run, tmp_path / "plain.txt", "--text-column", "x").stderr
    assert "--text-column has no effect" in message
    # A file with tabs is a table only if its header names the column.
    (tmp_path / "my.tsv").write_text("review\tid\na film\t1\n")
    (tmp_path / "lines.tsv").write_text("a film\t1\n")
    assert elmo("predict", run, tmp_path / "my.tsv").stdout.count("\n") == 1
    assert json.loads(elmo("predict", run, tmp_path / "lines.tsv").stdout)["words"][-1] == "1"
    empty = write_rows(tmp_path / "empty.csv", header, [(1, "a", 2), (2, " ", 3)])
    assert json.loads(elmo("predict", run, empty).stdout.splitlines()[1])["label"] is None


@pytest.mark.parametrize("suffix", ["jsonl", "txt", "tsv"])
def test_classification_of_json_lines_and_tsv_with_default_columns(elmo, tmp_path, suffix):
    rows = [(text.replace("\n", " "), stars) for _, text, stars in REVIEWS]
    path, header = tmp_path / f"my.{suffix}", ("text", "label")
    if suffix == "tsv":
        path.write_text("".join(f"{text}\t{label}\n" for text, label in [header, *rows]))
    else:
        write_records(path, header, rows)
    fitted(elmo, tmp_path, "classification", "--train", path)


@pytest.mark.parametrize("fields", [("words", "tags"), ("tokens", "ner_tags"), None])
def test_tagging_of_json_lines_and_columns(elmo, tmp_path, fields):
    path = tmp_path / ("my.jsonl" if fields else "my.tsv")
    if fields:
        write_records(path, fields, SENTENCES)
    else:
        lines = ["".join(f"{w}\t{t}\n" for w, t in zip(*pair, strict=True)) for pair in SENTENCES]
        path.write_text("\n".join(lines))
    run = fitted(elmo, tmp_path, "tagging", "--train", path)
    scores = json.loads(elmo("evaluate", run, path, "--json").stdout)
    assert "span_f1" in scores


def test_sentence_pairs_from_two_columns(elmo, tmp_path):
    rows = [("a man sleeps", "he is asleep", 1), ("a man sleeps", "nobody sleeps", 0)] * 6
    path = write_rows(tmp_path / "my.csv", ("left", "right", "same"), rows)
    columns = ("--text-column", "left,right", "--label-column", "same")
    fitted(elmo, tmp_path, "sentence_pairs", "--train", path, *columns)
    assert "must name two columns" in fit_error(
        elmo, tmp_path / "b", "sentence-pairs", "--train", path, "--text-column", "left"
    )


def test_question_answering_from_columns(elmo, tmp_path):
    rows = [("Who left?", PASSAGE, "Kim"), ("Who came?", PASSAGE, "Lee")] * 6
    path = write_rows(tmp_path / "my.csv", ("question", "context", "answer"), rows)
    run = fitted(elmo, tmp_path, "question-answering", "--train", path)
    assert elmo("predict", run, path).stdout.count("\n") == len(rows)
    result = elmo("predict", run, path, "-", "--to", "tsv")
    header, first, *_ = result.stdout.splitlines()
    assert header.split("\t") == ["question", "context", "answer", "start", "end", "score"]
    question, context, answer, start, end, _ = first.split("\t")
    assert (question, context) == ("Who left?", PASSAGE)
    assert context[int(start) : int(end)] == answer
    (record,) = map(json.loads, elmo("predict", run, "-", stdin="\n").stdout.splitlines())
    assert record == {"question": "", "answer": "", "start": None, "end": None, "score": 0.0}


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        (None, ("--text-column", "reveiw"), "no column 'reveiw'. Did you mean review? The columns"),
        (
            [(1, "a", 5), (2, "b", "")],
            ("--text-column", "review", "--label-column", "stars"),
            "my.csv, line 3: the column 'stars' is empty",
        ),
        (
            [(1, "a", 5), (2, "", 4)],
            ("--text-column", "review", "--label-column", "stars"),
            "my.csv, line 3: a text has no words",
        ),
        (
            [(1, "a", 5), (2, "b", 5), (3, "c", 5)],
            ("--text-column", "review", "--label-column", "stars"),
            "All training examples have the label '5'",
        ),
    ],
)
def test_errors_in_own_data_are_reported_in_one_line(elmo, tmp_path, rows, words, message):
    path = write_rows(tmp_path / "my.csv", ("id", "review", "stars"), rows or REVIEWS)
    assert message in fit_error(elmo, tmp_path, "classification", "--train", path, *words)


def test_unknown_task_lists_tasks_and_data_sets_with_a_suggestion(elmo, tmp_path):
    message = fit_error(elmo, tmp_path, "clasification", "--train", "x.csv")
    assert "clasification does not exist. Did you mean classification?" in message
    assert "tagging" in message
    assert "conll2003" in message
