"""The verbs `elmo task evaluate` and `elmo task predict`, and `elmo task fit` as it is typed."""

import json
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from small_tasks import (
    LABELLED,
    TAGGED,
    fabric,
    make_trained,
    write_conll,
    write_elmo,
    write_jsonl,
)
from typer.testing import CliRunner

from elmo import cli
from elmo.tasks import predict as predict_module
from elmo.tasks.fitted_task import FittedTask
from elmo.tasks.spans import BIOES, IOB2, convert
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.train import loop

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def elmo():
    """Run `elmo task` with some words, and text on its standard input."""
    app = cli.application()
    return lambda *words, given=None: RUNNER.invoke(app, ["task", *map(str, words)], input=given)


def taught(folder, examples, steps, **settings):
    """Write a model that has learned its examples."""
    trained = make_trained(folder, examples, **settings)
    work = TaskTrainingJob(trained, examples, ()).make_trainable(fabric())
    for number, batch in zip(range(steps), work.batches(0), strict=False):
        work.step(batch, number)
    trained.save(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return taught(tmp_path_factory.mktemp("classifier"), LABELLED, 60)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    model = write_elmo(tmp_path_factory.mktemp("elmo"))
    return taught(tmp_path_factory.mktemp("tagger"), TAGGED, 70, task="tagging", model=model)


def failed(result, code, message):
    """One line on standard error, and nothing else."""
    assert result.exit_code == code
    assert result.stderr.startswith("elmo: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    return True


# ----------------------------------------------------------------------------------------- predict


def test_labels_from_standard_input_to_standard_output(elmo, classifier):
    texts = [" ".join(example.words) for example in LABELLED]
    result = elmo("predict", classifier, "-", "-", given="\n".join(texts) + "\n")
    assert result.exit_code == 0
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["words"] for record in records] == [text.split() for text in texts]
    assert [record["label"] for record in records] == [example.target for example in LABELLED]
    for record in records:
        assert sum(record["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    # The output need not be named.
    assert elmo("predict", classifier, "-", given="\n".join(texts)).stdout == result.stdout


def test_tags_in_columns(elmo, tagger, tmp_path):
    (tmp_path / "in.txt").write_text("\ufeffKim went to New0 York\r\nnobody\n", encoding="utf-8")
    result = elmo("predict", tagger, tmp_path / "in.txt", "-", "--to", "conll")
    assert result.stdout == (
        "Kim\tB-PER\nwent\tO\nto\tO\nNew0\tB-LOC\nYork\tI-LOC\n\nnobody\tO\n\n"
    )
    for name in ("out.conll", "out.bio", "out.jsonl"):
        done = elmo("predict", tagger, tmp_path / "in.txt", tmp_path / name)
        assert done.exit_code == 0
        assert done.stdout == f"{tmp_path / name}: 2 texts answered\n"
        written = (tmp_path / name).read_text(encoding="utf-8")
        if name == "out.jsonl":
            first = json.loads(written.splitlines()[0])
            assert first["tags"] == ["B-PER", "O", "O", "B-LOC", "I-LOC"]
            assert first["spans"][1] == {"text": "New0 York", "label": "LOC", "start": 3, "end": 5}
        else:
            assert written == result.stdout
    # Words are written as they are, not as numbers of code points.
    assert "한국" in elmo("predict", tagger, "-", given="한국\n").stdout


@pytest.mark.parametrize(
    ("name", "most", "is_full"),
    [
        ("TOGETHER", 3, lambda sizes: len(sizes) == 3),
        # The last text of a part is the one that fills it.
        ("WORDS_TOGETHER", 7, lambda sizes: sum(sizes[:-1]) < 7 <= sum(sizes)),
    ],
)
def test_many_texts_are_answered_some_at_a_time(elmo, classifier, monkeypatch, name, most, is_full):
    texts = [" ".join(example.words) for example in LABELLED]
    expected = elmo("predict", classifier, "-", given="\n".join(texts)).stdout.splitlines()
    parts = []

    def answers(self, part, answers=FittedTask.answers):
        parts.append([len(one.words) for one in part])
        return answers(self, part)

    monkeypatch.setattr(FittedTask, "answers", answers)
    monkeypatch.setattr(predict_module, name, most)
    found = elmo("predict", classifier, "-", given="\n".join(texts)).stdout.splitlines()
    assert [json.loads(line)["label"] for line in found] == [
        json.loads(line)["label"] for line in expected
    ]
    assert len(parts) > 2
    assert all(map(is_full, parts[:-1]))


def test_no_text_is_no_answer(elmo, classifier, tmp_path):
    (tmp_path / "in.txt").touch()
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert result.stdout.endswith("out.jsonl: 0 texts answered\n")
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.parametrize("raw", [True, False])
def test_text_is_split_as_that_of_training_was(elmo, tmp_path, monkeypatch, raw):
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)
    records = [{"text": f"a {w} film.", "label": w} for w in ("good", "bad") * 5]
    if not raw:
        records = [{**record, "text": record["text"].split()} for record in records]
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(record) + "\n" for record in records))
    settings = tmp_path / "my.yaml"
    settings.write_text(
        "examples: {tokenizer: english}\nelmo: {model: null}\nbody: {hidden: 4}\n"
        "run: {accelerator: cpu, max_steps: 1}\n"
    )
    done = elmo("fit", settings, "--train", train, "--out", tmp_path / "run")
    assert done.exit_code == 0
    split, whole = ["a", "fine", "film", "."], ["a", "fine", "film."]
    usual = split if raw else whole
    for flags, expected in ([], usual), (["--raw"], split), (["--no-raw"], whole):
        result = elmo("predict", tmp_path / "run", "-", *flags, given="a fine film.\n")
        assert json.loads(result.stdout)["words"] == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a film\n\nb\n", "line 2 holds no word: remove it, so that lines and answers fit"),
        (b"a\n \t \n", "line 2 holds no word"),
        (b"a\n\xff\n", "is not UTF-8: line 2, byte 1 of the line. Convert it first"),
    ],
)
def test_lines_that_cannot_be_answered(elmo, classifier, tmp_path, data, message):
    (tmp_path / "in.txt").write_bytes(data)
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "out.jsonl")
    assert failed(result, 1, message)
    assert "in.txt" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    result = elmo("predict", classifier, "-", "-", given=data)
    assert failed(result, 1, message)
    assert "standard input" in result.stderr


