"""Tests for model cards and model descriptions."""

import dataclasses

import pytest
import yaml
from builders import VOCABULARY
from conftest import TINY, random_model
from sources import SOURCES

from elmo.formats.load import read
from elmo.formats.model_card import describe, label, model_card


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "hdf5, plain",
            {
                "format": "bilm-tf / AllenNLP HDF5",
                "vector_dimension": 16,
                "layers": 3,
                "tokenizer": "none recorded (whitespace)",
                "characters": "UTF-8 bytes, 12 per word",
                "character_cnn": "dimension 4, filters 1x4 2x8 3x8, relu, 1 highway",
                "lstm": "2 layers, cell 16, projection 8, clips 3 and 3, with residual",
                "mixes": 1,
                "softmax": "none",
            },
        ),
        ("hdf5, no clips", {"lstm": "2 layers, cell 16, projection 8, clips none and none, with"}),
        ("hdf5, no residual", {"lstm": "2 layers, cell 16, projection 8, clips 3 and 3, without"}),
        ("hdf5, softmax included", {"softmax": "8 words"}),
        (
            "hdf5, word ids",
            {
                "characters": "none (word ids)",
                "word_embeddings": "8 words, dimension 8, the only input",
            },
        ),
        ("hdf5, token embeddings", {"word_embeddings": "8 words, dimension 8, precomputed"}),
        (
            "many langs",
            {
                "characters": "dictionary of 16 code points, 12 per word",
                "word_embeddings": "7 words, dimension 6, used with characters",
            },
        ),
        ("bare module, two mixes", {"mixes": 2}),
    ],
)
def test_describe_returns_architecture(tmp_path, name, rows):
    actual = describe(read(**SOURCES[name].make(tmp_path)))
    for key, value in rows.items():
        if isinstance(value, str):
            assert str(actual[key]).startswith(value)
        else:
            assert actual[key] == value
    assert ("character_cnn" in actual) == (name != "hdf5, word ids")
    assert ("word_embeddings" in actual) == ("word_embeddings" in rows)


def test_describe_formats_word_counts_with_separators_and_singular():
    for n_words, text in [(1153, "1,153 words"), (1, "1 word")]:
        config = dataclasses.replace(TINY, n_softmax_words=n_words)
        assert describe(random_model(config))["softmax"] == text


def test_describe_returns_recorded_tokenizer():
    assert describe(random_model().with_tokenizer("english"))["tokenizer"] == "english"


class TestModelCard:
    def test_model_card_has_header_usage_and_notes(self):
        model = random_model(notes=("n_characters was corrected", "clips were assumed"))
        card = model_card(model)
        header, text = card.split("---\n")[1:]
        assert yaml.safe_load(header)["library_name"] == "elmo-torch"
        assert "from elmo import ELMo" in text
        for name, value in describe(model).items():
            shown = f"{value:,}" if isinstance(value, int) else value
            assert f"| {label(name)} | {shown} |" in text
        assert "- n_characters was corrected\n- clips were assumed\n" in text
        assert card.endswith("\n")

    def test_model_card_omits_missing_parts(self):
        card = model_card(random_model())
        assert "Corrections" not in card
        assert "softmax of the language model" not in card

    @pytest.mark.parametrize(
        ("storage", "phrase"),
        [
            ("float16", "The weights are stored as float16; they are loaded as float32."),
            ("int8", "The weights are stored as int8 with one float16 scale per matrix row"),
        ],
    )
    def test_model_card_mentions_compact_storage(self, storage, phrase):
        assert phrase in model_card(random_model(), storage)
        assert "stored" not in model_card(random_model(), "float32")

    def test_model_card_mentions_softmax(self):
        config = dataclasses.replace(TINY, n_softmax_words=len(VOCABULARY))
        assert "also contains the softmax of the language model" in model_card(random_model(config))
