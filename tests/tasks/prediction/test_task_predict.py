"""Tests of the commands `elmo task evaluate`, `elmo task predict` and `elmo task fit`."""

import csv
import io
import json
import shlex
import subprocess
import sys
import unicodedata
from dataclasses import replace

import pytest
from small_tasks import (
    LABELED,
    TAGGED,
    fabric,
    make_fitted_task,
    write_conll,
    write_elmo,
    write_jsonl,
)
from typer.testing import CliRunner

from elmo import cli
from elmo.tasks.fitted.fitted_task import FittedTask
from elmo.tasks.prediction import predict as predict_module
from elmo.tasks.tagging.spans import BIOES, IOB2, convert
from elmo.tasks.training.task_trainable import TaskTrainingJob

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def elmo():
    """Return a function that runs `elmo task` with the given arguments and standard input."""
    app = cli.application()
    return lambda *words, stdin=None: RUNNER.invoke(app, ["task", *map(str, words)], input=stdin)


def write_overfitted(folder, examples, steps, **settings):
    """Train a model until it overfits its examples, and save it."""
    fitted = make_fitted_task(folder, examples, **settings)
    trainable = TaskTrainingJob(fitted, examples, ()).make_trainable(fabric())
    for number, batch in zip(range(steps), trainable.batches(0), strict=False):
        trainable.step(batch, number)
    fitted.save(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return write_overfitted(tmp_path_factory.mktemp("classifier"), LABELED, 60)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    model = write_elmo(tmp_path_factory.mktemp("elmo"))
    return write_overfitted(
        tmp_path_factory.mktemp("tagger"), TAGGED, 70, task="tagging", model=model
    )


def failed(result, code, message):
    """Check that a command failed with the given exit code and a one-line error message."""
    assert result.exit_code == code
    assert result.stderr.startswith("elmo: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    return True


# ----------------------------------------------------------------------------------------- predict


def test_predict_labels_from_stdin_to_stdout(elmo, classifier):
    texts = [" ".join(example.words) for example in LABELED]
    result = elmo("predict", classifier, "-", "-", stdin="\n".join(texts) + "\n")
    assert result.exit_code == 0
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["words"] for record in records] == [text.split() for text in texts]
    assert [record["label"] for record in records] == [example.target for example in LABELED]
    for record in records:
        assert sum(record["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    # Standard output is the default.
    assert elmo("predict", classifier, "-", stdin="\n".join(texts)).stdout == result.stdout


def test_predict_tags_as_conll_and_jsonl(elmo, tagger, tmp_path):
    (tmp_path / "in.txt").write_text("\ufeffKim went to New0 York\r\nnobody\n", encoding="utf-8")
    result = elmo("predict", tagger, tmp_path / "in.txt", "-", "--to", "conll")
    assert result.stdout == (
        "Kim\tB-PER\nwent\tO\nto\tO\nNew0\tB-LOC\nYork\tI-LOC\n\nnobody\tO\n\n"
    )
    for name in ("out.conll", "out.bio", "out.jsonl"):
        done = elmo("predict", tagger, tmp_path / "in.txt", tmp_path / name)
        assert done.exit_code == 0
        assert done.stdout == f"{tmp_path / name}: predictions for 2 texts\n"
        written = (tmp_path / name).read_text(encoding="utf-8")
        if name == "out.jsonl":
            first = json.loads(written.splitlines()[0])
            assert first["tags"] == ["B-PER", "O", "O", "B-LOC", "I-LOC"]
            assert first["spans"][1] == {"text": "New0 York", "label": "LOC", "start": 3, "end": 5}
        else:
            assert written == result.stdout
    # Non-ASCII words are not escaped.
    assert "한국" in elmo("predict", tagger, "-", stdin="한국\n").stdout


def test_predict_reads_the_words_of_conll_files(elmo, tagger, classifier, tmp_path, caplog):
    texts = {
        "in.conll": "-DOCSTART- X O\n\nKim N O\nwent V O\n\nnobody N O\n",
        "words.iob": "Kim\nwent\n\nnobody\n",
        "in.conllu": "1\tKim\t_\t_\t_\t_\t_\t_\t_\t_\n2\twent\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
        "1\tnobody\t_\t_\t_\t_\t_\t_\t_\t_\n",
    }
    for name, content in texts.items():
        path = tmp_path / name
        path.write_text(content)
        result = elmo("predict", tagger, path)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        assert [record["words"] for record in records] == [["Kim", "went"], ["nobody"]]
        assert [record["tags"] for record in records] == [["B-PER", "O"], ["O"]]
    assert failed(elmo("predict", classifier, path), 2, "only supported for tagging")
    assert failed(elmo("predict", tagger, path, "--pretokenized"), 2, "has no effect")
    (tmp_path / "in.txt").write_text("Kim\n\nnobody\n.\n\n,\n")
    caplog.clear()
    result = elmo("predict", tagger, tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert result.stdout.endswith("predictions for 6 texts, 2 of them without words\n")
    assert "If the file has one word per line, its name must end in .conll." in caplog.text
    assert "--pretokenized" not in caplog.text


def test_predict_recognizes_a_conll_file_by_its_content(elmo, tagger, tmp_path, caplog):
    path = tmp_path / "test.txt"
    path.write_text("Kim B-PER\nwent O\n. O\n\nnobody O\n")
    result = elmo("predict", tagger, path, tmp_path / "out.conll")
    assert "test.txt has one word per line and is read as a CoNLL file" in result.stderr
    written = (tmp_path / "out.conll").read_text()
    assert [line.split("\t")[0] for line in written.split("\n")] == [
        *("Kim", "went", ".", "", "nobody", "", "")
    ]
    assert not caplog.messages
    assert failed(elmo("predict", tagger, path, "--pretokenized"), 2, "test.txt is a CoNLL file")
    # Other tags, or no blank line between sentences.
    for content in ("Kim saw\nLee ran\n\nBo left\n", "Kim O\nwent O\n"):
        path.write_text(content)
        result = elmo("predict", tagger, path)
        assert json.loads(result.stdout.splitlines()[0])["words"] == content.split()[:2]


@pytest.mark.parametrize(
    ("name", "limit", "is_full"),
    [
        ("MAX_TEXTS", 3, lambda sizes: len(sizes) == 3),
        # The last text of a batch exceeds the limit.
        ("MAX_WORDS", 7, lambda sizes: sum(sizes[:-1]) < 7 <= sum(sizes)),
    ],
)
def test_predict_limits_the_batch_size(elmo, classifier, monkeypatch, name, limit, is_full):
    texts = [" ".join(example.words) for example in LABELED]
    expected = elmo("predict", classifier, "-", stdin="\n".join(texts)).stdout.splitlines()
    batches = []

    def predict(self, batch, predict=FittedTask.predict):
        batches.append([len(example.words) for example in batch])
        return predict(self, batch)

    monkeypatch.setattr(FittedTask, "predict", predict)
    monkeypatch.setattr(predict_module, name, limit)
    lines = elmo("predict", classifier, "-", stdin="\n".join(texts)).stdout.splitlines()
    assert [json.loads(line)["label"] for line in lines] == [
        json.loads(line)["label"] for line in expected
    ]
    assert len(batches) > 2
    assert all(map(is_full, batches[:-1]))


def test_predict_writes_empty_output_for_empty_input(elmo, classifier, tmp_path):
    (tmp_path / "in.txt").touch()
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert result.stdout.endswith("out.jsonl: predictions for 0 texts\n")
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize("raw", [True, False])
def test_predict_tokenizes_text_whatever_the_training_data_were(elmo, tmp_path, raw):
    records = [{"text": f"a {w} film.", "label": w} for w in ("good", "bad") * 5]
    if not raw:
        records = [{**record, "text": record["text"].split()} for record in records]
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(record) + "\n" for record in records))
    settings = tmp_path / "my.yaml"
    settings.write_text(
        "examples: {tokenizer: english}\nelmo: {model: null}\nencoder: {hidden: 4}\n"
        "run: {accelerator: cpu, max_steps: 1}\n"
    )
    done = elmo("fit", settings, "--train", train, "--out", tmp_path / "run")
    assert done.exit_code == 0
    tokens, words = ["a", "fine", "film", "."], ["a", "fine", "film."]
    for flags, expected in ([], tokens), (["--pretokenized"], words):
        result = elmo("predict", tmp_path / "run", "-", *flags, stdin="a fine film.\n")
        assert json.loads(result.stdout)["words"] == expected


def test_predict_writes_an_empty_prediction_for_a_line_without_words(
    elmo, classifier, tagger, tmp_path, caplog
):
    (tmp_path / "in.txt").write_text("a fine film\n\n \t \nawful end\n")
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert result.stdout.endswith("predictions for 4 texts, 2 of them without words\n")
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["label"] for record in records] == ["good", None, None, "bad"]
    assert records[1] == {"words": [], "label": None, "probabilities": {}}
    assert "without words" not in caplog.text
    result = elmo("predict", classifier, tmp_path / "in.txt")
    assert result.stdout == (tmp_path / "out.jsonl").read_text()
    assert "2 of 4 texts without words: their predictions are empty." in caplog.text
    result = elmo("predict", tagger, "-", stdin="\nKim\n")
    assert json.loads(result.stdout.splitlines()[0]) == {"words": [], "tags": [], "spans": []}
    result = elmo("predict", tagger, "-", "--to", "conll", stdin="\nLee Kim\n")
    assert result.stdout == "\nLee\tB-PER\nKim\tI-PER\n\n"


def test_predict_reads_a_text_without_words_as_in_training(elmo, tmp_path):
    fitted = make_fitted_task(tmp_path, LABELED, empty="keep")
    fitted.save(tmp_path / "model")
    lines = elmo("predict", tmp_path / "model", "-", stdin="\n.\n").stdout.splitlines()
    empty, word = map(json.loads, lines)
    assert (empty["words"], word["words"]) == ([], ["."])
    assert empty["label"] == word["label"]
    assert empty["probabilities"] == pytest.approx(word["probabilities"], abs=1e-5)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"a\n\xff\n", "is not UTF-8: line 2, byte 1 of the line. Set --encoding")],
)
def test_predict_rejects_invalid_lines(elmo, classifier, tmp_path, data, message):
    (tmp_path / "in.txt").write_bytes(data)
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert failed(result, 1, message)
    assert "in.txt" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    result = elmo("predict", classifier, "-", "-", stdin=data)
    assert failed(result, 1, message)
    assert "standard input" in result.stderr


