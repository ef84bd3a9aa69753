"""Tests of the table of published losses."""

import math
import tarfile

import pytest

from elmo.lab.loss_table import MODEL_COLUMNS, SOURCE_COLUMNS, SPLIT_COLUMNS
from elmo.lab.published_losses import known_text, known_texts, published_losses
from elmo.lab.text_fingerprint import TextFingerprint, text_fingerprint

TEXTS = {text.name: text for text in known_texts()}


def members(archive, names):
    """Return the text of files in an archive."""
    with tarfile.open(archive) as tar:
        return [tar.extractfile(name).read().decode() for name in names]


@pytest.mark.parametrize("text", known_texts(), ids=lambda text: text.name)
def test_entry_is_complete_and_fits_the_columns(text):
    assert text.losses
    assert len({(loss.model, loss.split, loss.dynamic) for loss in text.losses}) == len(text.losses)
    for loss in text.losses:
        assert loss.split in text.splits or loss.split == "not stated"
        assert loss.address.startswith("http")
        assert loss.source[-4:].isdigit()
        assert len(loss.model) <= MODEL_COLUMNS
        assert len(loss.source) <= SOURCE_COLUMNS
        assert len(loss.split) <= SPLIT_COLUMNS
        assert math.isfinite(loss.nats)
        # Losses of good models per character, and per word.
        assert loss.nats < (2.0 if text.unit == "characters" else 4.6)


@pytest.mark.parametrize("text", known_texts(), ids=lambda text: text.name)
def test_sizes_of_parts_are_consistent_with_size_of_text(text):
    sizes = [part.n_symbols for part in text.fingerprints]
    if len(sizes) == 1:
        assert sum(part.n_symbols for part in text.splits.values()) < sizes[0]
        return
    whole, train_valid, train_test = text.fingerprints
    valid, test = text.splits["valid"], text.splits["test"]
    assert whole.n_symbols == train_valid.n_symbols + test.n_symbols
    assert whole.n_symbols == train_test.n_symbols + valid.n_symbols
    if text.unit == "words":
        assert whole.crc == (train_valid.crc + test.crc) % 2**32
        assert whole.crc == (train_test.crc + valid.crc) % 2**32


def test_penn_treebank_is_recognized_as_words_and_characters(shared_data):
    names = [f"ptb/{part}.txt" for part in ("train", "valid", "test")]
    train, valid, test = members(shared_data / "ptb.tar.xz", names)
    text = TEXTS["Penn Treebank, words"]
    for parts in ([train, valid, test], [train, valid], [train, test]):
        assert known_text(text_fingerprint(parts, "words"), "words") is text
    assert text.split_name(text_fingerprint([valid], "words")) == "valid"
    assert text.split_name(text_fingerprint([test], "words")) == "test"
    assert text.split_name(text_fingerprint([train], "words")) is None

    train, valid, test = (
        "\n".join(line.strip() for line in part.split("\n")) for part in (train, valid, test)
    )
    text = TEXTS["Penn Treebank, characters"]
    for parts in ([train, valid, test], [train, valid], [train, test]):
        assert known_text(text_fingerprint(parts, "characters"), "characters") is text
    assert text.split_name(text_fingerprint([valid], "characters")) == "valid"
    assert text.split_name(text_fingerprint([test], "characters")) == "test"


def test_wikitext_2_is_recognized(shared_data):
    names = [f"wikitext-2/{part}.txt" for part in ("train", "valid", "test")]
    train, valid, test = members(shared_data / "wikitext-2.tar.xz", names)
    text = TEXTS["WikiText-2, words"]
    for parts in ([train, valid, test], [train, valid], [train, test]):
        assert known_text(text_fingerprint(parts, "words"), "words") is text
    assert text.split_name(text_fingerprint([valid], "words")) == "valid"
    assert text.split_name(text_fingerprint([test], "words")) == "test"


def test_tinyshakespeare_and_its_last_tenth_are_recognized(shared_data):
    (content,) = members(shared_data / "charlm.tar.xz", ["shakespeare/tinyshakespeare.txt"])
    border = int(0.9 * len(content))
    parts = [content[:border], content[border:]]
    text = TEXTS["tinyshakespeare"]
    for unit in ("characters", "bytes"):
        assert known_text(text_fingerprint(parts, unit), unit) is text
        assert text.split_name(text_fingerprint(parts[1:], unit)) == "last 10 %"
        assert text.split_name(text_fingerprint([content[border + 1 :]], unit)) is None


def test_published_losses_of_known_text_are_returned_for_its_unit_only():
    fingerprint = TEXTS["Penn Treebank, words"].fingerprints[0]
    losses = published_losses(fingerprint, "words")
    awd = [loss for loss in losses if loss.model.startswith("AWD-LSTM, 24 M")]
    assert {(loss.split, loss.dynamic): loss.figure for loss in awd} == {
        ("valid", False): 60.0,
        ("test", False): 57.3,
        ("valid", True): 51.6,
        ("test", True): 51.1,
    }
    assert published_losses(fingerprint, "characters") == []


def test_published_losses_are_empty_for_unknown_text():
    assert published_losses(TextFingerprint(1115394, 1), "characters") == []