def test_closed_standard_input(classifier, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    config = predict_module.TaskPredictConfig(str(classifier), "-", "-")
    with pytest.raises(predict_module.InputError, match="Cannot read standard input: it is closed"):
        predict_module.predict(config)


def test_files_that_are_not_there(elmo, classifier, tmp_path):
    result = elmo("predict", classifier, tmp_path / "none.txt", "-")
    assert failed(result, 1, "none.txt: No such file or directory")
    (tmp_path / "in.txt").write_text("a\n")
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "no" / "out.jsonl")
    assert failed(result, 1, "there is no folder")
    result = elmo("predict", classifier, tmp_path / "in.txt", tmp_path / "." / "in.txt")
    assert failed(result, 2, "in.txt would be written over the texts it answers")
    assert (tmp_path / "in.txt").read_text() == "a\n"


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_a_model_that_is_not_there(elmo, verb, tmp_path):
    assert failed(elmo(verb, tmp_path / "none", "-"), 1, "none is no model of a task")
    (tmp_path / "folder").mkdir()
    assert failed(elmo(verb, tmp_path / "folder", "-"), 1, "folder is no model of a task")
    name = write_elmo(tmp_path / "elmo")
    assert failed(elmo(verb, name, "-"), 1, "elmo is no model of a task")


def test_columns_of_a_classifier(elmo, classifier, tmp_path):
    (tmp_path / "in.txt").write_text("a\n")
    for words in (["-", "--to", "conll"], [tmp_path / "out.conll"]):
        result = elmo("predict", classifier, tmp_path / "in.txt", *words)
        assert failed(result, 2, "is a model for classification, and columns are a tag for each")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    result = elmo("predict", classifier, tmp_path / "in.txt", "-", "--to", "xml")
    assert failed(result, 2, "--to: found 'xml', expected one of auto, jsonl, conll")


