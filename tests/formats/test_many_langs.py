"""Tests for ELMoForManyLangs folders: dictionaries, config and tensors."""

import json

import numpy as np
import pytest
import torch
from builders import (
    ARCHITECTURE,
    CHARACTER_LINES,
    SENTENCES,
    SPECIAL_SYMBOLS,
    WORD_LINES,
    make_architecture,
    many_langs_folder,
    many_langs_state,
    torch_bytes,
    zip_folder,
)
from sources import MANY_LANGS, assert_error

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats import many_langs
from elmo.formats.container import open_folder
from elmo.formats.load import read
from elmo.formats.many_langs import is_folder


def dictionary_lines(symbols):
    """Return dictionary lines with consecutive ids for the symbols and the special symbols."""
    return [f"{symbol}\t{number}" for number, symbol in enumerate([*symbols, *SPECIAL_SYMBOLS])]


class TestReading:
    def test_read_returns_config_and_dictionaries_of_many_langs_model(self, tmp_path):
        model = read(many_langs_folder(tmp_path / "zh"))
        assert model.origin == MANY_LANGS
        assert model.notes == ()
        text, encoder, lstm = model.config.text, model.config.encoder, model.config.lstm
        assert (text.characters, text.max_characters, text.cut_words) == ("dictionary", 12, True)
        assert text.special_tokens == ("<bos>", "<eos>", "<oov>")
        assert (encoder.n_characters, encoder.n_words) == (17, 8)
        assert (encoder.character_dim, encoder.word_dim) == (5, 6)
        assert (lstm.cell_clip, lstm.projection_clip) == (3.0, 3.0)
        assert (lstm.residual, lstm.forget_bias) == (True, 0.0)
        assert model.characters["ï"] == 7
        assert model.words == {
            "<oov>": 0,
            "<bos>": 1,
            "<eos>": 2,
            "<pad>": 3,
            "the": 4,
            "cat": 5,
            "好": 6,
        }

    @pytest.mark.parametrize("clip", [0, None])
    def test_clip_value_of_zero_or_null_means_no_clipping(self, tmp_path, clip):
        model = read(many_langs_folder(tmp_path / "zh", cell_clip=clip, proj_clip=clip))
        assert model.config.lstm.cell_clip is None
        assert model.config.lstm.projection_clip is None

    @pytest.mark.parametrize("part", ["word", "char"])
    def test_word_or_character_input_can_be_absent(self, tmp_path, part):
        """If `word_dim` or `char_dim` is 0, that input and its dictionary are absent."""
        folder = many_langs_folder(tmp_path / "zh", **{f"{part}_dim": 0})
        assert not (folder / f"{part}.dic").exists()
        elmo = ELMo.from_pretrained(folder)
        model = elmo.to_pretrained()
        assert (model.words is None) == (part == "word")
        assert (model.characters is None) == (part == "char")
        dim = 6 if part == "char" else 12
        assert model.weights["bilm.encoder.projection.weight"].shape == (8, dim)
        vectors = elmo.encode(SENTENCES, layers=0)
        # "sat" and "." are unknown words, distinguished only by their characters.
        assert np.allclose(vectors[0][2], vectors[0][3], rtol=1e-5) == (part == "char")

    def test_read_rejects_model_without_word_and_character_input(self, tmp_path):
        folder = many_langs_folder(tmp_path / "zh", word_dim=0, char_dim=0)
        assert_error(lambda: read(folder), "token encoder has no input", error_type=FormatError)

    def test_read_ignores_classifier_weights(self, tmp_path):
        folder = many_langs_folder(tmp_path / "zh")
        (folder / "classifier.pkl").write_bytes(b"anything")
        assert read(folder).origin == MANY_LANGS

    def test_is_folder_needs_both_pickles(self):
        assert is_folder(("encoder.pkl", "token_embedder.pkl"))
        assert not is_folder(("encoder.pkl", "char.dic", "config.json"))


