"""Tests of `info` and `convert` as functions: results, their text, their JSON."""

import dataclasses
import json

import pytest
from builders import SENTENCES, VOCABULARY, hdf5_folder, make_options, vocabulary_bytes
from conftest import random_model
from sources import SOURCES, assert_same_model, refused, snapshot

from elmo.config import ConvertConfig, InfoConfig, ModelConfig
from elmo.config.serialization import from_dict
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.formats.info_and_convert import convert, info
from elmo.formats.load import read

# One of each origin; the tests of `load` go through all of them.
every_origin = pytest.mark.parametrize(
    "name",
    [
        "hdf5, softmax inside",
        "hdf5, word ids",
        "checkpoint",
        "archive",
        "many langs, zip",
        "our folder",
    ],
)


class TestInfo:
    @every_origin
    def test_every_format(self, tmp_path, name):
        origin, make = SOURCES[name]
        path = make(tmp_path)["source"]
        model = read(path)
        result = info(InfoConfig(str(path)))
        assert result.rows["format"] == origin
        assert result.rows["parameters"] == model.n_parameters
        assert result.notes == model.notes
        assert ("vocabulary" in result.rows) == (model.vocabulary is not None)
        as_json = json.loads(str(dataclasses.replace(result, as_json=True)))
        assert from_dict(ModelConfig, as_json.pop("config")) == model.config
        assert as_json.pop("notes") == list(model.notes)
        assert as_json == result.rows

    def test_text(self, tmp_path):
        folder = SOURCES["checkpoint"].make(tmp_path)["source"]
        lines = str(info(InfoConfig(str(folder)))).splitlines()
        values = dict(line.split("  ", 1) for line in lines if not line.startswith("note: "))
        values = {name.strip(): value.strip() for name, value in values.items()}
        assert values["format"] == "bilm-tf TensorFlow checkpoint"
        assert values["parameters"] == f"{read(folder).n_parameters:,}"
        assert values["vocabulary"] == "8 words"
        assert values["softmax"] == "8 words"
        assert len({line.index(line.split("  ")[-1].strip()) for line in lines[:3]}) == 1
        notes = [line for line in lines if line.startswith("note: ")]
        assert len(notes) == 1
        assert "261" in notes[0]

    def test_json_is_asked_for_by_the_config(self, tmp_path):
        folder = SOURCES["hdf5, plain"].make(tmp_path)["source"]
        result = info(InfoConfig(str(folder), json=True))
        assert json.loads(str(result))["vector width"] == 16

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
    def test_storage_of_our_folder(self, tmp_path, dtype):
        ELMo(random_model()).save_pretrained(tmp_path / "model", dtype)
        size = (tmp_path / "model" / "model.safetensors").stat().st_size
        result = info(InfoConfig(str(tmp_path / "model")))
        told, megabytes, unit = result.rows["weights"].split()
        assert (told, unit) == (f"{dtype},", "MB")
        assert float(megabytes) == pytest.approx(size / 1e6, abs=0.06)
        folder = hdf5_folder(tmp_path / "old")
        assert "weights" not in info(InfoConfig(str(folder))).rows

    def test_options_elsewhere(self, tmp_path):
        source = SOURCES["hdf5, options apart"].make(tmp_path)
        result = info(InfoConfig(str(source["weights"]), options=str(source["options"])))
        assert result.rows["layers"] == 3

    def test_no_model(self, tmp_path):
        refused(lambda: info(InfoConfig(str(tmp_path))), "holds no model", kind=FormatError)


