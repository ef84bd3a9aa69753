"""Tests of `LanguageModel`, the class for Python."""

import json
import math
from pathlib import Path

import pytest
import torch
from small_language_models import small_network as untrained_network
from small_networks import TEXT, small_network

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, InputError
from elmo.lab import LanguageModel, TextLoss
from elmo.lab.generation import TextGenerator
from elmo.lab.recurrent_folder import RecurrentModel, write_model
from elmo.lab.symbols import Symbols


@pytest.fixture
def folder(tmp_path):
    network, symbols = small_network()
    write_model(RecurrentModel(network, symbols, {"program": "test"}), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def model(folder):
    return LanguageModel.load(folder, device="cpu")


def test_loaded_model_writes_text_of_saved_network(model):
    network, symbols = small_network()
    generator = TextGenerator(network, symbols)
    assert model.sample("to be", 30) == generator.sample("to be", 30)
    assert "".join(model.stream("to be", 30)) == generator.sample("to be", 30)
    assert model.samples("to", 20, 3) == generator.samples("to", 20, 3)


def test_load_accepts_training_folder(folder, model):
    assert LanguageModel.load(folder.parent, device="cpu").sample("", 20) == model.sample("", 20)
    assert LanguageModel.load(str(folder), device="cpu").symbols == model.symbols


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_scores_sum_to_loss_of_evaluation(unit):
    network, symbols = small_network(unit=unit)
    model = LanguageModel(RecurrentModel(network, symbols, {}))
    scores = model.score(TEXT)
    loss = model.evaluate(TEXT)
    assert isinstance(loss, TextLoss)
    assert loss.n_symbols == len(scores) == len(symbols.encode(TEXT))
    assert math.fsum(nats for _, nats in scores) / len(scores) == pytest.approx(loss.nats, rel=1e-5)
    if unit != "words":
        assert "".join(name for name, _ in scores) == TEXT


def test_score_is_log_probability_of_generation(model):
    name, nats = model.score("to")[1]
    scores, _ = model.stepper.read(
        torch.tensor(model.codec.prompt_ids("t"))[:, None], model.stepper.start(1)
    )
    assert name == "o"
    assert nats == pytest.approx(-float(scores[0, model.symbols.encode("o")[0]]), rel=1e-5)


def test_score_of_empty_text_is_empty_and_unknown_characters_are_unk(model):
    assert model.score("") == []
    assert [name for name, _ in model.score("tXo")] == ["t", "<UNK>", "o"]


def test_score_of_single_symbol_without_line_breaks_is_empty():
    network, symbols = small_network("abab")
    model = LanguageModel(RecurrentModel(network, symbols, {}))
    assert model.score("a") == []
    assert [name for name, _ in model.score("ab")] == ["b"]


def test_long_text_is_scored_in_parts(model, monkeypatch):
    whole = model.score(TEXT)
    monkeypatch.setattr("elmo.lab.recurrent_model.SCORE_STEPS", 7)
    parts = model.score(TEXT)
    assert [name for name, _ in parts] == [name for name, _ in whole]
    assert [nats for _, nats in parts] == pytest.approx([nats for _, nats in whole], rel=1e-5)


def test_evaluate_reads_files(model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    assert model.evaluate(path) == model.evaluate(TEXT)
    assert model.evaluate([path, path]) == model.evaluate(TEXT + TEXT)
    with pytest.raises(ConfigError, match=r"is the name of a file\. Pass Path"):
        model.evaluate(str(path))
    with pytest.raises(InputError):
        model.evaluate(tmp_path / "missing.txt")


@pytest.mark.parametrize("unit", ["characters", "bytes", "words"])
def test_lone_surrogates_are_read_as_replacement_characters(unit):
    network, symbols = small_network(unit=unit)
    model = LanguageModel(RecurrentModel(network, symbols, {}))
    assert model.evaluate("\ud800 to") == model.evaluate("\ufffd to")
    assert model.score("\ud800 to") == model.score("\ufffd to")


def test_evaluate_with_reset_state_has_another_loss(model):
    assert model.evaluate(TEXT, state="reset", unroll=5).nats != model.evaluate(TEXT).nats


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "keep"}, "state must be carry or reset"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"unroll": 0}, "unroll must be at least 1"),
        ({"batch_size": "a"}, "batch_size must be an integer"),
        ({"unroll": 2.5}, "unroll must be an integer"),
    ],
)
def test_evaluate_rejects_invalid_options(model, options, message):
    with pytest.raises(ConfigError, match=message):
        model.evaluate(TEXT, **options)


def test_evaluate_rejects_empty_text_and_other_types(model):
    with pytest.raises(InputError, match="too short"):
        model.evaluate("")
    with pytest.raises(ConfigError, match="Expected a text file"):
        model.evaluate(3)


def test_info_and_repr_describe_model(model):
    info = model.info()
    assert info["unit"] == "characters"
    assert info["network"] == "lstm, 2 layers of 12"
    assert info["weights"] == sum(value.numel() for value in model.network.parameters())
    assert repr(model) == (
        f"LanguageModel(characters, {len(model.symbols)} symbols; lstm, 2 layers of 12; cpu)"
    )


def test_train_returns_trained_model(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 20, encoding="utf-8")
    options = {"hidden_dim": 16, "n_layers": 1, "batch_size": 4, "unroll": 16, "sample_every": 0}
    model = LanguageModel.train(path, tmp_path / "run", cell="gru", max_steps=3, **options)
    assert model.network.config.network.cell == "gru"
    assert model.training["steps"] == 3
    assert len(model.sample("to", 10)) == 12