# ---------------------------------------------------------------------------------------- evaluate


def test_scores_of_a_file(elmo, classifier, tagger, tmp_path):
    path = write_jsonl(tmp_path / "test.jsonl", LABELLED)
    shown = elmo("evaluate", classifier, path).stdout
    assert shown == ("accuracy        1.0000\nmacro f1        1.0000\nexamples        20\n")
    path = write_conll(tmp_path / "test.txt", TAGGED)
    found = json.loads(elmo("evaluate", tagger, path, "--as-json", "--device", "cpu").stdout)
    names = ["accuracy", "span_precision", "span_recall", "span_f1"]
    assert found == {**dict.fromkeys(names, 1.0), "examples": 20}


def test_examples_of_another_task(elmo, classifier, tagger, tmp_path):
    labels = write_jsonl(tmp_path / "labels.jsonl", LABELLED)
    tags = write_conll(tmp_path / "tags.txt", TAGGED)
    assert failed(elmo("evaluate", classifier, tags), 1, "expected a label")
    assert failed(elmo("evaluate", tagger, labels), 1, "expected a tag for each word")
    result = elmo("evaluate", tagger, tags, "--device", "nowhere")
    assert failed(result, 2, "device is 'nowhere'")


# --------------------------------------------------------------------------------------------- fit


def test_fit_evaluate_and_predict_as_typed(elmo, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)
    settings = tmp_path / "my.yaml"
    settings.write_text(
        "task: tagging\nelmo: {model: null}\nbody: {hidden: 4}\nrun: {accelerator: cpu}\n"
    )
    train = write_conll(tmp_path / "train.txt", TAGGED)
    flags = ["--train", train, "--test", train, "--out", tmp_path / "run", "--max-steps", "3"]
    result = elmo("fit", settings, *flags)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"model: {tmp_path / 'run' / 'model'}"
    shown = elmo("evaluate", tmp_path / "run", train)
    assert "span f1" in shown.stdout
    answer = elmo("predict", tmp_path / "run", "-", given="Kim\n")
    assert json.loads(answer.stdout)["words"] == ["Kim"]


def test_what_fit_cannot_be_told(elmo, tmp_path):
    assert failed(elmo("fit", "no-such", "--out", "x"), 2, "presets: conll2003, ")
    assert failed(elmo("fit", "conll2003"), 2, "--out is not given")
    assert failed(elmo("fit", "sst5", "--model", "none", "--out", tmp_path / "x"), 2, "--train is")
    assert elmo("fit").exit_code == 2
    assert "fit" in elmo("--help").output


def test_answers_before_a_broken_line_are_given(elmo, classifier):
    result = elmo("predict", classifier, "-", given="a fine film\nawful end\n\n")
    assert result.exit_code == 1
    assert "standard input, line 3 holds no word" in result.stderr
    assert [json.loads(line)["label"] for line in result.stdout.splitlines()] == ["good", "bad"]


def test_who_reads_no_further_is_told_nothing(classifier):
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


def test_tags_of_another_scheme(elmo, tagger, tmp_path):
    expected = elmo("evaluate", tagger, write_conll(tmp_path / "own.txt", TAGGED), "--as-json")
    other = [replace(one, target=tuple(convert(one.target, IOB2, BIOES))) for one in TAGGED]
    found = elmo("evaluate", tagger, write_conll(tmp_path / "other.txt", other), "--as-json")
    assert json.loads(found.stdout) == json.loads(expected.stdout)


@pytest.mark.parametrize("kind", ["classifier", "tagger"])
def test_who_may_read_the_config_may_read_the_weights(request, kind):
    folder = request.getfixturevalue(kind)
    weights, head = (folder / name for name in ("model.safetensors", "config.json"))
    assert weights.stat().st_mode == head.stat().st_mode
