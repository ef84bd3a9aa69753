"""Tests that data from an earlier version load, give the same results, and can be resumed.

The data and the expected results are in data/older and are described in the README there.
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
# Name of each task in that version, and the file to evaluate its model on.
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
    """Copy the data and change to their folder, because they contain paths relative to it."""
    shutil.copytree(OLDER, tmp_path / "older")
    monkeypatch.chdir(tmp_path / "older")


def run(*arguments):
    """Run an `elmo` command and return its standard output."""
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
    """Check that plain data are equal, with a tolerance for floats."""
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


def assert_perplexity(output, expected, n_characters, *, estimated):
    """Check the results of `evaluate`; that version counted characters in another way."""

    def comparable(result):
        names = [name for name in expected if "character" not in name]
        return {name: result[name] for name in names}

    actual = json.loads(output)
    assert_same(comparable(actual), comparable(expected), tolerance=1e-4)
    assert actual["n_characters"] == n_characters
    assert actual["characters_estimated"] is estimated
    # Both numbers of bits are of the same losses.
    bits = expected["bits_per_character"] * expected["n_characters"]
    assert actual["bits_per_character"] * n_characters == pytest.approx(bits, rel=1e-4)


def assert_task_results(name, expected):
    """Check the predictions and scores of a task model."""
    run("task", "predict", f"tasks/{name}", f"texts/predict-{name}.txt", "out.jsonl")
    lines = Path("out.jsonl").read_text("utf-8").splitlines()
    assert_same(list(map(json.loads, lines)), expected["predictions"])
    scores = run("task", "evaluate", f"tasks/{name}", f"texts/{TASKS[name]}", "--json")
    scores = json.loads(scores)
    # Scores by label were not printed by the version that wrote the folders.
    assert_same({key: scores[key] for key in expected["scores"]}, expected["scores"])


def assert_losses(folder, expected):
    """Check the training losses in the log of a run."""
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
def test_model_folder_from_older_version_returns_same_vectors(model):
    assert_vectors(model, model)


@pytest.mark.parametrize("model", ["model", "model-int8", "model-words", "finetune/model"])
def test_model_folder_from_older_version_has_same_perplexity(model):
    output = run("evaluate", "--model", model, "texts/valid.txt", "--json")
    # All characters of the file, including those of a skipped blank line.
    assert_perplexity(output, EXPECTED["perplexity"][model], 756, estimated=False)


def test_perplexity_on_prepared_corpus_from_older_version_is_unchanged():
    output = run("evaluate", "--model", "model", "corpus", "--split", "valid", "--json")
    # The corpus does not record its characters.
    assert_perplexity(output, EXPECTED["perplexity"]["corpus"], 755, estimated=True)


# --------------------------------------------------------------------------------- training folders


def test_interrupted_pretraining_from_older_version_resumes_and_finishes():
    assert last_step("pretrain") == 12
    run("pretrain", "--config", "pretrain/config.yaml")
    assert last_step("pretrain") == 30
    assert_losses("pretrain", EXPECTED["losses"]["pretrain"])
    assert_vectors("pretrain/model", "resumed/pretrain", TRAINED_TOLERANCE)


def test_finished_finetuning_run_from_older_version_can_be_extended():
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
def test_finished_embedding_job_from_older_version_has_same_vectors(folder):
    assert_job_vectors(folder, folder, TOLERANCE)


def test_interrupted_embedding_job_from_older_version_computes_only_missing_shards():
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
def test_task_model_from_older_version_returns_same_predictions_and_scores(name):
    assert_task_results(name, EXPECTED["tasks"][name])


@pytest.mark.parametrize("name", ["answers", "clusters", "roles"])
def test_interrupted_task_training_from_older_version_resumes_and_finishes(name):
    before = last_step(f"tasks/{name}")
    expected = EXPECTED["tasks"][name]["resumed"]
    run("task", "fit", f"tasks/{name}/config.yaml")
    assert last_step(f"tasks/{name}") > before
    assert_losses(f"tasks/{name}", expected["losses"])
    assert_task_results(name, expected)


@pytest.mark.parametrize("name", ["senses", "nearest"])
def test_lookup_model_from_older_version_is_reused(name):
    model = Path("tasks", name, "model")
    contents = {path: path.read_bytes() for path in sorted(model.iterdir())}
    run("task", "fit", f"tasks/{name}/config.yaml")
    assert {path: path.read_bytes() for path in sorted(model.iterdir())} == contents
    assert_task_results(name, EXPECTED["tasks"][name])
