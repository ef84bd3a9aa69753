"""Tests of the tokenizers by name: lookup and rejected names."""

import pytest

from elmo.errors import ConfigError
from elmo.text.tokenizer import EnglishTokenizer
from elmo.text.tokenizers_by_name import TOKENIZERS, get_tokenizer


@pytest.mark.parametrize("name", [*TOKENIZERS, "spacy:blank-en"])
def test_get_tokenizer_returns_tokenizer_with_requested_name(name: str) -> None:
    assert get_tokenizer(name).name == name


def test_unknown_tokenizer_error_lists_known_names() -> None:
    with pytest.raises(ConfigError, match=r"'klingon'.*english, korean, whitespace, spacy:NAME"):
        get_tokenizer("klingon")


def test_get_tokenizer_rejects_an_object_instead_of_a_name() -> None:
    message = "has type EnglishTokenizer. Pass the name of a tokenizer, such as spacy:blank-en."
    with pytest.raises(ConfigError, match=message):
        get_tokenizer(EnglishTokenizer())  # type: ignore[arg-type]
