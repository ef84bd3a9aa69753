"""Tests for model folders: content, replacement of previous models, damaged files."""

import dataclasses
import json
import os

import numpy as np
import pytest
import torch
from builders import VOCABULARY
from conftest import TINY, random_model
from safetensors.torch import load_file, save_file
from sources import SOURCES, assert_error, many_langs, model_folder_source

from elmo.config import MixConfig, TextConfig
from elmo.config.serialization import from_dict, to_dict
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.formats import bilm_hdf5, model_folder
from elmo.formats.container import open_folder
from elmo.formats.load import read
from elmo.formats.model_card import model_card
from elmo.formats.quantization import pack, unpack
from elmo.text.characters import build_dictionary
from elmo.text.vocabulary import Vocabulary

REMOVED = "(removed)"


@pytest.fixture
def folder(tmp_path):
    return model_folder_source(tmp_path)["source"]


@pytest.fixture
def dictionaries(tmp_path):
    """Return a model folder with a word dictionary and a character dictionary."""
    ELMo.from_pretrained(**many_langs().make(tmp_path)).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def change(folder, path, value):
    """Change the value of one key in config.json, such as `model.lstm.cell_dim`."""
    header = json.loads((folder / "config.json").read_text())
    *sections, key = path.split(".")
    section = header
    for name in sections:
        section = section[name]
    if value is REMOVED:
        del section[key]
    else:
        section[key] = value
    (folder / "config.json").write_text(json.dumps(header))


