"""Sentence pair classification: predicts one label for two texts, e.g. textual entailment."""

from collections.abc import Sequence
from typing import ClassVar, Self

from elmo.config import TaskEncoderConfig
from elmo.config.tasks import TaskOptions
from elmo.tasks.classification.classification_task import Classification, LabelPrediction
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import Record, TextGroup, paired_text_groups
from elmo.tasks.core.task_model import TaskHead
from elmo.tasks.sentence_pairs.sentence_pair_head import SentencePairHead
from elmo.tasks.sentence_pairs.sentence_pairs_options import SentencePairsOptions


class SentencePairs(Classification):
    """Predicts one label per pair of texts."""

    n_inputs: ClassVar[int] = 2
    n_texts: ClassVar[int | None] = 2
    # 1 if the word also occurs in the other text, else 0.
    n_indicators: ClassVar[int] = 2

    @classmethod
    def from_examples(cls, examples: Sequence[Example[str]], options: TaskOptions) -> Self:
        """Create the task with the metric from its options."""
        assert isinstance(options, SentencePairsOptions)
        return cls(options.metric)

    def text_groups(self, parts: Sequence[Example[str]]) -> list[TextGroup]:
        """Return the first and second texts; words that occur in both have the indicator 1."""
        return paired_text_groups(parts)

    def char_ngrams(self, options: TaskOptions) -> None:
        """Return None: this head does not use n-grams."""

    def head(
        self, dim: int, labels: Sequence[str], encoder: TaskEncoderConfig, options: TaskOptions
    ) -> TaskHead[list[float]]:
        """Create the head."""
        return SentencePairHead(dim=dim, n_labels=len(labels), config=encoder)

    def to_record(self, example: Example[str], answer: LabelPrediction) -> Record:
        """Return both texts, the label and all label probabilities in descending order."""
        record = super().to_record(example, answer)
        del record["words"]
        return {"texts": [list(text) for text in example.texts], **record}
