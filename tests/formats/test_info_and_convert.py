"""Tests for the `info` and `convert` commands: results, text and JSON output."""

import json

import pytest
from builders import SENTENCES, VOCABULARY, hdf5_folder, make_options, vocabulary_bytes
from conftest import random_model
from sources import SOURCES, assert_error, assert_same_model, snapshot

from elmo.config import ConvertConfig, InfoConfig, ModelConfig
from elmo.config.serialization import from_dict
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.formats.info_and_convert import convert, info
from elmo.formats.load import read

# One source per format; the tests of `load` use all of them.
every_origin = pytest.mark.parametrize(
    "name",
    [
        "hdf5, softmax included",
        "hdf5, word ids",
        "checkpoint",
        "archive",
        "many langs, zip",
        "elmo-torch folder",
    ],
)


class TestInfo:
    def test_info_of_bundled_model_shows_language_license_and_model_card(self):
        rows = info(InfoConfig("small-en")).rows
        assert (rows["language"], rows["license"]) == ("en", "cc-by-sa-3.0")
        assert rows["model_card"].endswith("small-en/README.md")

    def test_info_of_files_without_a_card_shows_no_origin(self, tmp_path):
        hdf5_folder(tmp_path)
        (tmp_path / "source.json").write_text("{}")
        assert (
            not {"language", "license", "model_card"} & info(InfoConfig(str(tmp_path))).rows.keys()
        )

    @every_origin
    def test_info_describes_every_format(self, tmp_path, name):
        origin, make = SOURCES[name]
        path = make(tmp_path)["source"]
        model = read(path)
        result = info(InfoConfig(str(path)))
        assert result.rows["format"] == origin
        assert result.rows["parameters"] == model.n_parameters
        assert result.notes == model.notes
        assert ("vocabulary" in result.rows) == (model.vocabulary is not None)
        data = json.loads(json.dumps(result.to_dict()))
        assert from_dict(ModelConfig, data.pop("config")) == model.config
        assert data.pop("notes") == list(model.notes)
        assert data.pop("training") == (model.training or {})
        assert data == result.rows

    def test_info_prints_aligned_table(self, tmp_path):
        folder = SOURCES["checkpoint"].make(tmp_path)["source"]
        lines = str(info(InfoConfig(str(folder)))).splitlines()
        values = dict(line.split("  ", 1) for line in lines if not line.startswith("note: "))
        values = {name.strip(): value.strip() for name, value in values.items()}
        assert values["format"] == "bilm-tf TensorFlow checkpoint"
        assert values["biLM parameters"] == f"{read(folder).n_parameters:,}"
        assert values["vocabulary"] == "8 words"
        assert values["softmax"] == "8 words"
        assert len({line.index(line.split("  ")[-1].strip()) for line in lines[:3]}) == 1
        notes = [line for line in lines if line.startswith("note: ")]
        assert len(notes) == 1
        assert "261" in notes[0]

    def test_info_to_dict_contains_vector_dimension(self, tmp_path):
        folder = SOURCES["hdf5, plain"].make(tmp_path)["source"]
        result = info(InfoConfig(str(folder)))
        assert result.to_dict()["vector_dimension"] == 16

    @pytest.mark.parametrize("storage", ["float32", "float16", "int8"])
    def test_info_shows_weight_storage_of_model_folder(self, tmp_path, storage):
        ELMo(random_model()).save_pretrained(tmp_path / "model", storage)
        size = (tmp_path / "model" / "model.safetensors").stat().st_size
        result = info(InfoConfig(str(tmp_path / "model")))
        dtype_name, megabytes, unit = result.rows["weights"].split()
        assert (dtype_name, unit) == (f"{storage},", "MB")
        assert float(megabytes) == pytest.approx(size / 1e6, abs=0.06)
        folder = hdf5_folder(tmp_path / "old")
        assert "weights" not in info(InfoConfig(str(folder))).rows

    def test_info_accepts_options_file_in_another_folder(self, tmp_path):
        source = SOURCES["hdf5, options elsewhere"].make(tmp_path)
        result = info(InfoConfig(str(source["weights"]), options=str(source["options"])))
        assert result.rows["layers"] == 3

    def test_info_rejects_folder_without_model(self, tmp_path):
        assert_error(
            lambda: info(InfoConfig(str(tmp_path))), "contains no model", error_type=FormatError
        )