class TestWrite:
    def test_write_creates_expected_model_folder_files(self, folder):
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["README.md", "config.json", "model.safetensors", "vocab.txt"]
        header = json.loads((folder / "config.json").read_text())
        assert (header["format"], header["version"]) == ("elmo-torch", 1)
        assert (header["origin"], header["notes"]) == ("random model", ["a correction"])
        assert header["model"]["n_softmax_words"] == len(VOCABULARY)
        assert (folder / "vocab.txt").read_text("utf-8").split("\n")[:-1] == list(VOCABULARY)

    def test_weights_are_readable_with_safetensors(self, folder):
        weights = load_file(folder / "model.safetensors")
        model = model_folder.read(open_folder(folder))
        assert weights.keys() == model.weights.keys()
        for name, tensor in weights.items():
            assert tensor.dtype == torch.float32
            assert torch.equal(tensor, model.weights[name])

    def test_dictionaries_with_consecutive_ids_are_written_as_lists(self, dictionaries):
        """The position in the list is the id."""
        model = read(dictionaries)
        for name, entries in (("words.json", model.words), ("characters.json", model.characters)):
            listed = json.loads((dictionaries / name).read_text("utf-8"))
            assert listed == list(entries)
            assert list(entries.values()) == list(range(len(entries)))
        assert model.words["好"] == 6
        assert "好" in (dictionaries / "words.json").read_text("utf-8")

    def test_dictionary_with_unordered_ids_is_written_as_object(self, dictionaries):
        model = read(dictionaries)
        words = dict(reversed(model.words.items()))
        model_folder.write(dataclasses.replace(model, words=words), dictionaries)
        assert json.loads((dictionaries / "words.json").read_text("utf-8")) == words
        assert read(dictionaries).words == model.words

    @pytest.mark.parametrize("mask", [0o022, 0o077])
    def test_weight_file_has_same_permissions_as_folder(self, tmp_path, mask):
        previous_mask = os.umask(mask)
        try:
            model_folder.write(random_model(), tmp_path / "model")
        finally:
            os.umask(previous_mask)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
        folder = (tmp_path / "model").stat().st_mode
        assert modes["model.safetensors"] & 0o044 == folder & 0o044 == 0o044 & ~mask
        assert len(set(modes.values())) == 1, "all files have the same mode"

    def test_config_json_round_trips_through_model_config(self, folder):
        header = json.loads((folder / "config.json").read_text())
        config = from_dict(type(TINY), header["model"])
        assert to_dict(config) == header["model"]

    def test_mix_config_survives_write_and_read(self, tmp_path):
        config = dataclasses.replace(TINY, mix=MixConfig(3, "bilm-tf", top_only=True))
        model_folder.write(random_model(config), tmp_path / "model")
        assert read(tmp_path / "model").config.mix == config.mix

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("<S>", "</S>", "<UNK>", "", "a b", "naïve", "\u2028inside\u0085", "日本"),
            ("cat", "cat"),
        ],
    )
    def test_vocabulary_survives_write_and_read(self, tmp_path, words):
        model_folder.write(random_model(vocabulary=Vocabulary(words)), tmp_path / "model")
        vocabulary = read(tmp_path / "model").vocabulary
        assert [word.strip() for word in words] == list(vocabulary.words)

    def test_unusual_dictionary_symbols_survive_write_and_read(self, dictionaries):
        model = read(dictionaries)
        symbols = ["\ud800", "\u2028", "\\", '"', "\x00", "\U0001f600"]
        rows = list(model.characters.values())
        characters = {**model.characters, **dict(zip(symbols, rows, strict=False))}
        model_folder.write(dataclasses.replace(model, characters=characters), dictionaries)
        assert read(dictionaries).characters == characters

    @pytest.mark.parametrize("scheme", ["codepoints", "jamo"])
    def test_character_scheme_survives_write_and_read(self, tmp_path, scheme):
        characters = build_dictionary(["한국", "ab"], [2, 2], scheme)
        text = TextConfig(tokenizer="korean", characters=scheme, max_characters=12)
        encoder = dataclasses.replace(TINY.encoder, n_characters=len(characters) + 1)
        config = dataclasses.replace(TINY, text=text, encoder=encoder)
        model = random_model(config, characters=characters)
        model_folder.write(model, tmp_path / "model")
        loaded = read(tmp_path / "model")
        assert (loaded.config, loaded.characters) == (config, characters)
        first, second = (
            ELMo(source_model).encode([["한국", "ab", "x"]])[0] for source_model in (model, loaded)
        )
        assert (first == second).all()
        assert f"dictionary of {len(characters)}, 12 per word" in model_card(loaded)
        with pytest.raises(FormatError, match=f"{scheme} as characters.*AllenNLP"):
            bilm_hdf5.write(loaded, tmp_path / "other")

    def test_bfloat16_model_is_stored_as_float32(self, tmp_path):
        """The dtype of the network does not affect the dtype in the file."""
        elmo = ELMo(random_model()).to(torch.bfloat16)
        elmo.save_pretrained(tmp_path / "model")
        stored = load_file(tmp_path / "model" / "model.safetensors")
        assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
        for name, tensor in elmo.to_pretrained().weights.items():
            assert torch.equal(stored[name], tensor.float())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    def test_weights_of_any_float_dtype_are_read_as_float32(self, folder, dtype):
        expected = read(folder).weights
        weights = load_file(folder / "model.safetensors")
        weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
        save_file(weights, folder / "model.safetensors")
        for name, tensor in read(folder).weights.items():
            assert tensor.dtype == torch.float32
            assert torch.equal(tensor, expected[name].to(dtype).float())

    def test_save_pretrained_saves_current_weights(self, tmp_path):
        elmo = ELMo(random_model())
        with torch.no_grad():
            elmo.network.mixes[0].weights.add_(1.5)
            elmo.network.bilm.encoder.projection.bias.add_(1.0)
        elmo.save_pretrained(str(tmp_path / "model"))
        weights = read(tmp_path / "model").weights
        assert weights["mixes.0.weights"].tolist() == [1.5] * 3
        assert torch.equal(weights["bilm.encoder.projection.bias"], torch.ones(8))


