"""Tests that Python and all commands split the same raw text into the same words."""

import json
import logging

import pytest
from typer.testing import CliRunner

from elmo import ELMo, cli, open_embeddings
from elmo.evaluate import evaluate_model

TEXTS = {
    "small-en": (
        "She didn't rob a bank, Mr. Kim said.",
        ["She", "did", "n't", "rob", "a", "bank", ",", "Mr.", "Kim", "said", "."],
    ),
    "small-ko": (
        "나는 어제 은행에 갔다.",
        ["나", "는", "어제", "은행", "에", "갔", "다", "."],
    ),
}


def run(*arguments):
    """Run an `elmo` command and return its standard output."""
    arguments = [str(argument) for argument in arguments]
    result = CliRunner().invoke(cli.application(arguments), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(params=TEXTS)
def model(request):
    if request.param == "small-ko":
        pytest.importorskip("kiwipiepy")
    return request.param


def test_raw_text_has_the_same_words_in_python_and_all_commands(
    model, tmp_path, monkeypatch, caplog
):
    text, words = TEXTS[model]
    elmo = ELMo.from_pretrained(model)
    assert [token.text for token in elmo.tokenize(text)] == words
    assert len(elmo.encode(text)) == len(words)

    source = tmp_path / "text.txt"
    source.write_text(f"{text}\n", encoding="utf-8")
    # The Korean tokenizer is loaded for seconds in each worker process.
    others = () if model == "small-ko" else ("vectors.npz", "vectors.parquet")
    for out in ("vectors.h5", "shards", *others):
        run("embed", source, tmp_path / out, "--model", model)
        assert open_embeddings(tmp_path / out)[0].words == words

    evaluated = []
    tables = evaluate_model.model_tables
    monkeypatch.setattr(
        evaluate_model,
        "model_tables",
        lambda model, distinct: evaluated.append(next(distinct.parts())) or tables(model, distinct),
    )
    run("evaluate", source, "--model", model)
    assert evaluated == [words]

    # The training data are tokenized, which does not change how new text is read.
    train = tmp_path / "train.jsonl"
    records = [{"text": [*words[: n % 3 + 1]], "label": str(n % 2)} for n in range(12)]
    train.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    settings = tmp_path / "task.yaml"
    settings.write_text(
        f"task: classification\nelmo: {{model: {model}}}\nencoder: {{hidden: 4}}\n"
        "run: {accelerator: cpu, max_steps: 1}\n"
    )
    run("task", "fit", settings, "--train", train, "--out", tmp_path / "task")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        output = run("task", "predict", tmp_path / "task", source)
    assert json.loads(output)["words"] == words
    assert "--pretokenized" not in caplog.text
