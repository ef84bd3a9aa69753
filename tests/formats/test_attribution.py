"""Tests that copies and fine-tuned models keep language, license and origin."""

import dataclasses
import json

import pytest
import yaml
from conftest import random_model

from elmo.config import ConvertConfig, InfoConfig
from elmo.embed.embedder import ELMo
from elmo.formats import model_folder
from elmo.formats.attribution import card_attribution, card_header, stored_attribution
from elmo.formats.info_and_convert import convert, info
from elmo.formats.load import read

SMALL_EN = {"derived_from": "small-en", "language": "en", "license": "cc-by-sa-3.0"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "---\nlanguage: en\nlicense: mit\n---\n# M\n",
            {"language": "en", "license": "mit"},
        ),
        ("---\nlanguage: [en, ko]\ntags: [x]\n---\n", {"language": "en, ko"}),
        ("---\nlanguage: [\n---\n", {}),
        ("---\n- a\n---\n", {}),
        ("# A card without a header\n", {}),
        ("", {}),
    ],
)
def test_card_attribution_returns_language_and_license_of_the_header(text, expected):
    assert card_attribution(text) == expected


def test_copies_of_a_bundled_model_keep_license_language_and_origin(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    convert(ConvertConfig("small-en", str(first), storage="int8"))
    ELMo.from_pretrained(first).save_pretrained(second, storage="int8")
    for folder in (first, second):
        assert read(folder).attribution == SMALL_EN
        assert info(InfoConfig(str(folder))).rows.items() >= SMALL_EN.items()
        card = (folder / "README.md").read_text(encoding="utf-8")
        header = yaml.safe_load(card.split("---\n")[1])
        assert (header["language"], header["license"]) == ("en", "cc-by-sa-3.0")
        assert "| derived from | small-en |" in card
    assert "derived_from" not in info(InfoConfig("small-en")).rows


def test_convert_to_allennlp_reports_the_attribution_that_it_cannot_store(tmp_path):
    notes = convert(ConvertConfig("small-en", str(tmp_path / "out"), to="allennlp")).notes
    assert any("license cc-by-sa-3.0" in note and "small-en" in note for note in notes)


def test_edited_card_takes_precedence_over_the_stored_attribution(tmp_path):
    model = dataclasses.replace(random_model(), attribution={"license": "mit", "page": "http://x"})
    model_folder.write(model, tmp_path)
    card = tmp_path / "README.md"
    card.write_text(card.read_text(encoding="utf-8").replace(": mit", ": apache-2.0"))
    assert read(tmp_path).attribution == {"license": "apache-2.0", "page": "http://x"}


def test_license_in_the_card_of_a_folder_of_another_format_is_kept(tmp_path):
    convert(ConvertConfig("small-en", str(tmp_path / "files"), to="allennlp"))
    card = "---\nlicense: mit\n---\n# A model\n"
    (tmp_path / "files" / "README.md").write_text(card, encoding="utf-8")
    convert(ConvertConfig(str(tmp_path / "files"), str(tmp_path / "copy"), storage="int8"))
    assert read(tmp_path / "copy").attribution == {"license": "mit"}


def test_model_folder_without_attribution_has_none(tmp_path):
    model_folder.write(random_model(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["attribution"]  # as earlier versions wrote it
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read(tmp_path).attribution == {}
    assert "license" not in info(InfoConfig(str(tmp_path))).rows


@pytest.mark.parametrize("value", [None, [], "mit", {"license": ""}, {"other": "x"}])
def test_invalid_stored_attribution_is_ignored(value):
    assert stored_attribution(value) == {}


@pytest.mark.parametrize(
    ("attribution", "lines"),
    [
        ({"language": "en, ko", "license": "MIT"}, ["language: [en, ko]", "license: mit"]),
        ({"language": "English", "license": "not stated"}, []),
        ({}, []),
    ],
)
def test_card_header_contains_only_codes(attribution, lines):
    assert card_header(attribution) == lines