class TestReplacingModels:
    @pytest.mark.parametrize(
        "previous_source", ["many langs", "elmo-torch folder", "hdf5, softmax included"]
    )
    def test_write_replaces_previous_model_and_keeps_other_files(self, tmp_path, previous_source):
        target = tmp_path / "target"
        ELMo.from_pretrained(**SOURCES[previous_source].make(tmp_path)).save_pretrained(target)
        (target / "mine.txt").write_text("mine")
        (target / "results").mkdir()
        model_folder.write(random_model(seed=5), target)
        names = sorted(path.name for path in target.iterdir())
        assert names == ["README.md", "config.json", "mine.txt", "model.safetensors", "results"]
        model = read(target)
        assert model.origin == "random model"
        assert model.vocabulary is model.words is model.characters is None

    def test_save_into_folder_of_another_format_does_not_change_its_files(self, tmp_path):
        source = SOURCES["NLPL folder, gzipped vocabulary"].make(tmp_path)["source"]
        ELMo.from_pretrained(source, tokenizer="english").save_pretrained(source)
        assert (source / "model.hdf5").exists()
        assert read(source).config.text.tokenizer == "english"


class TestInvalidConfig:
    @pytest.mark.parametrize(
        ("path", "value", "phrases"),
        [
            ("version", 2, ["version 2", "reads version 1", "newer elmo-torch"]),
            ("version", "1", ["version '1'"]),
            ("version", REMOVED, ["version None"]),
            ("model", REMOVED, ["model", "expected a mapping of options"]),
            ("model", [], ["model", "list"]),
            ("model.odd", 1, ["unknown option odd", "Expected: text, encoder"]),
            ("model.lstm.odd", 1, ["model.lstm: unknown option odd"]),
            ("model.lstm.cell_dim", "16", ["model.lstm.cell_dim", "'16'", "expected int"]),
            ("model.lstm.cell_dim", 16.5, ["expected int"]),
            ("model.lstm.cell_dim", True, ["expected int"]),
            ("model.lstm.cell_dim", None, ["expected int"]),
            ("model.lstm.cell_dim", 0, ["cell_dim must be at least 1"]),
            ("model.lstm.cell_dim", 17, ["(64, 8)", "(68, 8)", "different models"]),
            ("model.lstm.cell_dim", 8, ["do not match"]),
            ("model.lstm.cell_dim", 10**30, ["sizes"]),
            ("model.lstm.n_layers", 3, ["Missing", "layers.2"]),
            ("model.lstm.n_layers", -1, ["n_layers must be at least 1"]),
            ("model.lstm.cell_clip", -3.0, ["cell_clip must be positive"]),
            ("model.encoder.filters", [[1, 4, 2]], ["filters", "expected 2 values (got 3)"]),
            ("model.encoder.filters", [[1, 4], [2, 8], [13, 8]], ["width 13"]),
            ("model.encoder.filters", [1, 4], ["filters"]),
            ("model.encoder.filters", [], ["at least one filter"]),
            ("model.encoder.activation", "gelu", ["'gelu'", "relu, tanh"]),
            ("model.encoder.n_characters", 100, ["(262, 4)", "(100, 4)"]),
            ("model.encoder.n_characters", 0, ["has no input"]),
            ("model.encoder.character_dim", -4, ["sizes"]),
            ("model.encoder.n_words", 5, ["no file words.json"]),
            ("model.encoder.word_role", "guess", ["'guess'", "join, cache"]),
            ("model.text.characters", "none", ["contradict each other"]),
            ("model.text.characters", "dictionary", ["no file characters.json"]),
            ("model.text.max_characters", 1, ["at least 3"]),
            ("model.text.special_tokens", ["<S>"], ["expected 3 values (got 1)"]),
            ("model.n_softmax_words", 7, ["softmax"]),
            ("model.n_softmax_words", -7, ["sizes"]),
            ("model.mix.n_mixes", 2, ["Missing", "mixes.1"]),
            ("model.mix.layer_norm", "batch", ["'batch'"]),
            ("notes", 5, ["notes is 5, expected a list"]),
            ("notes", None, ["notes is None"]),
            ("notes", "abc", ["notes is 'abc'"]),
            ("options", [1], ["options is of type list, expected a JSON object"]),
        ],
    )
    def test_read_rejects_invalid_config_value(self, folder, path, value, phrases):
        change(folder, path, value)
        assert_error(lambda: read(folder), *phrases, error_type=FormatError)

    def test_read_rejects_unknown_tokenizer(self, folder):
        change(folder, "model.text.tokenizer", "klingon")
        assert_error(
            lambda: ELMo.from_pretrained(folder), "klingon", "english", error_type=ConfigError
        )

    @pytest.mark.parametrize("path", ["format", "version"])
    def test_read_rejects_folder_written_by_another_program(self, folder, path):
        """Only the value of `format` identifies a model folder."""
        change(folder, path, "bert")
        phrase = "contains no model" if path == "format" else "version 'bert'"
        assert_error(lambda: read(folder), phrase, error_type=FormatError)

    @pytest.mark.parametrize("path", ["notes", "origin"])
    def test_notes_and_origin_in_config_are_optional(self, folder, path):
        change(folder, path, REMOVED)
        model = read(folder)
        assert model.notes == (() if path == "notes" else ("a correction",))
        assert model.origin == ("elmo-torch folder" if path == "origin" else "random model")

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[1]", b"\xff\xfe", b"{" * 99_999, b'{"format": "elmo-torch"']
    )
    def test_read_rejects_config_that_is_not_json(self, folder, content):
        (folder / "config.json").write_bytes(content)
        assert_error(lambda: read(folder), str(folder), error_type=FormatError)

    def test_lone_surrogate_in_config_survives_write_and_read(self, folder):
        """JSON can represent a lone surrogate, but UTF-8 cannot."""
        change(folder, "origin", "\ud800")
        model = read(folder)
        model_folder.write(model, folder)
        assert read(folder).origin == "\ud800"