class TestDictionaries:
    WHITESPACE = "\u3000\u00a0\u2028\u0085\x0b\x0c\r \t\ufeff"

    def test_whitespace_characters_are_valid_dictionary_symbols(self, tmp_path):
        lines = dictionary_lines([*self.WHITESPACE, "a"])
        elmo = ELMo.from_pretrained(many_langs_folder(tmp_path / "zh", character_lines=lines))
        characters = elmo.to_pretrained().characters
        assert characters == {
            symbol: number
            for number, symbol in enumerate([*self.WHITESPACE, "a", *SPECIAL_SYMBOLS])
        }
        ids = elmo.mapper.rows([self.WHITESPACE])[0]
        assert ids[1:11].tolist() == list(range(1, 11))
        elmo.save_pretrained(tmp_path / "saved")
        reloaded = ELMo.from_pretrained(tmp_path / "saved").to_pretrained()
        assert reloaded.characters == characters

    @pytest.mark.parametrize("line", ["\t0", "0"])
    def test_dictionary_line_without_symbol_is_ideographic_space(self, tmp_path, line):
        lines = [line, *dictionary_lines(["x", "a"])[1:]]
        model = read(many_langs_folder(tmp_path / "zh", character_lines=lines))
        assert model.characters["\u3000"] == 0
        assert model.characters["a"] == 1

    def test_embedding_size_comes_from_tensor_if_symbols_collide(self, tmp_path):
        """Two lines without a symbol become one entry, but the embedding has one row per line."""
        lines = dictionary_lines(["x", "y", "z", "a"])
        lines[:3] = ["\t0", "1", "\u3000\t2"]
        elmo = ELMo.from_pretrained(many_langs_folder(tmp_path / "zh", character_lines=lines))
        model = elmo.to_pretrained()
        assert model.characters["\u3000"] == 2
        assert len(model.characters) == len(lines) - 2
        assert model.config.encoder.n_characters == len(lines) + 1
        assert np.isfinite(elmo.encode(SENTENCES)[0]).all()

    def test_crlf_and_blank_lines_in_dictionary_are_accepted(self, tmp_path):
        folder = many_langs_folder(tmp_path / "zh")
        expected = read(folder)
        for name, lines in (("char.dic", CHARACTER_LINES), ("word.dic", WORD_LINES)):
            content = "\r\n".join(["", *lines[:3], "", *lines[3:], "", ""])
            (folder / name).write_bytes(content.encode())
        model = read(folder)
        assert model.characters == expected.characters
        assert model.words == expected.words

    @pytest.mark.parametrize("name", ["char.dic", "word.dic"])
    @pytest.mark.parametrize(
        ("line", "phrases"),
        [
            (b"a\tb", ["line 2", "a symbol, a tab and an integer"]),
            (b"a 1", ["line 2"]),
            (b"a\t", ["line 2"]),
            (b"a\t1.5", ["line 2"]),
            (b"\xff\t1", ["line 2"]),
            (b"a\t" + b"9" * 5000, ["line 2"]),
            (b"Q\t99", ["id 99", "different models"]),
            (b"Q\t-1", ["different models"]),
        ],
        ids=repr,
    )
    def test_read_rejects_invalid_dictionary_line(self, tmp_path, name, line, phrases):
        folder = many_langs_folder(tmp_path / "zh")
        lines = (folder / name).read_bytes().split(b"\n")
        lines.insert(1, line)
        (folder / name).write_bytes(b"\n".join(lines))
        assert_error(lambda: read(folder), *phrases, error_type=FormatError)

    @pytest.mark.parametrize(
        ("lines", "phrases"),
        [
            ({"word_lines": ["the\t0", "<oov>\t1"]}, ["word.dic lacks <bos>, <eos>"]),
            ({"word_lines": []}, ["word.dic lacks <bos>, <eos>, <oov>"]),
            ({"character_lines": ["a\t0", "b\t1"]}, ["has no <bos>, <eos>, <oov>, <pad>"]),
        ],
    )
    def test_dictionary_without_special_symbols_is_rejected(self, tmp_path, lines, phrases):
        folder = many_langs_folder(tmp_path / "zh", **lines)
        assert_error(lambda: ELMo.from_pretrained(folder), *phrases, error_type=FormatError)

    @pytest.mark.parametrize("name", ["char.dic", "word.dic", "config.json"])
    def test_read_rejects_many_langs_folder_with_missing_file(self, tmp_path, name):
        folder = many_langs_folder(tmp_path / "zh")
        (folder / name).unlink()
        assert_error(lambda: read(folder), f"no file {name}", "encoder.pkl", error_type=FormatError)


