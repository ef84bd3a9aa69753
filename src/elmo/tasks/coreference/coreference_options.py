"""Options of coreference resolution."""

from dataclasses import dataclass

from elmo.config.bounds import require_at_least_one
from elmo.config.tasks import TaskOptions
from elmo.errors import ConfigError


@dataclass(frozen=True)
class CoreferenceOptions(TaskOptions):
    """Coreference resolution."""

    max_mention_words: int = 20
    """Maximum length of a mention in words."""
    top_span_ratio: float = 0.3
    """Maximum number of candidate mentions, as a fraction of the number of words in the
    document."""
    max_antecedents: int = 150
    """Maximum number of candidate antecedents per mention (the nearest preceding mentions)."""
    scorer_dim: int = 150
    """Hidden size of the networks that score mentions and links."""
    max_sentence_words: int = 150
    """Maximum sentence length in words. Longer sentences are split."""
    max_document_words: int = 4000
    """Maximum document length in words. Longer documents are split at sentence boundaries, and
    mentions are not linked across a split."""

    def __post_init__(self) -> None:
        require_at_least_one(
            self, "max_mention_words", "max_antecedents", "scorer_dim", "max_sentence_words"
        )
        if self.max_document_words < self.max_sentence_words:
            raise ConfigError(
                f"max_document_words ({self.max_document_words}) must be at least "
                f"max_sentence_words ({self.max_sentence_words})."
            )
        if self.top_span_ratio <= 0:
            raise ConfigError(f"top_span_ratio must be above 0 (got {self.top_span_ratio}).")