def test_predict_rejects_closed_stdin(classifier, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    config = predict_module.TaskPredictConfig(str(classifier), "-", "-")
    with pytest.raises(predict_module.InputError, match="Cannot read standard input: it is closed"):
        predict_module.predict(config)


def test_predict_rejects_missing_input_and_output_equal_to_input(elmo, classifier, tmp_path):
    result = elmo("predict", classifier, tmp_path / "none.txt", "-")
    assert failed(result, 1, "none.txt: No such file or directory")
    (tmp_path / "in.txt").write_text("a\n")
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "no" / "out.jsonl")
    assert failed(result, 1, "does not exist. Create it first")
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "." / "in.txt")
    assert failed(result, 2, "in.txt would overwrite the input file")
    assert (tmp_path / "in.txt").read_text() == "a\n"


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_predict_and_evaluate_reject_missing_model(elmo, command, tmp_path):
    message = f"There is no folder {tmp_path / 'none'}. Name a folder written by `elmo task fit`."
    assert failed(elmo(command, tmp_path / "none", "-"), 1, message)
    (tmp_path / "folder").mkdir()
    assert failed(elmo(command, tmp_path / "folder", "-"), 1, "folder is not a fitted task model")
    name = write_elmo(tmp_path / "elmo")
    assert failed(elmo(command, name, "-"), 1, "elmo is not a fitted task model")


