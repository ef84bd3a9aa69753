"""Tests of our own folder: what it holds, and every way in which one can be spoiled."""

import dataclasses
import json
import os

import numpy as np
import pytest
import torch
from builders import VOCABULARY
from conftest import TINY, random_model
from safetensors.torch import load_file, save_file
from sources import SOURCES, many_langs, own_folder, refused

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
    return own_folder(tmp_path)["source"]


@pytest.fixture
def dictionaries(tmp_path):
    """A folder with both dictionaries."""
    ELMo.from_pretrained(**many_langs().make(tmp_path)).save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def change(folder, path, value):
    """Change one key of config.json; `path` is such as `model.lstm.cell_dim`."""
    head = json.loads((folder / "config.json").read_text())
    *sections, key = path.split(".")
    section = head
    for name in sections:
        section = section[name]
    if value is REMOVED:
        del section[key]
    else:
        section[key] = value
    (folder / "config.json").write_text(json.dumps(head))


class TestWhatIsWritten:
    def test_files(self, folder):
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["README.md", "config.json", "model.safetensors", "vocab.txt"]
        head = json.loads((folder / "config.json").read_text())
        assert (head["format"], head["version"]) == ("elmo-torch", 1)
        assert (head["origin"], head["notes"]) == ("random model", ["mended"])
        assert head["model"]["n_softmax_words"] == len(VOCABULARY)
        assert (folder / "vocab.txt").read_text("utf-8").split("\n")[:-1] == list(VOCABULARY)

    def test_weights_can_be_read_without_us(self, folder):
        weights = load_file(folder / "model.safetensors")
        model = model_folder.read(open_folder(folder))
        assert weights.keys() == model.weights.keys()
        for name, tensor in weights.items():
            assert tensor.dtype == torch.float32
            assert torch.equal(tensor, model.weights[name])

    def test_dictionaries(self, dictionaries):
        """Where numbers count from 0 the order tells them; read, they are the same."""
        model = read(dictionaries)
        for name, entries in (("words.json", model.words), ("characters.json", model.characters)):
            listed = json.loads((dictionaries / name).read_text("utf-8"))
            assert listed == list(entries)
            assert list(entries.values()) == list(range(len(entries)))
        assert model.words["好"] == 6
        assert "好" in (dictionaries / "words.json").read_text("utf-8")

    def test_a_dictionary_that_does_not_count_from_0(self, dictionaries):
        model = read(dictionaries)
        words = dict(reversed(model.words.items()))
        model_folder.write(dataclasses.replace(model, words=words), dictionaries)
        assert json.loads((dictionaries / "words.json").read_text("utf-8")) == words
        assert read(dictionaries).words == model.words

    @pytest.mark.parametrize("mask", [0o022, 0o077])
    def test_weights_can_be_read_by_whom_the_folder_can(self, tmp_path, mask):
        older = os.umask(mask)
        try:
            model_folder.write(random_model(), tmp_path / "model")
        finally:
            os.umask(older)
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()}
        folder = (tmp_path / "model").stat().st_mode
        assert modes["model.safetensors"] & 0o044 == folder & 0o044 == 0o044 & ~mask
        assert len(set(modes.values())) == 1, "all files alike"

    def test_the_config_is_plain_data(self, folder):
        head = json.loads((folder / "config.json").read_text())
        config = from_dict(type(TINY), head["model"])
        assert to_dict(config) == head["model"]

    def test_mixes_and_their_kind(self, tmp_path):
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
    def test_vocabularies(self, tmp_path, words):
        model_folder.write(random_model(vocabulary=Vocabulary(words)), tmp_path / "model")
        found = read(tmp_path / "model").vocabulary
        assert [word.strip() for word in words] == list(found.words)

    def test_odd_symbols_in_dictionaries(self, dictionaries):
        model = read(dictionaries)
        odd = ["\ud800", "\u2028", "\\", '"', "\x00", "\U0001f600"]
        rows = list(model.characters.values())
        characters = {**model.characters, **dict(zip(odd, rows, strict=False))}
        model_folder.write(dataclasses.replace(model, characters=characters), dictionaries)
        assert read(dictionaries).characters == characters

    @pytest.mark.parametrize("scheme", ["codepoints", "jamo"])
    def test_character_schemes(self, tmp_path, scheme):
        characters = build_dictionary(["한국", "ab"], [2, 2], scheme)
        text = TextConfig(tokenizer="korean", characters=scheme, max_characters=12)
        encoder = dataclasses.replace(TINY.encoder, n_characters=len(characters) + 1)
        config = dataclasses.replace(TINY, text=text, encoder=encoder)
        model = random_model(config, characters=characters)
        model_folder.write(model, tmp_path / "model")
        found = read(tmp_path / "model")
        assert (found.config, found.characters) == (config, characters)
        first, second = (ELMo(each).encode([["한국", "ab", "x"]])[0] for each in (model, found))
        assert (first == second).all()
        assert f"dictionary of {len(characters)}, 12 a word" in model_card(found)
        with pytest.raises(FormatError, match=f"{scheme} as characters.*AllenNLP"):
            bilm_hdf5.write(found, tmp_path / "other")

    def test_a_model_of_another_precision_is_stored_as_asked(self, tmp_path):
        """What is computed with does not decide what is stored."""
        elmo = ELMo(random_model()).to(torch.bfloat16)
        elmo.save_pretrained(tmp_path / "model")
        stored = load_file(tmp_path / "model" / "model.safetensors")
        assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
        for name, tensor in elmo.to_pretrained().weights.items():
            assert torch.equal(stored[name], tensor.float())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    def test_weights_of_any_float_type_are_read_as_float32(self, folder, dtype):
        expected = read(folder).weights
        weights = load_file(folder / "model.safetensors")
        weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
        save_file(weights, folder / "model.safetensors")
        for name, tensor in read(folder).weights.items():
            assert tensor.dtype == torch.float32
            assert torch.equal(tensor, expected[name].to(dtype).float())

    def test_a_trained_model_is_saved_as_it_is_now(self, tmp_path):
        elmo = ELMo(random_model())
        with torch.no_grad():
            elmo.network.mixes[0].weights.add_(1.5)
            elmo.network.bilm.encoder.projection.bias.add_(1.0)
        elmo.save_pretrained(str(tmp_path / "model"))
        weights = read(tmp_path / "model").weights
        assert weights["mixes.0.weights"].tolist() == [1.5] * 3
        assert torch.equal(weights["bilm.encoder.projection.bias"], torch.ones(8))


