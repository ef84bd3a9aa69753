"""Sentence pair classification: one label for two texts, e.g. textual entailment."""

from collections.abc import Sequence
from typing import Any, ClassVar

from elmo.config import TaskEncoderConfig
from elmo.tasks.examples import Example
from elmo.tasks.heads.sentence_pair_head import SentencePairHead
from elmo.tasks.task_model import TaskHead
from elmo.tasks.task_types.classification import Classification
from elmo.tasks.task_types.task import TextGroup, paired_text_groups


class SentencePairs(Classification):
    """Predicts one label for two texts."""

    n_texts: ClassVar[int] = 2
    # Whether the other text also contains the word.
    n_indicators: ClassVar[int] = 2

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Return the first and the second texts; shared words have the indicator 1."""
        return paired_text_groups(examples)

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Create the head for word vectors with `dim` dimensions."""
        return SentencePairHead(dim=dim, n_labels=len(labels), config=config)

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return both texts, the label and the label probabilities, most likely first."""
        record = super().to_record(example, prediction)
        del record["words"]
        return {"texts": [list(text) for text in example.texts], **record}
