"""Tokenizers from spaCy pipelines."""

import re

from elmo.errors import ConfigError, MissingExtra, shortened
from elmo.text.tokenizer import Token, replace_surrogates, tokens_from_spans

# Prefix of the names of spaCy tokenizers, before the name of the pipeline.
SPACY = "spacy:"
BLANK = "blank-"
# A language code, such as en.
_LANGUAGE = re.compile("[a-z]{2,3}")


class SpacyTokenizer:
    """The tokenizer of a spaCy pipeline; other pipeline components are not run."""

    def __init__(self, pipeline: str) -> None:
        """Load an installed pipeline, or `blank-` followed by a language code."""
        self.name = SPACY + pipeline
        try:
            import spacy
        except ImportError:
            raise MissingExtra(f"the tokenizer {self.name}", "spacy") from None
        try:
            if pipeline.startswith(BLANK):
                language = spacy.blank(pipeline.removeprefix(BLANK))
            else:
                language = spacy.load(pipeline)
        except (OSError, ImportError, ValueError) as error:
            blank = f"{SPACY}{BLANK}"
            remedy = (
                f"Did you mean {blank}{pipeline}?"
                if _LANGUAGE.fullmatch(pipeline)
                else "Install the pipeline (python -m spacy download NAME), or use "
                f"{blank}LANGUAGE."
            )
            reason = shortened(error).rstrip(".")
            raise ConfigError(
                f"The tokenizer {self.name} cannot be loaded: {reason}. {remedy}"
            ) from None
        self._split = language.tokenizer

    def tokens(self, text: str) -> list[Token]:
        """Split text into words with offsets."""
        spacy_tokens = self._split(replace_surrogates(text))
        return tokens_from_spans(
            text, ((token.idx, token.idx + len(token)) for token in spacy_tokens)
        )

    def words(self, text: str) -> list[str]:
        """Split text into words."""
        return [token.text for token in self.tokens(text)]
