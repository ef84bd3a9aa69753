"""Span F1 as computed by conlleval, and the report by label of spans.

All scores are fractions between 0 and 1. A score with a denominator of 0 is 0, as in conlleval.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo.tasks.core.label_report import NO_SPAN, LabelReport, confusion_counts
from elmo.tasks.core.label_scores import Score, check_lengths, scores_by_label
from elmo.tasks.tagging.spans import to_spans


@dataclass(frozen=True)
class SpanScores:
    """Scores for tags that encode spans; a span is correct if its start, end and label all match.

    `accuracy` is the fraction of correct tags, `n` the number of words. `total` is over the spans
    of all labels, with counts; `labels` are sorted.
    """

    accuracy: float
    total: Score
    labels: dict[str, Score]
    n: int


def span_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> SpanScores:
    """Score tags that encode spans, as conlleval does; at least one tag in total."""
    check_lengths("sentences", len(gold), len(predicted))
    n_gold: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_correct: Counter[str] = Counter()
    n = n_correct_tags = 0
    for number, (tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True), start=1):
        check_lengths(f"tags in sentence {number}", len(tags), len(predicted_tags))
        n += len(tags)
        pairs = zip(tags, predicted_tags, strict=True)
        n_correct_tags += sum(tag == prediction for tag, prediction in pairs)
        spans, predictions = set(to_spans(tags, scheme)), set(to_spans(predicted_tags, scheme))
        n_gold.update(span.label for span in spans)
        n_predicted.update(span.label for span in predictions)
        n_correct.update(span.label for span in spans & predictions)
    if not n:
        raise InputError("There are no tags to score.")
    total = Score.from_counts(
        gold=n_gold.total(), predicted=n_predicted.total(), correct=n_correct.total()
    )
    return SpanScores(
        accuracy=n_correct_tags / n,
        total=total,
        labels=scores_by_label(n_gold, n_predicted, n_correct),
        n=n,
    )


def span_report(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    scheme: str,
    scores: Mapping[str, Score],
) -> LabelReport:
    """Return the report of the labels of spans; spans with equal bounds are compared."""
    pairs: list[tuple[str, str]] = []
    for tags, predicted_tags in zip(gold, predicted, strict=True):
        spans = {(span.start, span.end): span.label for span in to_spans(tags, scheme)}
        predictions = {
            (span.start, span.end): span.label for span in to_spans(predicted_tags, scheme)
        }
        for bounds in spans.keys() | predictions.keys():
            pairs.append((spans.get(bounds, NO_SPAN), predictions.get(bounds, NO_SPAN)))
    return LabelReport(scores, confusion_counts(pairs))
