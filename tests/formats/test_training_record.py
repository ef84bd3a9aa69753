"""Tests for the keys and labels of training records."""

import dataclasses
import json
import re

import pytest
from conftest import random_model

from elmo.config import InfoConfig
from elmo.formats import model_folder
from elmo.formats.container import open_folder
from elmo.formats.info_and_convert import info
from elmo.formats.model_card import model_card
from elmo.formats.training_record import (
    LABELS,
    finetuning_record,
    with_current_keys,
    with_labels,
)

RECORD = {
    "program": "elmo-torch 0.1.0",
    "text": "56 words in 2 sentences",
    "sentences": "split",
    "steps": "3 of 40 tokens, 2.00 epochs",
    "reset_share": 1.0,
    "heldout_perplexity": "forward 51.64, backward 51.69",
    "heldout_bits_per_character": "1.0921",
    "heldout_characters": "2,345",
    "heldout_oov_rate": "5.95%",
}
EARLIER = {
    "program": RECORD["program"],
    "text": RECORD["text"],
    "sentences": RECORD["sentences"],
    "steps": RECORD["steps"],
    "sentences from zero": RECORD["reset_share"],
    "held-out perplexity": RECORD["heldout_perplexity"],
    "held-out bits per character": RECORD["heldout_bits_per_character"],
    "heldout_characters": RECORD["heldout_characters"],
    "held-out words out of vocabulary": RECORD["heldout_oov_rate"],
}


@pytest.mark.parametrize("record", [RECORD, EARLIER], ids=["current", "earlier"])
def test_with_current_keys_accepts_current_and_earlier_records(record):
    assert with_current_keys(record) == RECORD


def test_with_current_keys_does_not_change_unknown_keys():
    assert with_current_keys({"corpus": "news"}) == {"corpus": "news"}


@pytest.mark.parametrize("record", [None, [], "text"])
def test_with_current_keys_returns_none_for_non_dictionaries(record):
    assert with_current_keys(record) is None


def test_every_training_record_key_has_a_label():
    assert with_labels(RECORD) == {LABELS[key]: value for key, value in RECORD.items()}
    assert with_labels({"corpus": "news"}) == {"corpus": "news"}
    assert with_labels(None) == {}


def test_bits_per_character_without_characters_are_labeled_as_of_tokenized_text():
    record = {key: value for key, value in RECORD.items() if key != "heldout_characters"}
    labels = with_labels(record)
    assert labels["held-out bits per character of the tokenized text"] == "1.0921"
    assert "held-out bits per character" not in labels


def test_model_folder_with_earlier_keys_is_read_with_current_keys(tmp_path):
    model_folder.write(dataclasses.replace(random_model(), training=RECORD), tmp_path)
    path = tmp_path / "config.json"
    content = json.loads(path.read_text())
    assert content["training"] == RECORD
    content["training"] = EARLIER
    path.write_text(json.dumps(content))
    assert model_folder.read(open_folder(tmp_path)).training == RECORD


def test_model_card_and_info_show_training_record_labels(tmp_path):
    model = dataclasses.replace(random_model(), training=RECORD)
    assert "| held-out perplexity | forward 51.64, backward 51.69 |\n" in model_card(model)
    model_folder.write(model, tmp_path)
    result = info(InfoConfig(str(tmp_path)))
    assert result.training == RECORD
    assert re.search(r"^held-out bits per character +1\.0921$", str(result), re.MULTILINE)
    assert "reset_share" not in model_card(model)


def test_record_of_a_fine_tuned_model_names_all_earlier_texts_and_no_earlier_scores(tmp_path):
    first = finetuning_record("small-en", RECORD)
    assert first == {"base_model": "small-en", "base_text": "56 words in 2 sentences"}
    second = finetuning_record("news", {**first, "text": "9 words in 1 sentence"})
    assert second["base_text"] == "56 words in 2 sentences; then 9 words in 1 sentence"
    assert finetuning_record("x", None) == {"base_model": "x"}
    model = dataclasses.replace(random_model(), training={**second, "text": "3 words"})
    card = model_card(model)
    assert "| fine-tuned from | news |\n| training text before | 56 words" in card
    assert "| fine-tuning text | 3 words |\n" in card
    model_folder.write(model, tmp_path)
    assert re.search(r"^fine-tuned from +news$", str(info(InfoConfig(str(tmp_path)))), re.MULTILINE)
