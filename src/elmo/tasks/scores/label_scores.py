"""Accuracy, label F1, and span F1 as computed by conlleval.

All scores are fractions between 0 and 1. A score with a denominator of 0 is 0, as in conlleval.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo.tasks.spans import to_spans


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1, with the underlying counts.

    Attributes:
        precision: Fraction of the predicted items that are correct.
        recall: Fraction of the gold items that are predicted.
        f1: Harmonic mean of precision and recall.
        gold: Number of gold items.
        predicted: Number of predicted items.
        correct: Number of predicted items that are in the gold data.
    """

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int

    @classmethod
    def from_counts(cls, *, gold: int, predicted: int, correct: int) -> "Score":
        """Compute precision, recall and F1 from counts."""
        return cls(
            precision=correct / predicted if predicted else 0.0,
            recall=correct / gold if gold else 0.0,
            f1=2 * correct / (gold + predicted) if gold + predicted else 0.0,
            gold=gold,
            predicted=predicted,
            correct=correct,
        )


@dataclass(frozen=True)
class LabelScores:
    """Classification scores: accuracy and F1.

    Attributes:
        accuracy: Fraction of correct labels.
        macro_f1: Mean of the F1 scores of all labels that occur in the gold data.
        labels: Score of each label, sorted by label; includes labels that were only predicted.
        n: Number of predictions.
    """

    accuracy: float
    macro_f1: float
    labels: dict[str, Score]
    n: int


@dataclass(frozen=True)
class SpanScores:
    """Scores for tags that encode spans; a span is correct if its start, end and label all match.

    Attributes:
        precision: Fraction of the predicted spans that are correct.
        recall: Fraction of the gold spans that are predicted.
        f1: Harmonic mean of precision and recall.
        accuracy: Fraction of correct tags.
        total: Score over the spans of all labels, with counts.
        labels: Score of each label, sorted by label.
        n: Number of words.
    """

    precision: float
    recall: float
    f1: float
    accuracy: float
    total: Score
    labels: dict[str, Score]
    n: int


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over `n` runs."""

    mean: float
    deviation: float
    n: int


def label_scores(gold: Sequence[str], predicted: Sequence[str]) -> LabelScores:
    """Score text labels, or the word tags of all sentences.

    Args:
        gold: Gold labels, at least one.
        predicted: Predicted labels, in the same order.
    """
    _check_lengths("labels", len(gold), len(predicted))
    if not gold:
        raise InputError("There are no labels to score.")
    pairs = zip(gold, predicted, strict=True)
    correct = Counter(label for label, prediction in pairs if label == prediction)
    labels = _by_label(Counter(gold), Counter(predicted), correct)
    gold_f1 = [score.f1 for score in labels.values() if score.gold]
    return LabelScores(
        accuracy=correct.total() / len(gold),
        macro_f1=statistics.fmean(gold_f1),
        labels=labels,
        n=len(gold),
    )


def span_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str
) -> SpanScores:
    """Score tags that encode spans, as conlleval does.

    Args:
        gold: Gold tags of each sentence, at least one tag in total.
        predicted: Predicted tags of each sentence, in the same order.
        scheme: Tag scheme of the gold and predicted tags.
    """
    _check_lengths("sentences", len(gold), len(predicted))
    n_gold: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_correct: Counter[str] = Counter()
    n = n_correct_tags = 0
    for number, (tags, predicted_tags) in enumerate(zip(gold, predicted, strict=True), start=1):
        _check_lengths(f"tags in sentence {number}", len(tags), len(predicted_tags))
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
        precision=total.precision,
        recall=total.recall,
        f1=total.f1,
        accuracy=n_correct_tags / n,
        total=total,
        labels=_by_label(n_gold, n_predicted, n_correct),
        n=n,
    )


def mean_and_deviation(values: Iterable[float]) -> Spread:
    """Return the mean and the sample standard deviation over runs; a single run has deviation 0."""
    values = list(values)
    if not values:
        raise InputError("There are no values to average.")
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), deviation, len(values))


def _by_label(
    gold: Counter[str], predicted: Counter[str], correct: Counter[str]
) -> dict[str, Score]:
    return {
        label: Score.from_counts(
            gold=gold[label], predicted=predicted[label], correct=correct[label]
        )
        for label in sorted(gold.keys() | predicted.keys())
    }


def _check_lengths(items: str, n_gold: int, n_predicted: int) -> None:
    if n_gold != n_predicted:
        raise InputError(
            f"The number of {items} differs: {n_gold} in the gold data, {n_predicted} in the "
            "predictions."
        )