def test_predict_rejects_conll_output_for_classifier(elmo, classifier, tmp_path):
    (tmp_path / "in.txt").write_text("a\n")
    for arguments in (["-", "--to", "conll"], [tmp_path / "out.conll"]):
        result = elmo("predict", classifier, tmp_path / "in.txt", *arguments)
        assert failed(
            result, 2, "is a model for classification. CoNLL output is only supported for tagging"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    result = elmo("predict", classifier, tmp_path / "in.txt", "-", "--to", "xml")
    assert failed(result, 2, "--to: expected one of auto, jsonl, conll, csv, tsv (got 'xml')")


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_predict_writes_labels_of_a_table_as_a_table(elmo, classifier, tmp_path, suffix):
    rows = [("7", 'a "fine",\nfilm', "x"), ("8", " ", "y"), ("9", "awful end", "z")]
    path = tmp_path / "in.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("key", "text", "other"), *rows])
    out = tmp_path / f"out.{suffix}"
    result = elmo("predict", classifier, path, out, "--id-column", "key")
    assert result.stdout == f"{out}: predictions for 3 texts, 1 of them without words\n"
    content = out.read_text(encoding="utf-8")
    if suffix == "csv":
        header, *written = csv.reader(io.StringIO(content, newline=""))
    else:
        header, *written = (line.split("\t") for line in content.splitlines())
    assert header == ["id", "text", "label", "confidence"]
    texts = [row[1] if suffix == "csv" else row[1].replace("\n", " ") for row in rows]
    assert [row[:2] for row in written] == [
        [key, text] for (key, *_), text in zip(rows, texts, strict=True)
    ]
    assert written[1][2:] == ["", ""]
    assert written[2][2] == "bad"
    assert 0.5 < float(written[2][3]) <= 1
    # The table has the labels of the JSON lines, which also contain the ids.
    lines = elmo("predict", classifier, path, "-", "--id-column", "key").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["id"] for record in records] == ["7", "8", "9"]
    assert [record["label"] or "" for record in records] == [row[2] for row in written]