class TestCompactStorage:
    @pytest.fixture
    def small(self, tmp_path):
        """Return an int8 model folder that includes softmax weights and a vocabulary."""
        config = dataclasses.replace(TINY, n_softmax_words=len(VOCABULARY))
        model = random_model(config, vocabulary=Vocabulary(VOCABULARY))
        model_folder.write(model, tmp_path / "small", "int8")
        return tmp_path / "small"

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
    def test_weights_in_every_storage_dtype_are_written_and_read(self, tmp_path, dtype):
        model = random_model()
        ELMo(model).save_pretrained(tmp_path / "model", storage=dtype)
        stored = load_file(tmp_path / "model" / "model.safetensors")
        for name, tensor in pack(model.weights, dtype).items():
            assert stored[name].dtype == tensor.dtype
            assert torch.equal(stored[name], tensor)
        loaded = read(tmp_path / "model")
        assert loaded.storage.startswith(f"{dtype}, 0.0")
        assert loaded.weights.keys() == model.weights.keys()
        for name, tensor in unpack(stored, "").items():
            assert loaded.weights[name].dtype == torch.float32
            assert torch.equal(loaded.weights[name], tensor)

    def test_int8_vectors_are_close_to_float32(self, tmp_path):
        elmo = ELMo(random_model(scale=1.5))
        elmo.save_pretrained(tmp_path / "model", storage="int8")
        sentence = [["He", "sat", "on", "the", "river", "bank", "."]]
        first = elmo.encode(sentence, layers="all")[0]
        second = ELMo.from_pretrained(tmp_path / "model").encode(sentence, layers="all")[0]
        norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
        cosines = (first * second).sum(-1) / norms
        assert 0.998 < cosines.min() < cosines.max() < 1.0001
        assert (first != second).any()

    def test_compact_storage_reduces_file_size(self, tmp_path):
        encoder = dataclasses.replace(TINY.encoder, filters=((1, 64), (2, 64)))
        model = random_model(dataclasses.replace(TINY, encoder=encoder))
        sizes = {}
        for dtype in ("float32", "float16", "int8"):
            model_folder.write(model, tmp_path / dtype, dtype)
            tensors = load_file(tmp_path / dtype / "model.safetensors").values()
            sizes[dtype] = sum(tensor.nbytes for tensor in tensors)
        assert sizes["float16"] == sizes["float32"] / 2
        assert 0.25 < sizes["int8"] / sizes["float32"] < 0.3

    def test_rewriting_int8_as_float32_removes_scales(self, tmp_path, small):
        """The new file must not contain the scales of the previous int8 weights."""
        model = read(small)
        model_folder.write(model, small)
        assert not [name for name in load_file(small / "model.safetensors") if "scale" in name]
        reloaded = read(small)
        assert reloaded.storage.startswith("float32")
        for name, tensor in model.weights.items():
            assert torch.equal(reloaded.weights[name], tensor)

    def test_write_with_unknown_storage_creates_no_files(self, tmp_path):
        assert_error(
            lambda: ELMo(random_model()).save_pretrained(tmp_path / "model", storage="int4"),
            "Unknown storage 'int4'. Expected one of: float32, float16, int8",
            error_type=ConfigError,
        )
        assert not (tmp_path / "model").exists()

    @pytest.mark.parametrize("dtype", ["float16", "int8"])
    def test_write_rejects_weights_with_nan(self, tmp_path, dtype):
        elmo = ELMo(random_model())
        elmo.network.bilm.encoder.projection.weight.data[1, 2] = float("nan")
        assert_error(
            lambda: elmo.save_pretrained(tmp_path / "model", storage=dtype),
            "bilm.encoder.projection.weight contains NaN",
            error_type=FormatError,
        )
        assert not (tmp_path / "model").exists()

    @pytest.mark.parametrize(
        ("damage", "phrases"),
        [
            (
                lambda stored: stored.pop("softmax.weight"),
                ["softmax.weight.scale is a scale, but the int8 matrix softmax.weight is missing"],
            ),
            (
                lambda stored: stored.pop("softmax.weight.scale"),
                ["softmax.weight is int8", "softmax.weight.scale are missing"],
            ),
            (
                lambda stored: stored.update({"softmax.weight.scale": torch.ones(3).half()}),
                ["softmax.weight.scale has shape (3,)", "expected (8,)"],
            ),
            (
                lambda stored: stored["softmax.weight.scale"].fill_(float("nan")),
                ["softmax.weight contains NaN"],
            ),
            (
                lambda stored: stored["softmax.weight.scale"].fill_(float("inf")),
                ["softmax.weight contains NaN"],
            ),
            (
                lambda stored: stored.update({"softmax.bias": stored["softmax.bias"].char()}),
                ["softmax.bias is int8", "softmax.bias.scale are missing"],
            ),
        ],
        ids=[
            "missing matrix",
            "missing scale",
            "scale shape",
            "nan scale",
            "inf scale",
            "int8 bias",
        ],
    )
    def test_read_rejects_damaged_int8_weights(self, small, damage, phrases):
        stored = load_file(small / "model.safetensors")
        damage(stored)
        save_file(stored, small / "model.safetensors")
        assert_error(
            lambda: read(small), f"{small}: model.safetensors: ", *phrases, error_type=FormatError
        )