class TestConvert:
    @every_origin
    def test_to_our_folder(self, tmp_path, name):
        path = SOURCES[name].make(tmp_path)["source"]
        output = str(tmp_path / "converted")
        result = convert(ConvertConfig(str(path), output, tokenizer="english"))
        assert (result.output, result.to) == (output, "native")
        assert result.origin == SOURCES[name].origin
        assert_same_model(
            ELMo.from_pretrained(output), ELMo.from_pretrained(path, tokenizer="english")
        )

    def test_text(self, tmp_path):
        path = SOURCES["checkpoint"].make(tmp_path)["source"]
        lines = str(convert(ConvertConfig(str(path), str(tmp_path / "out")))).splitlines()
        origin = SOURCES["checkpoint"].origin
        assert lines[0] == f"{tmp_path / 'out'}: written as native, read from {origin}"
        assert len(lines) == 2
        assert lines[1].startswith("note: ")

    @pytest.mark.parametrize("dtype", ["float16", "int8"])
    def test_in_fewer_bytes(self, tmp_path, dtype):
        path, output = SOURCES["archive"].make(tmp_path)["source"], tmp_path / "out"
        result = convert(ConvertConfig(str(path), str(output), dtype=dtype))
        assert str(result).startswith(f"{output}: written as native in {dtype}, read from ")
        assert read(output).storage.startswith(dtype)
        assert f"stored as {dtype}" in (output / "README.md").read_text()
        convert(ConvertConfig(str(output), str(tmp_path / "again"), dtype=dtype))
        assert snapshot(tmp_path / "again") == snapshot(output)
        convert(ConvertConfig(str(output), str(tmp_path / "wide")))
        assert_same_model(ELMo.from_pretrained(tmp_path / "wide"), ELMo.from_pretrained(output))

    def test_to_allennlp(self, tmp_path):
        path = SOURCES["archive"].make(tmp_path)["source"]
        result = convert(ConvertConfig(str(path), str(tmp_path / "old"), to="allennlp"))
        assert result.to == "allennlp"
        names = sorted(item.name for item in (tmp_path / "old").iterdir())
        assert names == ["options.json", "weights.hdf5"]
        written = json.loads((tmp_path / "old" / "options.json").read_text())
        expected = make_options()
        expected["char_cnn"]["max_characters_per_token"] = 50
        assert written == expected
        for found, wanted in zip(
            ELMo.from_pretrained(tmp_path / "old").encode(SENTENCES, layers="all"),
            ELMo.from_pretrained(path).encode(SENTENCES, layers="all"),
            strict=True,
        ):
            assert abs(found - wanted).max(initial=0) < 1e-6

    @pytest.mark.parametrize(
        ("name", "word"),
        [
            ("hdf5, word ids", "word ids"),
            ("many langs", "character dictionary"),
            ("many langs, zip", "character dictionary"),
            ("checkpoint, word ids", "word ids"),
        ],
    )
    def test_what_allennlp_cannot_hold(self, tmp_path, name, word):
        path = SOURCES[name].make(tmp_path)["source"]
        config = ConvertConfig(str(path), str(tmp_path / "old"), to="allennlp")
        refused(lambda: convert(config), word, SOURCES[name].origin, kind=FormatError)
        assert not (tmp_path / "old").exists()

    def test_options_and_vocabulary_elsewhere(self, tmp_path):
        source = SOURCES["hdf5, options apart"].make(tmp_path)
        (tmp_path / "words.txt").write_bytes(vocabulary_bytes())
        output = tmp_path / "out"
        convert(
            ConvertConfig(
                str(source["weights"]),
                str(output),
                options=str(source["options"]),
                vocab=str(tmp_path / "words.txt"),
            )
        )
        assert tuple(read(output).vocabulary.words) == VOCABULARY

    @pytest.mark.parametrize("name", ["hdf5, softmax beside", "hdf5, token embeddings"])
    def test_files_beside_the_model(self, tmp_path, name):
        source = SOURCES[name].make(tmp_path)
        expected = ELMo.from_pretrained(**source)
        given = {argument: str(path) for argument, path in source.items() if argument != "source"}
        convert(ConvertConfig(str(source["source"]), str(tmp_path / "out"), **given))
        assert_same_model(ELMo.from_pretrained(tmp_path / "out"), expected)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"to": "tflite"}, ["'tflite'", "native, allennlp, onnx"]),
            ({"to": "allennlp", "tokenizer": "english"}, ["no place for a tokeniser"]),
            ({"tokenizer": "klingon"}, ["klingon"]),
            ({"to": "allennlp", "dtype": "int8"}, ["float32 alone", "'int8'", "--dtype"]),
            ({"to": "allennlp", "dtype": "float16"}, ["float32 alone", "'float16'", "--dtype"]),
            ({"dtype": "int4"}, ["'int4'", "float32, float16, int8"]),
            ({"to": "onnx", "dtype": "int4"}, ["'int4'", "float32, float16, int8"]),
        ],
    )
    def test_contradictions(self, tmp_path, arguments, words):
        folder = hdf5_folder(tmp_path / "model")
        config = ConvertConfig(str(folder), str(tmp_path / "out"), **arguments)
        refused(lambda: convert(config), *words, kind=ConfigError)
        assert not (tmp_path / "out").exists()

    def test_into_the_folder_it_came_from(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model")
        before = ELMo.from_pretrained(folder)
        convert(ConvertConfig(str(folder), str(folder)))
        assert_same_model(ELMo.from_pretrained(folder), before)


def test_what_the_old_format_cannot_hold_is_told(tmp_path):
    elmo = ELMo(random_model().with_tokenizer("english"))
    elmo.network.mixes[0].gamma.data.fill_(2.0)
    elmo.save_pretrained(tmp_path / "ours")
    result = convert(ConvertConfig(str(tmp_path / "ours"), str(tmp_path / "old"), to="allennlp"))
    assert "the trained mixes are not written" in str(result)
    assert "the tokeniser, english, is not written" in str(result)
    with pytest.raises(OutputError, match=r"config\.json in it belongs to a model"):
        convert(ConvertConfig(str(tmp_path / "old"), str(tmp_path / "ours"), to="allennlp"))
    assert ELMo.from_pretrained(tmp_path / "ours").network.mixes[0].gamma == 2


def test_options_come_back_as_they_were(tmp_path):
    options = {**make_options(), "dropout": 0.1, "n_train_tokens": 7}
    folder = hdf5_folder(tmp_path / "old", options=options)
    convert(ConvertConfig(str(folder), str(tmp_path / "ours")))
    convert(ConvertConfig(str(tmp_path / "ours"), str(tmp_path / "new"), to="allennlp"))
    written = (tmp_path / "new" / "options.json").read_text()
    assert written == json.dumps(options)


def test_a_vocabulary_is_taken_by_every_format_and_options_by_those_that_need_them(tmp_path):
    ours = tmp_path / "ours"
    ELMo(random_model()).save_pretrained(ours)
    (tmp_path / "words.txt").write_bytes(vocabulary_bytes())
    assert list(read(ours, vocab=tmp_path / "words.txt").vocabulary.words) == list(VOCABULARY)
    (tmp_path / "options.json").write_text(json.dumps(make_options()))
    with pytest.raises(FormatError, match="leave the options out"):
        read(ours, options=tmp_path / "options.json")
