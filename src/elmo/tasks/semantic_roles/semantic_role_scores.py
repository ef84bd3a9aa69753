"""Semantic role labeling scores: F1 over arguments, excluding the predicates themselves.

Predicates are part of the input, so their tag V is not scored, as in the CoNLL scorers. Continued
arguments (C-ARG1) count as separate spans.
"""

from collections.abc import Sequence

from elmo.tasks.tagging.span_scores import SpanScores, span_scores
from elmo.tasks.tagging.spans import from_spans, to_spans

VERB = "V"


def role_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> SpanScores:
    """Score the argument tags of predicates; each predicate has the tags of a sentence."""
    return span_scores(_arguments(gold, scheme), _arguments(predicted, scheme), scheme)


def _arguments(frames: Sequence[Sequence[str]], scheme: str) -> list[list[str]]:
    """Return the tags with those of the predicate replaced by O."""
    return [
        from_spans(
            [span for span in to_spans(tags, scheme) if span.label != VERB], len(tags), scheme
        )
        for tags in frames
    ]
