"""Semantic roles: the predicates of a sentence, and for each the spans of its arguments.

One model learns two questions. Which words are predicates? The answer has V on each of them. What
are the arguments of this predicate? It is marked, and the answer has V on it alone. A sentence
without given predicates is asked the first, then the second for each that was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from elmo.config import TaskConfig
from elmo.errors import InputError
from elmo.tasks import spans
from elmo.tasks.examples import Example, Frame
from elmo.tasks.scores.label_scores import Score
from elmo.tasks.scores.semantic_role_scores import VERB, role_scores
from elmo.tasks.task_types.tagging import Tagging, scheme_of
from elmo.tasks.task_types.task import TextGroup

# What a word is marked as: beside the predicate, the predicate itself, or a word of a sentence that
# is asked for its predicates.
BESIDE, PREDICATE, SOUGHT = range(3)


@dataclass(frozen=True)
class PredictedFrames:
    """What is found in a sentence.

    Attributes:
        predicates: numbers of the words that are predicates.
        frames: of the given predicates; of those that were found where none are given.
    """

    predicates: tuple[int, ...]
    frames: tuple[Frame, ...]


class SemanticRoles(Tagging):
    """Predicates and their arguments."""

    target_description: ClassVar[str] = (
        "frames, each a predicate of the sentence and a tag for each word"
    )
    n_indicators: ClassVar[int] = 3
    # There are some sixty labels; telling inner and last words apart would double the tags, most of
    # them rare, and take four times as long.
    learned: ClassVar[str] = spans.IOB2

    def __init__(self, scheme: str = spans.IOB2) -> None:
        """Say how tags are to be read.

        Args:
            scheme: of the examples.
        """
        super().__init__(scheme)
        self.metrics = ("span_precision", "span_recall", "span_f1", "predicate_f1")

    @classmethod
    def from_examples(cls, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Make the kind for the scheme that the tags of examples are in."""
        scheme = scheme_of([frame.tags for one in examples for frame in one.target], config)
        if scheme == spans.NONE:
            raise InputError("roles: the tags of frames are of no scheme; expected such as B-ARG0")
        return cls(scheme)

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has frames."""
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
        """Ask for the predicates, and for the arguments of each that is given."""
        if example.target is None:
            numbers = (None, *(example.extra or ()))
            return [Example(example.texts, extra=number) for number in numbers]
        # A word may be the predicate of two frames.
        verbs = {spans.Span(number, number + 1, VERB) for number in example.extra}
        tags = spans.from_spans(verbs, len(example.words), self.scheme)
        frames = [Example(example.texts, tags, extra=number) for number, tags in example.target]
        return [Example(example.texts, tuple(tags)), *frames]

    def text_groups(self, examples: Sequence[Example]) -> list[TextGroup]:
        """Give sentences, the predicate marked."""
        return [TextGroup([example.words for example in examples], list(map(_marks, examples)))]

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Give all tags there are."""
        return super().labels(
            [piece for example in examples for piece in self.split_example(example)]
        )

    def follow_up_examples(self, example: Example, answers: Sequence[Any]) -> Sequence[Example]:
        """Ask for the arguments of each predicate that was found, where none are given."""
        if example.extra is not None:
            return ()
        return [Example(example.texts, extra=number) for number in self._predicates(answers[0])]

    def _predicates(self, tags: Sequence[str]) -> tuple[int, ...]:
        return tuple(span.start for span in spans.to_spans(tags, self.scheme) if span.label == VERB)

    def merge_predictions(
        self, example: Example, pieces: Sequence[Example], answers: Sequence[Any]
    ) -> Any:
        """Give the predicates, and the frames that were asked for."""
        frames = [
            Frame(piece.extra, self._with_verb(piece.extra, tags))
            for piece, tags in zip(pieces[1:], answers[1:], strict=True)
        ]
        return PredictedFrames(self._predicates(answers[0]), tuple(frames))

    def _with_verb(self, predicate: int, tags: tuple[str, ...]) -> tuple[str, ...]:
        """Give tags in which no argument covers the predicate, which is V."""
        found = spans.to_spans(tags, self.scheme)
        there = [span for span in found if span.start <= predicate < span.end]
        # Of a verb in two parts the second may be the word that is named.
        if there and there[0].label in (VERB, f"C-{VERB}"):
            return tags
        kept = [span for span in found if span not in there and span.label != VERB]
        kept.append(spans.Span(predicate, predicate + 1, VERB))
        return tuple(spans.from_spans(kept, len(tags), self.scheme))

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give precision and recall of arguments of given predicates, and how those are found."""
        gold = [frame.tags for example in examples for frame in example.target]
        found = [frame.tags for answer in answers for frame in answer.frames]
        by_span = role_scores(spans.to_scheme(gold, self.scheme), found, self.scheme)
        there = [{frame.predicate for frame in example.target} for example in examples]
        said = [set(answer.predicates) for answer in answers]
        predicates = Score.from_counts(
            gold=sum(map(len, there)),
            found=sum(map(len, said)),
            right=sum(len(right & own) for right, own in zip(there, said, strict=True)),
        )
        return {
            "span_precision": by_span.precision,
            "span_recall": by_span.recall,
            "span_f1": by_span.f1,
            "predicate_f1": predicates.f1,
        }

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give the words, and each predicate with its arguments."""
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


def _marks(example: Example) -> list[int]:
    if example.extra is None:
        return [SOUGHT] * len(example.words)
    return [
        PREDICATE if number == example.extra else BESIDE for number in range(len(example.words))
    ]