class TestConvert:
    @every_origin
    def test_convert_to_model_folder_preserves_model(self, tmp_path, name):
        path = SOURCES[name].make(tmp_path)["source"]
        output = str(tmp_path / "converted")
        result = convert(ConvertConfig(str(path), output, tokenizer="english"))
        assert (result.out, result.to) == (output, "native")
        assert SOURCES[name].origin in result.origin
        assert_same_model(
            ELMo.from_pretrained(output), ELMo.from_pretrained(path, tokenizer="english")
        )

    def test_convert_prints_summary_and_notes(self, tmp_path):
        path = SOURCES["checkpoint"].make(tmp_path)["source"]
        lines = str(convert(ConvertConfig(str(path), str(tmp_path / "out")))).splitlines()
        origin = SOURCES["checkpoint"].origin
        assert lines[0] == f"{tmp_path / 'out'}: written as native, read from {origin}"
        assert len(lines) == 2
        assert lines[1].startswith("note: ")

    def test_convert_reports_that_files_were_replaced(self, tmp_path):
        config = ConvertConfig("small-en", str(tmp_path / "out"), storage="int8")
        note = f"{tmp_path / 'out'} existed; files with the same names were replaced."
        assert note not in convert(config).notes
        assert note in convert(config).notes

    def test_convert_names_the_folder_that_was_read(self, tmp_path):
        origin, make = SOURCES["archive"]
        convert(ConvertConfig(str(make(tmp_path)["source"]), str(tmp_path / "run" / "model")))
        first = f" (first read from {origin})"
        run = tmp_path / "run"
        result = convert(ConvertConfig(str(run / "model"), str(tmp_path / "a")))
        assert result.origin == f"elmo-torch folder{first}"
        (run / "config.yaml").touch()
        (run / "log.jsonl").touch()
        result = convert(ConvertConfig(str(run), str(tmp_path / "b"), to="allennlp"))
        assert str(result).splitlines()[0].endswith(f"read from elmo-torch training folder{first}")

    @pytest.mark.parametrize("storage", ["float16", "int8"])
    def test_convert_writes_compact_storage(self, tmp_path, storage):
        path, output = SOURCES["archive"].make(tmp_path)["source"], tmp_path / "out"
        result = convert(ConvertConfig(str(path), str(output), storage=storage))
        assert str(result).startswith(f"{output}: written as native in {storage}, read from ")
        assert read(output).storage.startswith(storage)
        assert f"stored as {storage}" in (output / "README.md").read_text()
        convert(ConvertConfig(str(output), str(tmp_path / "again"), storage=storage))
        assert snapshot(tmp_path / "again") == snapshot(output)
        convert(ConvertConfig(str(output), str(tmp_path / "wide")))
        assert_same_model(ELMo.from_pretrained(tmp_path / "wide"), ELMo.from_pretrained(output))

    def test_convert_to_allennlp_preserves_vectors(self, tmp_path):
        path = SOURCES["archive"].make(tmp_path)["source"]
        result = convert(ConvertConfig(str(path), str(tmp_path / "old"), to="allennlp"))
        assert result.to == "allennlp"
        names = sorted(item.name for item in (tmp_path / "old").iterdir())
        assert names == ["options.json", "weights.hdf5"]
        written = json.loads((tmp_path / "old" / "options.json").read_text())
        expected = make_options()
        expected["char_cnn"]["max_characters_per_token"] = 50
        assert written == expected
        for actual, expected in zip(
            ELMo.from_pretrained(tmp_path / "old").encode(SENTENCES, layers="all"),
            ELMo.from_pretrained(path).encode(SENTENCES, layers="all"),
            strict=True,
        ):
            assert abs(actual - expected).max(initial=0) < 1e-6

    @pytest.mark.parametrize(
        ("name", "phrase"),
        [
            ("hdf5, word ids", "word ids"),
            ("many langs", "character dictionary"),
            ("many langs, zip", "character dictionary"),
            ("checkpoint, word ids", "word ids"),
        ],
    )
    def test_convert_to_allennlp_rejects_unsupported_models(self, tmp_path, name, phrase):
        path = SOURCES[name].make(tmp_path)["source"]
        config = ConvertConfig(str(path), str(tmp_path / "old"), to="allennlp")
        assert_error(lambda: convert(config), phrase, SOURCES[name].origin, error_type=FormatError)
        assert not (tmp_path / "old").exists()

    def test_convert_accepts_options_and_vocabulary_in_another_folder(self, tmp_path):
        source = SOURCES["hdf5, options elsewhere"].make(tmp_path)
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

    @pytest.mark.parametrize("name", ["hdf5, softmax file", "hdf5, token embeddings"])
    def test_convert_includes_softmax_and_token_embedding_files(self, tmp_path, name):
        source = SOURCES[name].make(tmp_path)
        expected = ELMo.from_pretrained(**source)
        other_files = {
            argument: str(path) for argument, path in source.items() if argument != "source"
        }
        convert(ConvertConfig(str(source["source"]), str(tmp_path / "out"), **other_files))
        assert_same_model(ELMo.from_pretrained(tmp_path / "out"), expected)

    @pytest.mark.parametrize(
        ("arguments", "phrases"),
        [
            ({"to": "tflite"}, ["'tflite'", "native, allennlp, onnx"]),
            ({"to": "allennlp", "tokenizer": "english"}, ["cannot store a tokenizer"]),
            ({"tokenizer": "klingon"}, ["klingon"]),
            ({"to": "allennlp", "storage": "int8"}, ["float32 only", "'int8'", "--storage"]),
            ({"to": "allennlp", "storage": "float16"}, ["float32 only", "'float16'", "--storage"]),
            ({"storage": "int4"}, ["'int4'", "float32, float16, int8"]),
            ({"to": "onnx", "storage": "int4"}, ["'int4'", "float32, float16, int8"]),
        ],
    )
    def test_convert_rejects_contradicting_options(self, tmp_path, arguments, phrases):
        folder = hdf5_folder(tmp_path / "model")
        config = ConvertConfig(str(folder), str(tmp_path / "out"), **arguments)
        assert_error(lambda: convert(config), *phrases, error_type=ConfigError)
        assert not (tmp_path / "out").exists()

    def test_convert_into_source_folder_preserves_model(self, tmp_path):
        folder = hdf5_folder(tmp_path / "model")
        before = ELMo.from_pretrained(folder)
        convert(ConvertConfig(str(folder), str(folder)))
        assert_same_model(ELMo.from_pretrained(folder), before)