class TestOverAnOlderModel:
    @pytest.mark.parametrize("older", ["many langs", "our folder", "hdf5, softmax inside"])
    def test_nothing_of_it_is_left_but_what_is_not_ours(self, tmp_path, older):
        target = tmp_path / "target"
        ELMo.from_pretrained(**SOURCES[older].make(tmp_path)).save_pretrained(target)
        (target / "mine.txt").write_text("mine")
        (target / "results").mkdir()
        model_folder.write(random_model(seed=5), target)
        names = sorted(path.name for path in target.iterdir())
        assert names == ["README.md", "config.json", "mine.txt", "model.safetensors", "results"]
        model = read(target)
        assert model.origin == "random model"
        assert model.vocabulary is model.words is model.characters is None

    def test_over_another_programs_folder(self, tmp_path):
        source = SOURCES["NLPL folder, gzipped words"].make(tmp_path)["source"]
        ELMo.from_pretrained(source, tokenizer="english").save_pretrained(source)
        assert (source / "model.hdf5").exists()
        assert read(source).config.text.tokenizer == "english"


class TestSpoiledConfig:
    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            ("version", 2, ["version 2", "reads version 1", "newer elmo-torch"]),
            ("version", "1", ["version '1'"]),
            ("version", REMOVED, ["version None"]),
            ("model", REMOVED, ["model", "expected names with values"]),
            ("model", [], ["model", "list"]),
            ("model.odd", 1, ["unknown name odd", "known: text, encoder"]),
            ("model.lstm.odd", 1, ["model.lstm: unknown name odd"]),
            ("model.lstm.cell_dim", "16", ["model.lstm.cell_dim", "'16'", "expected int"]),
            ("model.lstm.cell_dim", 16.5, ["expected int"]),
            ("model.lstm.cell_dim", True, ["expected int"]),
            ("model.lstm.cell_dim", None, ["expected int"]),
            ("model.lstm.cell_dim", 0, ["cell_dim must be at least 1"]),
            ("model.lstm.cell_dim", 17, ["(64, 8)", "(68, 8)", "two models"]),
            ("model.lstm.cell_dim", 8, ["do not fit"]),
            ("model.lstm.cell_dim", 10**30, ["sizes"]),
            ("model.lstm.n_layers", 3, ["missing", "layers.2"]),
            ("model.lstm.n_layers", -1, ["n_layers must be at least 1"]),
            ("model.lstm.cell_clip", -3.0, ["cell_clip must be positive"]),
            ("model.encoder.filters", [[1, 4, 2]], ["filters", "3 values"]),
            ("model.encoder.filters", [[1, 4], [2, 8], [13, 8]], ["13 wide"]),
            ("model.encoder.filters", [1, 4], ["filters"]),
            ("model.encoder.filters", [], ["at least one filter"]),
            ("model.encoder.activation", "gelu", ["'gelu'", "relu, tanh"]),
            ("model.encoder.n_characters", 100, ["(262, 4)", "(100, 4)"]),
            ("model.encoder.n_characters", 0, ["neither characters nor words"]),
            ("model.encoder.character_dim", -4, ["sizes"]),
            ("model.encoder.n_words", 5, ["no words.json"]),
            ("model.encoder.word_role", "guess", ["'guess'", "join, cache"]),
            ("model.text.characters", "none", ["disagree"]),
            ("model.text.characters", "dictionary", ["no characters.json"]),
            ("model.text.max_characters", 1, ["at least 3"]),
            ("model.text.word_marks", ["<S>"], ["1 values, expected 3"]),
            ("model.n_softmax_words", 7, ["softmax"]),
            ("model.n_softmax_words", -7, ["sizes"]),
            ("model.mix.n_mixes", 2, ["missing", "mixes.1"]),
            ("model.mix.layer_norm", "batch", ["'batch'"]),
            ("notes", 5, ["notes is 5, expected a list"]),
            ("notes", None, ["notes is None"]),
            ("notes", "abc", ["notes is 'abc'"]),
        ],
    )
    def test_a_value_that_makes_no_sense(self, folder, path, value, words):
        change(folder, path, value)
        refused(lambda: read(folder), *words, kind=FormatError)

    def test_an_unknown_tokeniser(self, folder):
        change(folder, "model.text.tokenizer", "klingon")
        refused(lambda: ELMo.from_pretrained(folder), "klingon", "english", kind=ConfigError)

    @pytest.mark.parametrize("path", ["format", "version"])
    def test_a_folder_of_another_program(self, folder, path):
        """Without our name it is not ours, whatever else is in it."""
        change(folder, path, "bert")
        word = "holds no model" if path == "format" else "version 'bert'"
        refused(lambda: read(folder), word, kind=FormatError)

    @pytest.mark.parametrize("path", ["notes", "origin"])
    def test_what_may_be_missing(self, folder, path):
        change(folder, path, REMOVED)
        model = read(folder)
        assert model.notes == (() if path == "notes" else ("mended",))
        assert model.origin == ("elmo-torch folder" if path == "origin" else "random model")

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[1]", b"\xff\xfe", b"{" * 99_999, b'{"format": "elmo-torch"']
    )
    def test_no_json(self, folder, content):
        (folder / "config.json").write_bytes(content)
        refused(lambda: read(folder), str(folder), kind=FormatError)

    def test_text_that_cannot_be_written_as_utf8(self, folder):
        """JSON can spell half a surrogate pair, UTF-8 cannot."""
        change(folder, "origin", "\ud800")
        model = read(folder)
        model_folder.write(model, folder)
        assert read(folder).origin == "\ud800"


