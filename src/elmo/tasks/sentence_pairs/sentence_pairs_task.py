"""Sentence pair classification: predicts one label for two texts, e.g. textual entailment."""

from collections.abc import Sequence
from typing import Any, ClassVar

from elmo.config import TaskEncoderConfig
from elmo.tasks.classification.classification_task import Classification
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import TextGroup, paired_text_groups
from elmo.tasks.core.task_model import TaskHead
from elmo.tasks.sentence_pairs.sentence_pair_head import SentencePairHead


class SentencePairs(Classification):
    """Predicts one label per pair of texts."""

    n_texts: ClassVar[int] = 2
    # 1 if the word also occurs in the other text, else 0.
    n_indicators: ClassVar[int] = 2

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Return the first and second texts; words that occur in both have the indicator 1."""
        return paired_text_groups(examples)

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Create the head for word vectors of size `dim`."""
        return SentencePairHead(dim=dim, n_labels=len(labels), config=config)

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return both texts, the label and all label probabilities in descending order."""
        record = super().to_record(example, prediction)
        del record["words"]
        return {"texts": [list(text) for text in example.texts], **record}