def test_convert_to_allennlp_notes_omissions(tmp_path):
    elmo = ELMo(random_model().with_tokenizer("english"))
    elmo.network.mixes[0].gamma.data.fill_(2.0)
    elmo.save_pretrained(tmp_path / "model")
    result = convert(ConvertConfig(str(tmp_path / "model"), str(tmp_path / "old"), to="allennlp"))
    assert "The trained layer mixes are not written" in str(result)
    assert "The tokenizer (english) is not written" in str(result)
    with pytest.raises(OutputError, match=r"its config\.json belongs to a model"):
        convert(ConvertConfig(str(tmp_path / "old"), str(tmp_path / "model"), to="allennlp"))
    assert ELMo.from_pretrained(tmp_path / "model").network.mixes[0].gamma == 2


def test_convert_back_to_allennlp_restores_original_options(tmp_path):
    options = {**make_options(), "dropout": 0.1, "n_train_tokens": 7}
    folder = hdf5_folder(tmp_path / "old", options=options)
    convert(ConvertConfig(str(folder), str(tmp_path / "model")))
    convert(ConvertConfig(str(tmp_path / "model"), str(tmp_path / "new"), to="allennlp"))
    written = (tmp_path / "new" / "options.json").read_text()
    assert written == json.dumps(options)


def test_model_folder_accepts_vocabulary_but_not_options(tmp_path):
    folder = tmp_path / "model"
    ELMo(random_model()).save_pretrained(folder)
    (tmp_path / "words.txt").write_bytes(vocabulary_bytes())
    assert list(read(folder, vocab=tmp_path / "words.txt").vocabulary.words) == list(VOCABULARY)
    (tmp_path / "options.json").write_text(json.dumps(make_options()))
    with pytest.raises(FormatError, match="Omit options="):
        read(folder, options=tmp_path / "options.json")
