"""Text to words with the tokeniser of any spaCy pipeline."""

from elmo.errors import ConfigError, MissingExtra
from elmo.text.tokenizer import SPACY, Token, tokens_from_spans, replace_surrogates

BLANK = "blank-"


class SpacyTokenizer:
    """Splits as a spaCy pipeline does; its other parts are not run."""

    def __init__(self, pipeline: str) -> None:
        """Load a pipeline.

        Args:
            pipeline: `blank-` and the code of a language, or a pipeline that is installed.
        """
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
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"the tokenizer {self.name} cannot be loaded: {reason}; install the pipeline "
                f"(python -m spacy download NAME), or use {SPACY}{BLANK}LANGUAGE"
            ) from None
        self._split = language.tokenizer

    def tokens(self, text: str) -> list[Token]:
        """Split into the words of the pipeline, with offsets."""
        found = self._split(replace_surrogates(text))
        return tokens_from_spans(text, ((token.idx, token.idx + len(token)) for token in found))

    def words(self, text: str) -> list[str]:
        """Split into the words of the pipeline."""
        return [token.text for token in self.tokens(text)]
