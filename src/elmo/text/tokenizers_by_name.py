"""The tokenizers by name, as models and options record them."""

import logging
from collections.abc import Callable

from elmo.errors import ConfigError
from elmo.text.korean import KoreanTokenizer
from elmo.text.spacy_pipeline import SPACY, SpacyTokenizer
from elmo.text.tokenizer import (
    CharactersAndSpacesTokenizer,
    CharacterTokenizer,
    EnglishTokenizer,
    Tokenizer,
    WhitespaceTokenizer,
)

logger = logging.getLogger(__name__)

TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    CharacterTokenizer.name: CharacterTokenizer,
    CharactersAndSpacesTokenizer.name: CharactersAndSpacesTokenizer,
    EnglishTokenizer.name: EnglishTokenizer,
    KoreanTokenizer.name: KoreanTokenizer,
    WhitespaceTokenizer.name: WhitespaceTokenizer,
}
"""Tokenizer classes by name. A class imports its package when an object is created."""


def get_tokenizer(name: str) -> Tokenizer:
    """Return the tokenizer with the given name.

    Args:
        name: A key of `TOKENIZERS`, or `spacy:` followed by the name of an installed pipeline or by
            `blank-` and a language code, such as `spacy:blank-ja`.

    Raises:
        ConfigError: If there is no tokenizer with this name.
        MissingExtra: If a required package is not installed.
    """
    require_known(name)
    if name.startswith(SPACY):
        return SpacyTokenizer(name.removeprefix(SPACY))
    return TOKENIZERS[name]()


def require_known(name: str) -> None:
    """Raise a `ConfigError` if a tokenizer name is unknown, without loading the tokenizer."""
    if not isinstance(name, str):
        raise ConfigError(
            f"The tokenizer has type {type(name).__name__}. Pass the name of a tokenizer, such as "
            "spacy:blank-en."
        )
    if not name.startswith(SPACY) and name not in TOKENIZERS:
        known = ", ".join([*sorted(TOKENIZERS), f"{SPACY}NAME"])
        raise ConfigError(f"Unknown tokenizer {name!r}. Expected one of: {known}.")


def warn_about_words(tokenizer: str, trained: str | None, remedy: str) -> None:
    """Warn if a tokenizer splits text into other words than those that a model was trained on.

    The words of the training text are unknown if `trained` is None or white space, as with models
    of older formats.
    """
    if trained in (None, WhitespaceTokenizer.name, tokenizer):
        return
    # The words of spaCy's English pipelines are mostly those of the english tokenizer.
    if trained == EnglishTokenizer.name and tokenizer.startswith(SPACY):
        return
    logger.warning(
        "The text is split with the tokenizer %s, but the ELMo model was trained on words of the "
        "tokenizer %s. %s.",
        tokenizer,
        trained,
        remedy,
    )