class TestFewerBytes:
    @pytest.fixture
    def small(self, tmp_path):
        """A folder in int8 whose model has every kind of tensor."""
        config = dataclasses.replace(TINY, n_softmax_words=len(VOCABULARY))
        model = random_model(config, vocabulary=Vocabulary(VOCABULARY))
        model_folder.write(model, tmp_path / "small", "int8")
        return tmp_path / "small"

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
    def test_what_is_stored_and_read(self, tmp_path, dtype):
        model = random_model()
        ELMo(model).save_pretrained(tmp_path / "model", dtype=dtype)
        stored = load_file(tmp_path / "model" / "model.safetensors")
        for name, tensor in pack(model.weights, dtype).items():
            assert stored[name].dtype == tensor.dtype
            assert torch.equal(stored[name], tensor)
        found = read(tmp_path / "model")
        assert found.storage.startswith(f"{dtype}, 0.0")
        assert found.weights.keys() == model.weights.keys()
        for name, tensor in unpack(stored, "").items():
            assert found.weights[name].dtype == torch.float32
            assert torch.equal(found.weights[name], tensor)

    def test_vectors_stay_close(self, tmp_path):
        elmo = ELMo(random_model(scale=1.5))
        elmo.save_pretrained(tmp_path / "model", dtype="int8")
        sentence = [["He", "sat", "on", "the", "river", "bank", "."]]
        first = elmo.encode(sentence, layers="all")[0]
        second = ELMo.from_pretrained(tmp_path / "model").encode(sentence, layers="all")[0]
        norms = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
        cosines = (first * second).sum(-1) / norms
        assert 0.998 < cosines.min() < cosines.max() < 1.0001
        assert (first != second).any()

    def test_size(self, tmp_path):
        encoder = dataclasses.replace(TINY.encoder, filters=((1, 64), (2, 64)))
        model = random_model(dataclasses.replace(TINY, encoder=encoder))
        sizes = {}
        for dtype in ("float32", "float16", "int8"):
            model_folder.write(model, tmp_path / dtype, dtype)
            tensors = load_file(tmp_path / dtype / "model.safetensors").values()
            sizes[dtype] = sum(tensor.nbytes for tensor in tensors)
        assert sizes["float16"] == sizes["float32"] / 2
        assert 0.25 < sizes["int8"] / sizes["float32"] < 0.3

    def test_int8_over_float32_and_back(self, tmp_path, small):
        """The scales of the one do not stay behind in the other."""
        model = read(small)
        model_folder.write(model, small)
        assert not [name for name in load_file(small / "model.safetensors") if "scale" in name]
        again = read(small)
        assert again.storage.startswith("float32")
        for name, tensor in model.weights.items():
            assert torch.equal(again.weights[name], tensor)

    def test_an_unknown_type_leaves_nothing(self, tmp_path):
        refused(
            lambda: ELMo(random_model()).save_pretrained(tmp_path / "model", dtype="int4"),
            "dtype is 'int4'; expected float32, float16, int8",
            kind=ConfigError,
        )
        assert not (tmp_path / "model").exists()

    @pytest.mark.parametrize("dtype", ["float16", "int8"])
    def test_nan_is_not_written(self, tmp_path, dtype):
        elmo = ELMo(random_model())
        elmo.network.bilm.encoder.projection.weight.data[1, 2] = float("nan")
        refused(
            lambda: elmo.save_pretrained(tmp_path / "model", dtype=dtype),
            "bilm.encoder.projection.weight holds NaN",
            kind=FormatError,
        )
        assert not (tmp_path / "model").exists()

    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (
                lambda stored: stored.pop("softmax.weight"),
                ["softmax.weight.scale has no int8 matrix softmax.weight"],
            ),
            (
                lambda stored: stored.pop("softmax.weight.scale"),
                ["softmax.weight is int8", "no softmax.weight.scale"],
            ),
            (
                lambda stored: stored.update({"softmax.weight.scale": torch.ones(3).half()}),
                ["softmax.weight.scale has shape (3,)", "expected (8,)"],
            ),
            (
                lambda stored: stored["softmax.weight.scale"].fill_(float("nan")),
                ["softmax.weight holds NaN"],
            ),
            (
                lambda stored: stored["softmax.weight.scale"].fill_(float("inf")),
                ["softmax.weight holds NaN"],
            ),
            (
                lambda stored: stored.update({"softmax.bias": stored["softmax.bias"].char()}),
                ["softmax.bias is int8", "no softmax.bias.scale"],
            ),
        ],
        ids=["matrix gone", "scale gone", "shape", "nan", "inf", "bias"],
    )
    def test_spoiled(self, small, spoil, words):
        stored = load_file(small / "model.safetensors")
        spoil(stored)
        save_file(stored, small / "model.safetensors")
        refused(lambda: read(small), f"{small}: model.safetensors: ", *words, kind=FormatError)


