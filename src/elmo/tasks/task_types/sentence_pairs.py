"""Pairs: one label for two texts, such as whether the first entails the second."""

from collections.abc import Sequence
from typing import Any, ClassVar

from elmo.config import TaskEncoderConfig
from elmo.tasks.examples import Example
from elmo.tasks.heads.sentence_pair_head import SentencePairHead
from elmo.tasks.task_model import TaskHead
from elmo.tasks.task_types.classification import Classification
from elmo.tasks.task_types.task import TextGroup, paired_text_groups


class SentencePairs(Classification):
    """One label for two texts."""

    n_texts: ClassVar[int] = 2
    # Whether the other text has the word too.
    n_indicators: ClassVar[int] = 2

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Give first and second texts, the words marked that both have."""
        return paired_text_groups(examples)

    def head(self, dim: int, labels: Sequence[str], config: TaskEncoderConfig) -> TaskHead:
        """Make a head for vectors of a width."""
        return SentencePairHead(dim=dim, n_labels=len(labels), config=config)

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give both texts, the label and its probabilities, the likeliest first."""
        found = super().to_record(example, answer)
        del found["words"]
        return {"texts": [list(text) for text in example.texts], **found}
