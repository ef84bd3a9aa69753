"""Data of an earlier version: it loads, gives the same results, and interrupted runs resume.

The examples and their expected results are in data/older; the README there describes them.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from elmo import ELMo, cli, open_embeddings

OLDER = Path(__file__).parent / "data" / "older"
EXPECTED = json.loads((OLDER / "expected.json").read_text("utf-8"))
SENTENCES = [["anna", "sees", "cats", "."], ["naïve", "한국", "owls"], [], ["Strasse"]]
TOLERANCE = 1e-5
# Rounding differences between CPUs grow from step to step of training, and tasks read vectors that
# are rounded to float16.
TRAINED_TOLERANCE = 1e-3
# Name of a task at that time, and the text to evaluate its model on.
TASKS = {
    "classification": "classification.jsonl",
    "tagging": "tagging.conll",
    "pairs": "pairs.jsonl",
    "answers": "answers.json",
    "roles": "roles.conll",
    "clusters": "clusters.conll",
    "senses": "wsd/Evaluation_Datasets/ALL",
    "nearest": "nearest.txt",
}


@pytest.fixture(autouse=True)
def older(tmp_path, monkeypatch):
    """Copy the examples and change to their folder: the paths in them are relative to it."""
    shutil.copytree(OLDER, tmp_path / "older")
    monkeypatch.chdir(tmp_path / "older")


def run(*arguments):
    """Run a command of the command line and return its standard output."""
    result = CliRunner().invoke(cli.application(arguments), arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def assert_vectors(model, name, tolerance=TOLERANCE):
    vectors = ELMo.from_pretrained(model).encode(SENTENCES, layers="all")
    with np.load(OLDER / "vectors.npz") as expected:
        for number, sentence_vectors in enumerate(vectors):
            np.testing.assert_allclose(
                sentence_vectors, expected[f"{name}/{number}"], rtol=0, atol=tolerance
            )


def assert_same(actual, expected, tolerance=TRAINED_TOLERANCE):
    """Compare plain data: floats within a tolerance, everything else exactly."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(actual[key], value, tolerance)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for item, value in zip(actual, expected, strict=True):
            assert_same(item, value, tolerance)
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=0, abs=tolerance)
    else:
        assert actual == expected


def assert_task_results(name, expected):
    """Compare predictions and scores of a task model."""
    run("task", "predict", f"tasks/{name}", f"texts/predict-{name}.txt", "out.jsonl")
    lines = Path("out.jsonl").read_text("utf-8").splitlines()
    assert_same(list(map(json.loads, lines)), expected["predictions"])
    scores = run("task", "evaluate", f"tasks/{name}", f"texts/{TASKS[name]}", "--json")
    assert_same(json.loads(scores), expected["scores"])


def assert_losses(folder, expected):
    """Compare the training losses of a run, which its log has."""
    records = map(json.loads, Path(folder, "log.jsonl").read_text("utf-8").splitlines())
    losses = {str(record["step"]): record["loss"] for record in records if "loss" in record}
    assert_same(losses, expected)


def last_step(folder):
    (checkpoint, *_) = sorted(Path(folder, "checkpoints").glob("step-*.pt"), reverse=True)
    return int(checkpoint.name.split("-")[1])


# ------------------------------------------------------------------------------------ model folders


@pytest.mark.parametrize(
    "model", ["model", "model-int8", "model-words", "pretrain/model", "finetune/model"]
)
def test_older_model_folder_returns_same_vectors(model):
    assert_vectors(model, model)


@pytest.mark.parametrize("model", ["model", "model-int8", "model-words", "finetune/model"])
def test_older_model_folder_has_same_perplexity(model):
    output = run("evaluate", "--model", model, "texts/valid.txt", "--json")
    assert_same(json.loads(output), EXPECTED["perplexity"][model], tolerance=1e-4)


def test_older_prepared_corpus_has_same_perplexity():
    output = run("evaluate", "--model", "model", "corpus", "--split", "valid", "--json")
    assert_same(json.loads(output), EXPECTED["perplexity"]["corpus"], tolerance=1e-4)


# --------------------------------------------------------------------------------- training folders


def test_older_interrupted_pretraining_resumes_to_its_end():
    assert last_step("pretrain") == 12
    run("pretrain", "--config", "pretrain/config.yaml")
    assert last_step("pretrain") == 30
    assert_losses("pretrain", EXPECTED["losses"]["pretrain"])
    assert_vectors("pretrain/model", "resumed/pretrain", TRAINED_TOLERANCE)


def test_older_finished_finetuning_run_can_be_extended():
    assert last_step("finetune") == 6
    run("finetune", "--config", "finetune/config.yaml", "--max-steps", "10")
    assert last_step("finetune") == 10
    assert_losses("finetune", EXPECTED["losses"]["finetune"])
    assert_vectors("finetune/model", "resumed/finetune", TRAINED_TOLERANCE)


# -------------------------------------------------------------------------------------- job folders


def assert_job_vectors(folder, name, tolerance):
    sentences = open_embeddings(folder)[:]
    lengths = [sentence.vectors.shape[1] for sentence in sentences]
    assert lengths == EXPECTED["sentence_lengths"][name]
    vectors = np.concatenate([sentence.vectors for sentence in sentences], axis=1)
    with np.load(OLDER / "vectors.npz") as expected:
        np.testing.assert_allclose(vectors, expected[name], rtol=0, atol=tolerance)


@pytest.mark.parametrize("folder", ["job-hdf5", "job-safetensors"])
def test_older_finished_job_folder_has_same_vectors(folder):
    assert_job_vectors(folder, folder, TOLERANCE)


def test_older_interrupted_job_computes_missing_shards_only():
    kept = sorted(Path("job-parquet/shards").iterdir())
    assert [path.name for path in kept] == ["00000.parquet", "00002.parquet"]
    contents = [path.read_bytes() for path in kept]
    run(
        *("embed", "texts/valid.txt", "job-parquet", "--model", "model", "--layers", "all"),
        *("--shard-words", "40", "--device", "cpu"),
    )
    assert len(list(Path("job-parquet/shards").iterdir())) == 4
    assert [path.read_bytes() for path in kept] == contents
    # Written as float16.
    assert_job_vectors("job-parquet", "job-safetensors", 1e-3)


# -------------------------------------------------------------------------------------- task models


@pytest.mark.parametrize("name", TASKS)
def test_older_task_model_returns_same_predictions_and_scores(name):
    assert_task_results(name, EXPECTED["tasks"][name])


@pytest.mark.parametrize("name", ["answers", "clusters", "roles"])
def test_older_interrupted_task_fit_resumes_to_its_end(name):
    before = last_step(f"tasks/{name}")
    expected = EXPECTED["tasks"][name]["resumed"]
    run("task", "fit", f"tasks/{name}/config.yaml")
    assert last_step(f"tasks/{name}") > before
    assert_losses(f"tasks/{name}", expected["losses"])
    assert_task_results(name, expected)


@pytest.mark.parametrize("name", ["senses", "nearest"])
def test_older_lookup_task_is_recognized_and_not_computed_again(name):
    model = Path("tasks", name, "model")
    contents = {path: path.read_bytes() for path in sorted(model.iterdir())}
    run("task", "fit", f"tasks/{name}/config.yaml")
    assert {path: path.read_bytes() for path in sorted(model.iterdir())} == contents
    assert_task_results(name, EXPECTED["tasks"][name])