class TestSpoiledFiles:
    def test_missing(self, folder):
        (folder / "model.safetensors").unlink()
        refused(lambda: read(folder), "no model.safetensors", "config.json", kind=FormatError)

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
    def test_weights_that_are_none(self, folder, content):
        (folder / "model.safetensors").write_bytes(content)
        refused(lambda: read(folder), kind=FormatError)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_values(self, folder, value):
        weights = load_file(folder / "model.safetensors")
        weights["softmax.bias"][3] = value
        save_file(weights, folder / "model.safetensors")
        refused(lambda: read(folder), "model.safetensors: softmax.bias holds NaN", kind=FormatError)

    @pytest.mark.parametrize("name", ["mixes.0.gamma", "softmax.weight"])
    def test_a_tensor_that_is_missing_or_too_much(self, folder, name):
        weights = load_file(folder / "model.safetensors")
        weights[f"{name}.odd"] = weights.pop(name)
        save_file(weights, folder / "model.safetensors")
        refused(
            lambda: read(folder), f"missing {name}", f"not expected {name}.odd", kind=FormatError
        )

    @pytest.mark.parametrize(
        ("content", "words"),
        [(b"a\nb\n", ["8 words", "vocabulary 2"]), (b"\xff", ["not UTF-8 at line 1"])],
    )
    def test_vocabulary(self, folder, content, words):
        (folder / "vocab.txt").write_bytes(content)
        refused(lambda: read(folder), *words, kind=FormatError)

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
    def test_dictionaries(self, dictionaries, name, content):
        if content is None:
            (dictionaries / name).unlink()
        else:
            (dictionaries / name).write_bytes(content)
        kind = name.removesuffix("s.json")
        refused(lambda: read(dictionaries), kind, kind=FormatError)

    @pytest.mark.parametrize("name", ["characters.json", "words.json"])
    def test_an_entry_twice(self, dictionaries, name):
        (dictionaries / name).write_text('["a", "b", "a"]')
        words = f"{dictionaries}: {name} has 'a' twice, at 0 and 2"
        refused(lambda: read(dictionaries), words, kind=FormatError)

    @pytest.mark.parametrize("name", ["characters.json", "words.json"])
    @pytest.mark.parametrize("content", ['{"a": 1}', '["a"]', "[]"])
    def test_a_dictionary_without_its_marks(self, dictionaries, name, content):
        (dictionaries / name).write_text(content)
        refused(lambda: ELMo.from_pretrained(dictionaries), "has no <bos>")


def test_is_folder(folder, tmp_path):
    assert model_folder.is_folder(open_folder(folder))
    assert not model_folder.is_folder(open_folder(tmp_path))
    (tmp_path / "config.json").write_text("[]")
    assert not model_folder.is_folder(open_folder(tmp_path))


def test_files_that_are_not_ours_are_not_touched(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    mine = {"README.md": "mine", "vocab.txt": "w", "config.json": '{"mine": 1}', "words.json": "{}"}
    for name, content in mine.items():
        (folder / name).write_text(content)
    with pytest.raises(OutputError, match=r"README\.md there would be lost"):
        ELMo(random_model()).save_pretrained(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == mine
