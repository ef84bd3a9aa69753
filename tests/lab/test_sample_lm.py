"""Tests of the commands `lm sample`, `lm evaluate`, `lm info` and `info`."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import TINY, random_model
from small_networks import TEXT, small_network
from typer.testing import CliRunner

from elmo import cli
from elmo.embed.embedder import ELMo
from elmo.lab.generation import TextGenerator
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.text.vocabulary import SPECIAL_TOKENS, Vocabulary


def elmo(*words):
    words = [str(word) for word in words]
    return CliRunner().invoke(cli.application(words), words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    network, symbols = small_network()
    folder = tmp_path_factory.mktemp("lm") / "model"
    training = {"symbols": 60, "steps": 3, "epochs": 1.5}
    training["held_out"] = {"nats": 2.0, "bits_per_character": 2.9, "perplexity": 7.389}
    write_model(RecurrentModel(network, symbols, training), folder)
    return folder


@pytest.fixture(scope="module")
def elmo_folder(tmp_path_factory):
    vocabulary = Vocabulary([*SPECIAL_TOKENS, "the", "cat", "sat"])
    config = dataclasses.replace(TINY, n_softmax_words=len(vocabulary))
    folder = tmp_path_factory.mktemp("elmo") / "model"
    model = ELMo(random_model(config, vocabulary=vocabulary))
    model.save_pretrained(folder)
    return folder


def test_sample_prints_prompt_and_continuation(folder):
    expected = TextGenerator(*small_network()).sample("to be", 30, temperature=0.5, seed=4)
    result = elmo(
        "lm",
        "sample",
        folder,
        "--prompt",
        "to be",
        "--length",
        30,
        "--temperature",
        0.5,
        "--seed",
        4,
    )
    assert result.exit_code == 0
    assert result.stdout.rstrip("\n") == expected.rstrip("\n")
    assert result.stdout.endswith("\n")


def test_sample_prints_several_texts(folder):
    texts = TextGenerator(*small_network()).samples("", 10, 2)
    result = elmo("lm", "sample", folder, "--length", 10, "--n", 2)
    first, second = (text.removesuffix("\n") for text in texts)
    assert result.stdout == f"--- 1 of 2 ---\n{first}\n--- 2 of 2 ---\n{second}\n"
    result = elmo("lm", "sample", folder, "--length", 10, "--n", 2, "--json")
    assert json.loads(result.stdout) == {"model": str(folder), "prompt": "", "texts": texts}


def test_sample_stops_before_stop_string(folder):
    expected = TextGenerator(*small_network()).sample("", 200).split("e")[0]
    result = elmo("lm", "sample", folder, "--length", 200, "--stop", "e")
    assert result.stdout == f"{expected}\n"


def test_sample_warns_once_about_unknown_characters(folder, caplog):
    for words in ([], ["--json"]):
        caplog.clear()
        result = elmo("lm", "sample", folder, "--prompt", "to Ü", "--length", 5, *words)
        assert result.exit_code == 0
        (record,) = caplog.records
        assert "'Ü'" in record.getMessage()


def test_sample_of_elmo_writes_in_both_directions(elmo_folder):
    for direction in ("forward", "backward"):
        result = elmo(
            "lm",
            "sample",
            elmo_folder,
            "--prompt",
            "the dog",
            "--length",
            9,
            "--direction",
            direction,
        )
        assert result.exit_code == 0
        text = result.stdout.strip()
        assert text.startswith("the dog") if direction == "forward" else text.endswith("the dog")
        assert len(text) > len("the dog")


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["--temperature", "-1"], "temperature must be 0 or more (got -1.0)", 2),
        (["--temperature", "warm"], "--temperature: expected float", 2),
        (["--top-k", "0"], "top_k must be at least 1", 2),
        (["--top-p", "1.5"], "top_p must be above 0", 2),
        (["--n", "0"], "n must be at least 1", 2),
        (["--direction", "backward"], "only supported for ELMo models", 2),
        (["--direction", "up"], "expected one of forward, backward", 2),
        (["--softmax", "x.hdf5"], "--softmax is only supported for ELMo models", 2),
    ],
)
def test_sample_rejects_options_in_one_line(folder, words, message, code):
    result = elmo("lm", "sample", folder, *words)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_sample_rejects_unknown_models(tmp_path, tiny):
    result = elmo("lm", "sample", "small-ne")
    assert result.exit_code == 1
    assert "Did you mean small-en?" in result.stderr
    tiny.save_pretrained(tmp_path / "elmo")
    result = elmo("lm", "sample", tmp_path / "elmo")
    assert result.exit_code == 2
    assert "no softmax" in result.stderr


def started_sample(folder):
    """Start a sample that takes minutes in another process, and read its first characters."""
    process = subprocess.Popen(
        [sys.executable, "-m", "elmo", "lm", "sample", str(folder), "--length", "10000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # A shell that runs the tests in the background makes all its child processes ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.read(20)
    return process


def test_interrupted_sample_keeps_its_line(folder):
    with started_sample(folder) as process:
        process.send_signal(signal.SIGINT)
        text, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert text.endswith(b"\n")
    assert message.endswith(b"elmo: Interrupted. The text is incomplete.\n")


def test_closed_pipe_ends_sample_without_message(folder):
    with started_sample(folder) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


def test_evaluate_prints_loss_of_text(folder, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    result = elmo("lm", "evaluate", folder, path)
    assert result.exit_code == 0
    assert "nats per character" in result.stdout
    values = json.loads(elmo("lm", "evaluate", folder, path, path, "--json").stdout)
    assert values["n_symbols"] == 2 * len(TEXT)
    assert values["dynamic_evaluation"] is None
    batched = elmo("lm", "evaluate", folder, path, path, "--json", "--batch-size", 4)
    assert json.loads(batched.stdout)["nats"] == pytest.approx(values["nats"], rel=0.01)


def test_dynamic_evaluation_is_labeled(folder, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 5, encoding="utf-8")
    result = elmo("lm", "evaluate", folder, path, "--dynamic-rate", 0.1)
    assert "dynamic evaluation: " in result.stdout
    assert "Do not compare" in result.stdout
    values = json.loads(
        elmo("lm", "evaluate", folder, path, "--dynamic-rate", 0.1, "--json").stdout
    )
    assert values["dynamic_evaluation"]["nats"] < values["nats"]


def test_evaluate_rejects_elmo_model_and_missing_text(folder, tmp_path):
    result = elmo("lm", "evaluate", "small-en", tmp_path / "text.txt")
    assert result.exit_code == 1
    assert "Use elmo evaluate" in result.stderr
    result = elmo("lm", "evaluate", folder, tmp_path / "text.txt")
    assert result.exit_code != 0
    assert "text.txt" in result.stderr
    result = elmo("lm", "evaluate", folder, tmp_path / "text.txt", "--batch-size", 0)
    assert "batch_size must be at least 1" in result.stderr


@pytest.mark.parametrize("words", [["lm", "info"], ["info"]])
def test_info_describes_model(folder, words):
    result = elmo(*words, folder)
    assert result.exit_code == 0
    assert "lstm, 2 layers of 12" in result.stdout
    assert "2.0000 nats, 2.9000 bits per character, perplexity 7.39" in result.stdout
    values = json.loads(elmo(*words, folder, "--json").stdout)
    assert values["unit"] == "characters"
    assert values["training"]["held_out"]["nats"] == 2.0


def test_info_rejects_options_file_and_other_folders(folder, tmp_path):
    result = elmo("info", folder, "--options", "options.json")
    assert result.exit_code == 2
    assert "--options does not apply to the language model" in result.stderr
    result = elmo("lm", "info", tmp_path)
    assert "does not contain a recurrent language model" in result.stderr


def test_train_has_no_flags_without_effect():
    shown = elmo("lm", "train", "--help").stdout
    assert "--cell" in shown
    assert "--num-nodes" not in shown
    assert "--accumulate" not in shown
    assert "fused" not in shown
    assert "fine-tuning" not in shown
    assert "per direction" not in shown
