"""Semantic role labeling: finds the predicates of a sentence and the arguments of each predicate.

A single tagging model is trained on two kinds of input. If no predicate is marked, it tags every
predicate of the sentence with V. If one predicate is marked, it tags the arguments of that
predicate, and tags only that predicate with V. For a sentence with unknown predicates, the model is
run once to find the predicates and then once per predicate to find its arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from elmo.config import TaskConfig
from elmo.errors import InputError
from elmo.tasks.core.example import Example, Frame
from elmo.tasks.core.label_report import LabelReport
from elmo.tasks.core.label_scores import Score
from elmo.tasks.core.task import TextGroup
from elmo.tasks.semantic_roles.semantic_role_scores import VERB, role_scores
from elmo.tasks.tagging import spans
from elmo.tasks.tagging.tagging_task import Tagging, choose_scheme

# Values of the indicator feature: a word other than the marked predicate, the marked predicate, and
# any word of a sentence without a marked predicate.
NOT_PREDICATE, PREDICATE, PREDICATE_SEARCH = range(3)


@dataclass(frozen=True)
class PredictedFrames:
    """The predicates and frames predicted for a sentence.

    Attributes:
        predicates: Word indices of the predicted predicates.
        frames: One frame per predicate given in the example or, if none are given, per predicted
            predicate.
    """

    predicates: tuple[int, ...]
    frames: tuple[Frame, ...]


class SemanticRoles(Tagging):
    """Predicts predicates and their arguments."""

    target_description: ClassVar[str] = (
        "frames, each with the word index of a predicate and one tag per word"
    )
    empty_prediction: ClassVar[Any] = PredictedFrames((), ())
    n_indicators: ClassVar[int] = 3
    # PropBank has about sixty labels. BIOES would double the number of tags, most of which would be
    # rare, and the CRF would take four times as long.
    model_scheme: ClassVar[str] = spans.IOB2

    def __init__(self, scheme: str = spans.IOB2) -> None:
        """Set the tag scheme.

        Args:
            scheme: Tag scheme of the examples.
        """
        super().__init__(scheme)
        self.metrics = ("span_precision", "span_recall", "span_f1", "predicate_f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Create the task with the tag scheme set in the config or detected in the examples."""
        tags = [frame.tags for example in examples for frame in example.target]
        scheme = choose_scheme(tags, config)
        if scheme == spans.NONE:
            raise InputError(
                "Task semantic_roles: the tags do not follow a span tag scheme. Expected tags such "
                "as B-ARG0."
            )
        return cls(scheme)

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Whether the example has frames that are consistent with its words and predicates."""
        n = len(example.words)
        return (
            isinstance(example.target, tuple)
            and all(
                isinstance(frame, Frame) and 0 <= frame.predicate < n == len(frame.tags)
                for frame in example.target
            )
            and example.extra == tuple(frame.predicate for frame in example.target)
        )

    def split_example(self, example: Example) -> list[Example]:
        """Return one example for finding predicates, and one per predicate for its arguments."""
        if example.target is None:
            predicates = (None, *(example.extra or ()))
            return [Example(example.texts, extra=predicate) for predicate in predicates]
        # A set, because a word can be the predicate of two frames.
        verbs = {spans.Span(predicate, predicate + 1, VERB) for predicate in example.extra}
        tags = spans.from_spans(verbs, len(example.words), self.scheme)
        frames = [
            Example(example.texts, tags, extra=predicate) for predicate, tags in example.target
        ]
        return [Example(example.texts, tuple(tags)), *frames]

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Return the sentences; the indicator feature marks the predicate."""
        words = [example.words for example in examples]
        return [TextGroup(words, list(map(_indicators, examples)))]

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Return the distinct tags of arguments and predicates in sorted order."""
        return super().labels(
            [part for example in examples for part in self.split_example(example)]
        )

    def follow_up_examples(self, example: Example, predictions: Sequence[Any]) -> Sequence[Example]:
        """Return one example per predicted predicate, unless the example has predicates already."""
        if example.extra is not None:
            return ()
        return [
            Example(example.texts, extra=predicate)
            for predicate in self._predicates(predictions[0])
        ]

    def _predicates(self, tags: Sequence[str]) -> tuple[int, ...]:
        return tuple(span.start for span in spans.to_spans(tags, self.scheme) if span.label == VERB)

    def merge_predictions(
        self, example: Example, parts: Sequence[Example], predictions: Sequence[Any]
    ) -> Any:
        """Combine the predicted predicates and the frames predicted for each marked predicate."""
        frames = [
            Frame(part.extra, self._with_verb(part.extra, tags))
            for part, tags in zip(parts[1:], predictions[1:], strict=True)
        ]
        return PredictedFrames(self._predicates(predictions[0]), tuple(frames))

    def _with_verb(self, predicate: int, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Tag the predicate with V and remove the arguments that overlap it."""
        predicted = spans.to_spans(tags, self.scheme)
        overlapping = [span for span in predicted if span.start <= predicate < span.end]
        # The marked word can be the second part of a discontinuous verb (C-V).
        if overlapping and overlapping[0].label in (VERB, f"C-{VERB}"):
            return tags
        kept = [span for span in predicted if span not in overlapping and span.label != VERB]
        kept.append(spans.Span(predicate, predicate + 1, VERB))
        return tuple(spans.from_spans(kept, len(tags), self.scheme))

    def scores(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Return precision, recall and F1 for arguments, and F1 for predicates."""
        gold = [frame.tags for example in examples for frame in example.target]
        predicted = [frame.tags for prediction in predictions for frame in prediction.frames]
        by_span = role_scores(spans.to_scheme(gold, self.scheme), predicted, self.scheme)
        gold_predicates = [{frame.predicate for frame in example.target} for example in examples]
        predicted_predicates = [set(prediction.predicates) for prediction in predictions]
        pairs = zip(gold_predicates, predicted_predicates, strict=True)
        predicates = Score.from_counts(
            gold=sum(map(len, gold_predicates)),
            predicted=sum(map(len, predicted_predicates)),
            correct=sum(len(of_gold & of_predicted) for of_gold, of_predicted in pairs),
        )
        return {
            "span_precision": by_span.precision,
            "span_recall": by_span.recall,
            "span_f1": by_span.f1,
            "predicate_f1": predicates.f1,
        }

    def report(self, examples: Sequence[Example], predictions: Sequence[Any]) -> LabelReport | None:
        """Return None: scores by role are not reported."""
        return None

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return the words, and the predicates with their arguments."""
        return {
            "words": list(example.words),
            "frames": [
                {
                    "predicate": example.words[frame.predicate],
                    "place": frame.predicate,
                    "arguments": [
                        span.to_dict(example.words)
                        for span in spans.to_spans(frame.tags, self.scheme)
                        if span.label != VERB
                    ],
                }
                for frame in prediction.frames
            ],
        }


def _indicators(example: Example) -> list[int]:
    if example.extra is None:
        return [PREDICATE_SEARCH] * len(example.words)
    return [
        PREDICATE if index == example.extra else NOT_PREDICATE
        for index in range(len(example.words))
    ]