def test_train_rejects_unknown_options_and_types(tmp_path):
    with pytest.raises(ConfigError, match=r"Unknown option 'hiden_dim'\. Did you mean hidden_dim"):
        LanguageModel.train("text.txt", tmp_path, hiden_dim=3)
    with pytest.raises(ConfigError, match="hidden_dim: expected int"):
        LanguageModel.train("text.txt", tmp_path, hidden_dim="large")
    with pytest.raises(ConfigError, match="Expected a text file"):
        LanguageModel.train(5, tmp_path)
    with pytest.raises(ConfigError, match="dry_run is only supported by the command"):
        LanguageModel.train("text.txt", tmp_path, dry_run=True)
    with pytest.raises(ConfigError, match="does not exist"):
        LanguageModel.train("text.txt", tmp_path, preset="nothing")


def test_train_rejects_arguments_that_are_no_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"out must be a path \(got None\)"):
        LanguageModel.train("text.txt", None)
    with pytest.raises(ConfigError, match="preset must be a path"):
        LanguageModel.train("text.txt", "run", preset=3)
    with pytest.raises(ConfigError, match="No text file was given"):
        LanguageModel.train([], "run")
    with pytest.raises(ConfigError, match="Expected a text file"):
        LanguageModel.train("text.txt", "run", valid=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [str, Path])
def test_train_accepts_one_file_for_held_out_text(tmp_path, kind):
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 20, encoding="utf-8")
    options = {"hidden_dim": 8, "n_layers": 1, "batch_size": 4, "max_steps": 1, "sample_every": 0}
    name = kind(path)
    model = LanguageModel.train(name, tmp_path / "run", valid=name, test=name, **options)
    assert model.training["steps"] == 1


def test_load_and_constructor_reject_other_types(folder):
    with pytest.raises(ConfigError, match="path must be a path"):
        LanguageModel.load(None)
    with pytest.raises(ConfigError, match=r"got str\)\. Use LanguageModel\.load"):
        LanguageModel(str(folder))


def test_load_rejects_other_folders(tmp_path, tiny):
    with pytest.raises(FormatError, match="There is no folder"):
        LanguageModel.load(tmp_path / "missing")
    with pytest.raises(FormatError, match="does not contain a recurrent language model"):
        LanguageModel.load(tmp_path)
    for name in ("small-en", "base-en"):
        with pytest.raises(FormatError, match=f"{name} is an ELMo model"):
            LanguageModel.load(name)
    tiny.save_pretrained(tmp_path / "elmo")
    with pytest.raises(FormatError, match="is an ELMo model, not a model of elmo lm train"):
        LanguageModel.load(tmp_path / "elmo")
    (tmp_path / "config.yaml").touch()
    (tmp_path / "log.jsonl").touch()
    with pytest.raises(FormatError, match="has not written a model yet"):
        LanguageModel.load(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "symbols.json", "model.safetensors"])
@pytest.mark.parametrize("content", [b"", b"[1]", b"{}"])
def test_load_rejects_damaged_files(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(FormatError):
        LanguageModel.load(folder)


@pytest.mark.parametrize(
    ("unit", "names"),
    [
        ("characters", ["<UNK>", "a", "bc"]),
        ("characters", ["<UNK>", "a", "a"]),
        ("characters", ["a", "b", "c"]),
        ("words", ["<UNK>", "a", "b"]),
        ("words", ["<UNK>", "</S>", ""]),
        ("bytes", ["a"]),
    ],
)
def test_load_rejects_symbols_of_another_unit(tmp_path, unit, names):
    network = untrained_network(256 if unit == "bytes" else 3, unit=unit)
    write_model(RecurrentModel(network, Symbols(unit, tuple(names)), {}), tmp_path)
    with pytest.raises(FormatError, match=f"the symbols of a model over {unit}"):
        LanguageModel.load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"softmax_cutoffs": [99]}, {"max_characters": -1, "unit": "words"}]
)
def test_load_rejects_network_that_cannot_be_created(folder, change):
    header = json.loads((folder / "config.json").read_text())
    header["model"].update(change)
    if "unit" in change:
        header["model"]["network"]["word_input"] = "characters"
        names = json.loads((folder / "symbols.json").read_text())
        (folder / "symbols.json").write_text(json.dumps([names[0], "</S>", *names[2:]]))
    (folder / "config.json").write_text(json.dumps(header))
    with pytest.raises(FormatError, match=r"config.json does not describe a network that can be"):
        LanguageModel.load(folder)


def test_info_has_a_large_perplexity_in_scientific_notation(model):
    model.training["held_out"] = TextLoss(264.0, 10, 10, "characters", 0.0).values()
    assert model.info()["held-out_loss"].endswith("perplexity 4.51e+114")


@pytest.mark.parametrize("held_out", [{}, {"nats": "x", "bits_per_character": 1.0}])
def test_info_omits_damaged_losses(model, held_out):
    model.training["held_out"] = held_out
    assert "held-out_loss" not in model.info()


def test_load_names_the_difference_of_weights_of_another_model(folder, tmp_path):
    network, symbols = small_network(hidden_dim=6)
    write_model(RecurrentModel(network, symbols, {}), tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(folder / "model.safetensors")
    message = "weights of another network than config.json: size mismatch for .*copying a param"
    with pytest.raises(FormatError, match=message):
        LanguageModel.load(folder, device="cpu")


def test_load_rejects_unavailable_device(folder):
    with pytest.raises(ConfigError, match="not available"):
        LanguageModel.load(folder, device="tpu9")


def test_elmo_does_not_load_language_model(folder):
    with pytest.raises(FormatError):
        ELMo.from_pretrained(folder)
    assert Path(folder).is_dir()