def test_predict_writes_plain_text_and_json_lines_as_csv(elmo, classifier, tmp_path):
    result = elmo("predict", classifier, "-", "--to", "csv", stdin="fine film\n")
    assert result.stdout.startswith("text,label,confidence\nfine film,good,0.9")
    path = tmp_path / "in.jsonl"
    texts = ("fine film", None, ["fine", "film"])
    lines = [json.dumps({"text": text, "n": n}) + "\n" for n, text in enumerate(texts, start=3)]
    path.write_text("".join(lines))
    result = elmo("predict", classifier, path, "--to", "csv", "--id-column", "n")
    rows = list(csv.reader(result.stdout.splitlines()))
    assert [row[:3] for row in rows[1:]] == [
        ["3", "fine film", "good"],
        ["4", "", ""],
        ["5", "fine film", "good"],
    ]
    result = elmo("predict", classifier, path, "--id-column", "n")
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [3, 4, 5]


def test_predict_rejects_tables_of_tags_and_id_columns_of_plain_text(
    elmo, classifier, tagger, tmp_path
):
    (tmp_path / "in.txt").write_text("a\n")
    result = elmo("predict", tagger, tmp_path / "in.txt", tmp_path / "out.csv")
    message = "CSV output is only supported for classification, sentence_pairs, question_answering"
    assert failed(result, 2, message)
    assert "Use --to jsonl (.jsonl) or --to conll (.conll)." in result.stderr
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "out.xlsx")
    assert failed(result, 2, "Predictions cannot be written as .xlsx. Use the extension .jsonl")
    result = elmo("predict", classifier, tmp_path / "in.txt", "--id-column", "n")
    assert failed(result, 2, "--id-column has no effect")
    (tmp_path / "in.csv").write_text("label\na\n")
    words = ("--text-column", "label", "--to", "csv")
    result = elmo("predict", classifier, tmp_path / "in.csv", "-", *words)
    assert failed(result, 2, "The output would have two columns named 'label'")