class TestDamagedFiles:
    def test_read_rejects_folder_without_weight_file(self, folder):
        (folder / "model.safetensors").unlink()
        assert_error(
            lambda: read(folder), "no file model.safetensors", "config.json", error_type=FormatError
        )

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\0" * 8,
            b"\xff" * 64,
            (2).to_bytes(8, "little") + b"{}",
            (4).to_bytes(8, "little") + b"\xff\xff\xff\xff",
            (20).to_bytes(8, "little") + b'{"a": {"dtype": 1}} ',
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        ],
        ids=repr,
    )
    def test_read_rejects_invalid_weight_file(self, folder, content):
        (folder / "model.safetensors").write_bytes(content)
        assert_error(lambda: read(folder), error_type=FormatError)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_read_rejects_nan_and_infinite_weights(self, folder, value):
        weights = load_file(folder / "model.safetensors")
        weights["softmax.bias"][3] = value
        save_file(weights, folder / "model.safetensors")
        assert_error(
            lambda: read(folder),
            "model.safetensors: softmax.bias contains NaN",
            error_type=FormatError,
        )

    @pytest.mark.parametrize("name", ["mixes.0.gamma", "softmax.weight"])
    def test_read_rejects_missing_and_unexpected_tensors(self, folder, name):
        weights = load_file(folder / "model.safetensors")
        weights[f"{name}.extra"] = weights.pop(name)
        save_file(weights, folder / "model.safetensors")
        assert_error(
            lambda: read(folder),
            f"Missing: {name}",
            f"Unexpected: {name}.extra",
            error_type=FormatError,
        )

    @pytest.mark.parametrize(
        ("content", "phrases"),
        [(b"a\nb\n", ["8 words", "vocabulary has 2"]), (b"\xff", ["not UTF-8 at line 1"])],
    )
    def test_read_rejects_model_folder_with_invalid_vocabulary(self, folder, content, phrases):
        (folder / "vocab.txt").write_bytes(content)
        assert_error(lambda: read(folder), *phrases, error_type=FormatError)

    @pytest.mark.parametrize("name", ["characters.json", "words.json"])
    @pytest.mark.parametrize(
        "content",
        [
            None,
            b"",
            b'["a", 1]',
            b'{"a": "1"}',
            b'{"a": 1.5}',
            b'{"a": true}',
            b'{"a": 99}',
            b'{"a": -1}',
        ],
    )
    def test_read_rejects_model_folder_with_invalid_dictionary(self, dictionaries, name, content):
        if content is None:
            (dictionaries / name).unlink()
        else:
            (dictionaries / name).write_bytes(content)
        dictionary_name = name.removesuffix("s.json")
        assert_error(lambda: read(dictionaries), dictionary_name, error_type=FormatError)

    @pytest.mark.parametrize("name", ["characters.json", "words.json"])
    def test_read_rejects_duplicate_dictionary_entry(self, dictionaries, name):
        (dictionaries / name).write_text('["a", "b", "a"]')
        phrase = f"{dictionaries}: {name} contains 'a' twice, with ids 0 and 2"
        assert_error(lambda: read(dictionaries), phrase, error_type=FormatError)

    @pytest.mark.parametrize("name", ["characters.json", "words.json"])
    @pytest.mark.parametrize("content", ['{"a": 1}', '["a"]', "[]"])
    def test_read_rejects_dictionary_without_special_symbols(self, dictionaries, name, content):
        (dictionaries / name).write_text(content)
        phrase = "has no <bos>" if name == "characters.json" else "lacks <bos>"
        assert_error(lambda: ELMo.from_pretrained(dictionaries), phrase)


def test_is_folder_checks_format_key_in_config(folder, tmp_path):
    assert model_folder.is_folder(open_folder(folder))
    assert not model_folder.is_folder(open_folder(tmp_path))
    (tmp_path / "config.json").write_text("[]")
    assert not model_folder.is_folder(open_folder(tmp_path))


def test_write_rejects_folder_with_other_files(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    user_files = {
        "README.md": "mine",
        "vocab.txt": "w",
        "config.json": '{"mine": 1}',
        "words.json": "{}",
    }
    for name, content in user_files.items():
        (folder / name).write_text(content)
    with pytest.raises(OutputError, match=r"README\.md, which would be overwritten"):
        ELMo(random_model()).save_pretrained(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == user_files
