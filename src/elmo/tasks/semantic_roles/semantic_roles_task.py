"""Semantic role labeling: finds the predicates of a sentence and the arguments of each predicate.

A single tagging model is trained on two kinds of input. If no predicate is marked, it tags every
predicate of the sentence with V. If one predicate is marked, it tags the arguments of that
predicate, and tags only that predicate with V. For a sentence with unknown predicates, the model is
run once to find the predicates and then once per predicate to find its arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from elmo.config.tasks import TaskOptions
from elmo.errors import InputError
from elmo.tasks.core.example import Example, gold
from elmo.tasks.core.label_scores import Score
from elmo.tasks.core.task import Record, TextGroup
from elmo.tasks.semantic_roles.frame import Frame
from elmo.tasks.semantic_roles.semantic_role_scores import VERB, role_scores
from elmo.tasks.tagging import spans
from elmo.tasks.tagging.tagging_task import TagPredictor, Tags, choose_scheme

# Values of the indicator feature: a word other than the marked predicate, the marked predicate, and
# any word of a sentence without a marked predicate.
NOT_PREDICATE, PREDICATE, PREDICATE_SEARCH = range(3)
# Predicate of the frame that contains the tags of all predicates.
NO_PREDICATE = -1

Frames = tuple[Frame, ...]


@dataclass(frozen=True)
class PredictedFrames:
    """Predicted predicates, and a frame for each of them or of those that are given."""

    predicates: tuple[int, ...]
    frames: tuple[Frame, ...]


class SemanticRoles(TagPredictor[Frames, PredictedFrames]):
    """Predicts predicates and their arguments.

    A part of an example has a single frame as its target, and the predicate that it marks as extra
    input; both are None-like (`NO_PREDICATE`, None) in the part that finds the predicates.
    """

    empty_answer = PredictedFrames((), ())

    target_description: ClassVar[str] = (
        "frames, each with the word index of a predicate and one tag per word"
    )
    n_indicators: ClassVar[int] = 3
    # PropBank has about sixty labels. BIOES would double the number of tags, most of which would be
    # rare, and the CRF would take four times as long.
    model_scheme: ClassVar[str] = spans.IOB2

    def __init__(self, scheme: str = spans.IOB2) -> None:
        super().__init__(scheme)
        self.metric = "span_f1"
        self.metrics = ("span_precision", "span_recall", "span_f1", "predicate_f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example[Frames]], options: TaskOptions) -> Self:
        """Create the task with the tag scheme of its options or detected in the examples."""
        tags = [frame.tags for example in examples for frame in gold(example)]
        scheme = choose_scheme(tags, options)
        if scheme == spans.NONE:
            raise InputError(
                "Task semantic_roles: the tags do not follow a span tag scheme. Expected tags such "
                "as B-ARG0."
            )
        return cls(scheme)

    @staticmethod
    def has_valid_target(example: Example[object]) -> bool:
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

    def split_example(self, example: Example[Frames]) -> list[Example[Frames]]:
        """Return one example for finding predicates, and one per predicate for its arguments."""
        predicates: Sequence[int] = predicates_of(example) or ()
        if example.target is None:
            return [_part(example), *(_part(example, predicate) for predicate in predicates)]
        # A set, because a word can be the predicate of two frames.
        verbs = {spans.Span(predicate, predicate + 1, VERB) for predicate in predicates}
        tags = spans.from_spans(verbs, len(example.words), self.scheme)
        search = Example(example.texts, (Frame(NO_PREDICATE, tuple(tags)),))
        frames = [
            Example(example.texts, (frame,), extra=frame.predicate) for frame in example.target
        ]
        return [search, *frames]

    def gold_tags(self, part: Example[Frames]) -> Tags:
        """Return the tags of the only frame of a part."""
        ((_, tags),) = gold(part)
        return tags

    def tag_sequences(self, example: Example[Frames]) -> list[Tags]:
        """Return the tags of each frame."""
        return [frame.tags for frame in gold(example)]

    def text_groups(self, parts: Sequence[Example[Frames]]) -> list[TextGroup]:
        """Return the sentences; the indicator feature marks the predicate."""
        return [TextGroup([part.words for part in parts], list(map(_indicators, parts)))]

    def follow_up_examples(
        self, example: Example[Frames], outputs: Sequence[list[int]], labels: Sequence[str]
    ) -> list[Example[Frames]]:
        """Return one example per predicted predicate, unless the example has predicates already."""
        if example.extra is not None:
            return []
        predicted = self._predicates(self.predicted_tags(outputs[0], labels))
        return [_part(example, predicate) for predicate in predicted]

    def _predicates(self, tags: Sequence[str]) -> tuple[int, ...]:
        return tuple(span.start for span in spans.to_spans(tags, self.scheme) if span.label == VERB)

    def answer(
        self,
        example: Example[Frames],
        parts: Sequence[Example[Frames]],
        outputs: Sequence[list[int]],
        labels: Sequence[str],
    ) -> PredictedFrames:
        """Combine the predicted predicates and the frames predicted for each marked predicate."""
        search, *of_predicates = [self.predicted_tags(output, labels) for output in outputs]
        frames = []
        for part, tags in zip(parts[1:], of_predicates, strict=True):
            assert isinstance(part.extra, int)
            frames.append(Frame(part.extra, self._with_verb(part.extra, tags)))
        return PredictedFrames(self._predicates(search), tuple(frames))

    def _with_verb(self, predicate: int, tags: Tags) -> Tags:
        """Tag the predicate with V and remove the arguments that overlap it."""
        predicted = spans.to_spans(tags, self.scheme)
        overlapping = [span for span in predicted if span.start <= predicate < span.end]
        # The marked word can be the second part of a discontinuous verb (C-V).
        if overlapping and overlapping[0].label in (VERB, f"C-{VERB}"):
            return tags
        kept = [span for span in predicted if span not in overlapping and span.label != VERB]
        kept.append(spans.Span(predicate, predicate + 1, VERB))
        return tuple(spans.from_spans(kept, len(tags), self.scheme))

    def scores(
        self, examples: Sequence[Example[Frames]], answers: Sequence[PredictedFrames]
    ) -> dict[str, float]:
        """Return precision, recall and F1 for arguments, and F1 for predicates."""
        tags = [frame.tags for example in examples for frame in gold(example)]
        predicted = [frame.tags for answer in answers for frame in answer.frames]
        by_span = role_scores(spans.to_scheme(tags, self.scheme), predicted, self.scheme)
        gold_predicates = [{frame.predicate for frame in gold(example)} for example in examples]
        predicted_predicates = [set(answer.predicates) for answer in answers]
        pairs = zip(gold_predicates, predicted_predicates, strict=True)
        predicates = Score.from_counts(
            gold=sum(map(len, gold_predicates)),
            predicted=sum(map(len, predicted_predicates)),
            correct=sum(len(of_gold & of_predicted) for of_gold, of_predicted in pairs),
        )
        return {
            "span_precision": by_span.total.precision,
            "span_recall": by_span.total.recall,
            "span_f1": by_span.total.f1,
            "predicate_f1": predicates.f1,
        }

    def to_record(self, example: Example[Frames], answer: PredictedFrames) -> Record:
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
                for frame in answer.frames
            ],
        }


def predicates_of(example: Example[object]) -> tuple[int, ...] | None:
    """Return the word indices of the predicates of an example; None if they are not given."""
    assert example.extra is None or isinstance(example.extra, tuple)
    return example.extra


def _part(example: Example[Frames], predicate: int | None = None) -> Example[Frames]:
    """Return an example without a target that marks a predicate, or none."""
    return Example(example.texts, extra=predicate)


def _indicators(part: Example[Frames]) -> list[int]:
    if part.extra is None:
        return [PREDICATE_SEARCH] * len(part.words)
    return [PREDICATE if index == part.extra else NOT_PREDICATE for index in range(len(part.words))]