# ---------------------------------------------------------------------------------------- evaluate


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_column_of_decomposed_characters_is_found_by_its_composed_name(elmo, tmp_path, suffix):
    model = make_fitted_task(tmp_path, LABELED, text_column="리뷰", label_column="라벨")
    model.save(tmp_path / "model")
    text, label = (unicodedata.normalize("NFD", name) for name in ("리뷰", "라벨"))
    separator = "," if suffix == "csv" else "\t"
    content = f"{text}{separator}{label}\na film{separator}good\n"
    if suffix == "jsonl":
        content = json.dumps({text: "a film", label: "good"})
    path = tmp_path / f"in.{suffix}"
    path.write_text(content, encoding="utf-8")
    predicted = elmo("predict", tmp_path / "model", path)
    assert json.loads(predicted.stdout)["words"] == ["a", "film"], predicted.stderr
    evaluated = elmo("evaluate", tmp_path / "model", path)
    assert evaluated.exit_code == 0, evaluated.stderr


@pytest.fixture(scope="module")
def cp949_classifier(tmp_path_factory):
    """A classifier whose training set was encoded in CP949."""
    folder = tmp_path_factory.mktemp("cp949")
    return write_overfitted(folder, LABELED, 1, encoding="cp949")


@pytest.mark.parametrize("name", ["new.csv", "new.txt"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp949"])
def test_encoding_of_a_file_is_not_that_of_the_training_set(
    elmo, cp949_classifier, tmp_path, name, encoding
):
    path = tmp_path / name
    header = "text,label\n" if name == "new.csv" else ""
    line = "좋은 영화" + (",good" if header else "")
    path.write_bytes(f"{header}{line}\n".encode(encoding))
    options = ["--encoding", "cp949"] if encoding == "cp949" else []
    result = elmo("predict", cp949_classifier, path, *options)
    assert json.loads(result.stdout)["words"] == ["좋은", "영화"], result.stderr
    if header:
        result = elmo("evaluate", cp949_classifier, path, *options)
        assert result.exit_code == 0, result.stderr
    if options:
        result = elmo("predict", cp949_classifier, path)
        assert "Set --encoding CP949, or convert it first (iconv -f CP949" in result.stderr


def test_evaluate_reports_rows_that_it_skips(elmo, classifier, tmp_path, caplog):
    path = tmp_path / "test.csv"
    path.write_text("text,label\nfine film,good\n ,bad\n,good\n")
    assert failed(elmo("evaluate", classifier, path), 1, "line 3: a text has no words")
    result = elmo("evaluate", classifier, path, "--empty", "skip", "--json")
    assert json.loads(result.stdout)["examples"] == 1
    assert f"{path}: skipped 2 rows with a text without words." in caplog.text
    result = elmo("evaluate", classifier, path, "--empty", "keep", "--json")
    assert json.loads(result.stdout)["examples"] == 3


def test_evaluate_prints_scores(elmo, classifier, tagger, tmp_path):
    path = write_jsonl(tmp_path / "test.jsonl", LABELED)
    shown = elmo("evaluate", classifier, path).stdout
    assert shown == (
        "accuracy        1.0000\nmacro f1        1.0000\nexamples        20\n\n"
        "label  precision  recall      F1   support\n"
        "bad       1.0000  1.0000  1.0000        10\n"
        "good      1.0000  1.0000  1.0000        10\n\n"
        "confusion matrix (rows: gold, columns: predicted)\n"
        "      bad  good\n"
        "bad    10     0\n"
        "good    0    10\n"
    )
    record = json.loads(elmo("evaluate", classifier, path, "--json").stdout)
    assert record["labels"]["bad"]["support"] == 10
    assert record["confusion_matrix"] == {"bad": {"bad": 10}, "good": {"good": 10}}
    path = write_conll(tmp_path / "test.txt", TAGGED)
    scores = json.loads(elmo("evaluate", tagger, path, "--json", "--device", "cpu").stdout)
    names = ["accuracy", "span_precision", "span_recall", "span_f1"]
    assert {name: scores[name] for name in names} == dict.fromkeys(names, 1.0)
    assert scores["examples"] == 20
    assert set(scores["labels"]) == {"LOC", "PER"}
    assert scores["confusion_matrix"] == {"LOC": {"LOC": 15}, "PER": {"PER": 10}}


def test_evaluate_shows_progress(elmo, classifier, tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)
    result = elmo("evaluate", classifier, write_jsonl(tmp_path / "test.jsonl", LABELED))
    assert "predict: 20 of 20 examples, about 0 s left" in result.stderr


def test_evaluate_rejects_examples_of_another_task(elmo, classifier, tagger, tmp_path):
    labels = write_jsonl(tmp_path / "labels.jsonl", LABELED)
    tags = write_conll(tmp_path / "tags.txt", TAGGED)
    assert failed(elmo("evaluate", classifier, tags), 1, "expected a label")
    assert failed(elmo("evaluate", tagger, labels), 1, "expected one tag per word")
    result = elmo("evaluate", tagger, tags, "--device", "nowhere")
    assert failed(result, 2, "Device 'nowhere' is not available")


# --------------------------------------------------------------------------------------------- fit


def test_fit_evaluate_and_predict_commands_work_together(elmo, tmp_path):
    settings = tmp_path / "my.yaml"
    settings.write_text(
        "task: tagging\nelmo: {model: null}\nencoder: {hidden: 4}\nrun: {accelerator: cpu}\n"
    )
    train = write_conll(tmp_path / "train.txt", TAGGED)
    flags = ["--train", train, "--test", train, "--out", tmp_path / "run", "--max-steps", "3"]
    result = elmo("fit", settings, *flags)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"model: {tmp_path / 'run' / 'model'}"
    shown = elmo("evaluate", tmp_path / "run", train)
    assert "span f1" in shown.stdout
    prediction = elmo("predict", tmp_path / "run", "-", stdin="Kim\n")
    assert json.loads(prediction.stdout)["words"] == ["Kim"]


def test_fit_rejects_invalid_arguments(elmo, tmp_path):
    assert failed(elmo("fit", "no-such", "--out", "x"), 2, "presets: classification, ")
    assert failed(elmo("fit", "conll2003"), 2, "--out is required")
    assert failed(
        elmo("fit", "sst5", "--model", "none", "--out", tmp_path / "x"), 2, "with --train"
    )
    assert elmo("fit").exit_code == 2
    assert "fit" in elmo("--help").output


def test_predictions_before_an_invalid_line_are_printed(elmo, classifier):
    result = elmo("predict", classifier, "-", stdin=b"a fine film\nawful end\n\xff\n")
    assert result.exit_code == 1
    assert "standard input is not UTF-8: line 3" in result.stderr
    assert [json.loads(line)["label"] for line in result.stdout.splitlines()] == ["good", "bad"]


def test_predict_to_closed_pipe_prints_no_error(classifier):
    command = [sys.executable, "-m", "elmo", "task", "predict", str(classifier), "-", "-"]
    texts = "a fine film\n" * 5000
    done = subprocess.run(
        f"{shlex.join(command)} | head -n 1",
        shell=True,
        input=texts,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["label"] == "good"
    assert done.stderr == ""


def test_evaluate_converts_gold_tags_in_another_scheme(elmo, tagger, tmp_path):
    expected = elmo("evaluate", tagger, write_conll(tmp_path / "own.txt", TAGGED), "--json")
    converted = [replace(e, target=tuple(convert(e.target, IOB2, BIOES))) for e in TAGGED]
    scores = elmo("evaluate", tagger, write_conll(tmp_path / "other.txt", converted), "--json")
    assert json.loads(scores.stdout) == json.loads(expected.stdout)


@pytest.mark.parametrize("model", ["classifier", "tagger"])
def test_config_and_weights_files_have_the_same_permissions(request, model):
    folder = request.getfixturevalue(model)
    weights, config = (folder / name for name in ("model.safetensors", "config.json"))
    assert weights.stat().st_mode == config.stat().st_mode