class TestArchitecture:
    @pytest.mark.parametrize(
        "path",
        [
            f"/abs/missing/{ARCHITECTURE}",
            ARCHITECTURE,
            f"configs/{ARCHITECTURE}",
            f"C:\\users\\them\\{ARCHITECTURE}",
            f"../../{ARCHITECTURE}",
        ],
    )
    @pytest.mark.parametrize("zipped", [True, False])
    def test_architecture_file_is_found_by_base_name(self, tmp_path, path, zipped):
        source = many_langs_folder(tmp_path / "zh", config_path=path)
        if zipped:
            source = zip_folder(source, tmp_path / "zh.zip", "zh/")
        assert read(source).config.lstm.cell_dim == 16

    @pytest.mark.parametrize(
        "path",
        ["configs/deep/own.json", "./configs/deep/own.json", "configs\\deep\\own.json"],
    )
    @pytest.mark.parametrize("top", [None, "", "zh/"])
    def test_architecture_file_in_subfolder_takes_precedence(self, tmp_path, path, top):
        source = many_langs_folder(tmp_path / "zh", config_path=path)
        nested = source / "configs" / "deep"
        nested.mkdir(parents=True)
        (source / ARCHITECTURE).rename(nested / "own.json")
        (source / "own.json").write_text("{}")
        if top is not None:
            source = zip_folder(source, tmp_path / "zh.zip", top)
        assert read(source).config.lstm.cell_dim == 16

    def test_architecture_file_outside_folder_is_not_read(self, tmp_path):
        (tmp_path / "outside.json").write_text(json.dumps(make_architecture()))
        folder = many_langs_folder(tmp_path / "zh", config_path=str(tmp_path / "outside.json"))
        assert_error(
            lambda: read(folder),
            "outside.json",
            "Put outside.json into the folder",
            error_type=FormatError,
        )

    @pytest.mark.parametrize("name", many_langs._PACKAGED_CONFIGS)
    def test_published_architecture_is_assumed_with_note(self, tmp_path, name):
        folder = many_langs_folder(tmp_path / "zh", config_path=f"/users/them/{name}")
        (folder / ARCHITECTURE).unlink()
        content, notes = many_langs._architecture(open_folder(folder))
        assert content["encoder"]["dim"] == 4096
        assert content["token_embedder"]["word_dim"] == 100
        assert len(notes) == 1
        assert name in notes[0]
        # Its sizes differ from those of the tiny tensors here.
        assert_error(
            lambda: read(folder), "convolutions.2.weight is missing", error_type=FormatError
        )

    @pytest.mark.parametrize("path", [None, 3, ["x.json"], {}])
    def test_read_rejects_invalid_config_path(self, tmp_path, path):
        folder = many_langs_folder(tmp_path / "zh", config_path=path)
        assert_error(lambda: read(folder), "config.json has no config_path", error_type=FormatError)

    @pytest.mark.parametrize("content", ["[]", "3", "null", "{}"])
    def test_read_rejects_config_without_config_path(self, tmp_path, content):
        folder = many_langs_folder(tmp_path / "zh")
        (folder / "config.json").write_text(content)
        assert_error(lambda: read(folder), "has no config_path", error_type=FormatError)

    @pytest.mark.parametrize("path", ["gone.json", "", "folder/", "/"])
    def test_read_rejects_missing_architecture_file(self, tmp_path, path):
        folder = many_langs_folder(tmp_path / "zh", config_path=path)
        assert_error(lambda: read(folder), "refers to", "does not exist", error_type=FormatError)

    def test_read_rejects_config_that_refers_to_itself(self, tmp_path):
        folder = many_langs_folder(tmp_path / "zh", config_path="config.json")
        assert_error(
            lambda: read(folder), "architecture", "no key 'encoder'", error_type=FormatError
        )

    @pytest.mark.parametrize("section", ["encoder", "token_embedder"])
    def test_read_rejects_architecture_with_unknown_components(self, tmp_path, section):
        architecture = make_architecture()
        architecture[section]["name"] = "lstm"
        folder = many_langs_folder(tmp_path / "zh", architecture=architecture)
        assert_error(lambda: read(folder), "'lstm'", "Only", "is supported", error_type=FormatError)

    @pytest.mark.parametrize("section", ["encoder", "token_embedder"])
    @pytest.mark.parametrize("value", [None, 3, [], "x"])
    def test_read_rejects_architecture_sections_that_are_not_objects(
        self, tmp_path, section, value
    ):
        architecture = {**make_architecture(), section: value}
        folder = many_langs_folder(tmp_path / "zh", architecture=architecture)
        assert_error(
            lambda: read(folder), section, "expected a JSON object", error_type=FormatError
        )

    @pytest.mark.parametrize(
        "key", [*make_architecture()["encoder"], *make_architecture()["token_embedder"]]
    )
    def test_read_rejects_architecture_with_missing_key(self, tmp_path, key):
        architecture = make_architecture()
        for section in ("encoder", "token_embedder"):
            architecture[section].pop(key, None)
        folder = many_langs_folder(tmp_path / "zh", architecture=architecture)
        phrase = "None" if key == "name" else key
        assert_error(lambda: read(folder), "architecture", phrase, error_type=FormatError)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            *(
                (key, value)
                for key in (
                    "dim",
                    "projection_dim",
                    "n_layers",
                    "n_highway",
                    "char_dim",
                    "word_dim",
                    "max_characters_per_token",
                )
                for value in ("2", -2, 2.5, True, [2])
            ),
            ("dim", 0),
            ("n_layers", 0),
            ("max_characters_per_token", 2),
            ("activation", "gelu"),
            ("activation", None),
            ("filters", [[1.0, 4], [2, 8]]),
            ("filters", [[1, 4], [13, 8]]),
            ("filters", []),
            ("filters", "usual"),
            ("cell_clip", "3"),
            ("cell_clip", float("nan")),
            ("proj_clip", -1),
            ("proj_clip", True),
        ],
    )
    def test_read_rejects_architecture_with_invalid_value(self, tmp_path, key, value):
        architecture = make_architecture(**{key: value})
        folder = many_langs_folder(tmp_path / "zh", architecture=architecture)
        assert_error(lambda: read(folder), error_type=FormatError)

    @pytest.mark.parametrize(
        "change",
        [
            {"dim": 32},
            {"projection_dim": 4},
            {"n_layers": 1},
            {"n_layers": 3},
            {"n_highway": 2},
            {"filters": [[1, 4]]},
            {"word_dim": 0},
            {"char_dim": 0},
            {"word_dim": 7},
            {"char_dim": 4},
        ],
        ids=repr,
    )
    def test_read_rejects_architecture_of_another_model(self, tmp_path, change):
        architecture = make_architecture(**change)
        folder = many_langs_folder(tmp_path / "zh", architecture=architecture)
        assert_error(lambda: read(folder), str(folder), error_type=FormatError)


