"""How well the arguments of predicates fit: F1 of spans, the predicate itself left out.

What is given cannot be found, so V is not counted, as the scorers of CoNLL have it. Continued
arguments (C-ARG1) are spans of their own.
"""

from collections.abc import Sequence

from elmo.tasks.scores.label_scores import SpanScores, span_scores
from elmo.tasks.spans import from_spans, to_spans

VERB = "V"


def role_scores(
    gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]], scheme: str
) -> SpanScores:
    """Score the tags of predicates.

    Args:
        gold: right tags for each predicate.
        found: answered tags, in the same order.
        scheme: of both.
    """
    return span_scores(_arguments(gold, scheme), _arguments(found, scheme), scheme)


def _arguments(frames: Sequence[Sequence[str]], scheme: str) -> list[list[str]]:
    """Give tags without those of the predicate."""
    return [
        from_spans(
            [span for span in to_spans(tags, scheme) if span.label != VERB], len(tags), scheme
        )
        for tags in frames
    ]
