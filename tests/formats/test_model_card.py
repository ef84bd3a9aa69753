"""Tests of the model card and of the rows that describe a model."""

import dataclasses

import pytest
import yaml
from builders import VOCABULARY
from conftest import TINY, random_model
from sources import SOURCES

from elmo.formats.load import read
from elmo.formats.model_card import describe, model_card


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "hdf5, plain",
            {
                "format": "bilm-tf / AllenNLP HDF5",
                "vector width": 16,
                "layers": 3,
                "tokeniser": "none recorded (white space)",
                "characters": "UTF-8 bytes, 12 a word",
                "character CNN": "4 wide, filters 1x4 2x8 3x8, relu, 1 highway",
                "LSTM": "2 layers, cell 16, projection 8, clips 3 and 3, with residual",
                "mixes": 1,
                "softmax": "none",
            },
        ),
        ("hdf5, no clips", {"LSTM": "2 layers, cell 16, projection 8, clips none and none, with"}),
        ("hdf5, no residual", {"LSTM": "2 layers, cell 16, projection 8, clips 3 and 3, without"}),
        ("hdf5, softmax inside", {"softmax": "8 words"}),
        (
            "hdf5, word ids",
            {
                "characters": "none (word ids)",
                "word table": "8 words, 8 wide, the only input",
            },
        ),
        ("hdf5, token embeddings", {"word table": "8 words, 8 wide, computed beforehand"}),
        (
            "many langs",
            {
                "characters": "a dictionary of 16 code points, 12 a word",
                "word table": "7 words, 6 wide, beside the characters",
            },
        ),
        ("bare module, two mixes", {"mixes": 2}),
    ],
)
def test_rows(tmp_path, name, rows):
    found = describe(read(**SOURCES[name].make(tmp_path)))
    for key, value in rows.items():
        if isinstance(value, str):
            assert str(found[key]).startswith(value)
        else:
            assert found[key] == value
    assert ("character CNN" in found) == (name != "hdf5, word ids")
    assert ("word table" in found) == ("word table" in rows)


def test_recorded_tokeniser():
    assert describe(random_model().with_tokenizer("english"))["tokeniser"] == "english"


class TestCard:
    def test_it_is_a_readme_with_a_header(self):
        model = random_model(notes=("n_characters was mended", "clips were assumed"))
        card = model_card(model)
        header, text = card.split("---\n")[1:]
        assert yaml.safe_load(header)["library_name"] == "elmo-torch"
        assert "from elmo import ELMo" in text
        for name, value in describe(model).items():
            assert f"| {name} | {value} |" in text
        assert "- n_characters was mended\n- clips were assumed\n" in text
        assert card.endswith("\n")

    def test_what_is_not_there_is_not_mentioned(self):
        card = model_card(random_model())
        assert "Mended" not in card
        assert "softmax of the language model" not in card

    @pytest.mark.parametrize(
        ("dtype", "words"),
        [
            ("float16", "The weights are stored as float16; read, they are float32."),
            ("int8", "The weights are stored as int8 with one float16 scale for each row"),
        ],
    )
    def test_storage(self, dtype, words):
        assert words in model_card(random_model(), dtype)
        assert "stored" not in model_card(random_model(), "float32")

    def test_softmax(self):
        config = dataclasses.replace(TINY, n_softmax_words=len(VOCABULARY))
        assert "softmax of the language model is in the folder" in model_card(random_model(config))