class TestTensors:
    @pytest.mark.parametrize(
        ("part", "name", "value", "phrases"),
        [
            ("encoder", "forward_layer_0.state_linearity.bias", None, ["is missing"]),
            ("encoder", "extra", torch.ones(1), ["unexpected array encoder.extra"]),
            ("token_embedder", "projection.weight", torch.ones(8, 19), ["(8, 19)", "(8, 18)"]),
            ("token_embedder", "word_emb_layer.embedding.weight", torch.tensor(1.0), ["()"]),
            ("token_embedder", "char_emb_layer.embedding.weight", torch.ones(16), ["(16,)"]),
            ("token_embedder", "char_emb_layer.embedding.weight", torch.ones(15, 5), ["15 rows"]),
            ("token_embedder", "word_emb_layer.embedding.weight", torch.ones(6, 6), ["6 rows"]),
            ("token_embedder", "projection.bias", torch.full((8,), float("nan")), ["NaN"]),
            ("token_embedder", "projection.bias", torch.ones(8, dtype=torch.int64), ["int64"]),
        ],
    )
    def test_read_rejects_many_langs_model_with_invalid_tensor(
        self, tmp_path, part, name, value, phrases
    ):
        folder = many_langs_folder(tmp_path / "zh")
        state = many_langs_state(make_architecture(), len(WORD_LINES), len(CHARACTER_LINES))[part]
        if value is None:
            del state[name]
        else:
            state[name] = value
        (folder / f"{part}.pkl").write_bytes(torch_bytes(state, legacy=True))
        assert_error(lambda: read(folder), *phrases, error_type=FormatError)

    def test_embedding_can_have_more_rows_than_dictionary_lines(self, tmp_path):
        folder = many_langs_folder(tmp_path / "zh")
        state = many_langs_state(make_architecture(), 20, 30)["token_embedder"]
        (folder / "token_embedder.pkl").write_bytes(torch_bytes(state, legacy=True))
        assert read(folder).config.encoder.n_characters == 31
