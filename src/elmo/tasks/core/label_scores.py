"""Accuracy and F1 of labels, and the mean of scores over runs.

All scores are fractions between 0 and 1. A score with a denominator of 0 is 0, as in conlleval.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmo.errors import InputError


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1, with the underlying counts of items."""

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
    """Accuracy, and F1 scores.

    `macro_f1` is the mean F1 of all labels that occur in the gold data. `labels` are sorted and
    include labels that were only predicted.
    """

    accuracy: float
    macro_f1: float
    labels: dict[str, Score]
    n: int


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over `n` runs."""

    mean: float
    deviation: float
    n: int


def label_scores(gold: Sequence[str], predicted: Sequence[str]) -> LabelScores:
    """Score text labels, at least one, or the word tags of all sentences."""
    check_lengths("labels", len(gold), len(predicted))
    if not gold:
        raise InputError("There are no labels to score.")
    pairs = zip(gold, predicted, strict=True)
    correct = Counter(label for label, prediction in pairs if label == prediction)
    labels = scores_by_label(Counter(gold), Counter(predicted), correct)
    gold_f1 = [score.f1 for score in labels.values() if score.gold]
    return LabelScores(
        accuracy=correct.total() / len(gold),
        macro_f1=statistics.fmean(gold_f1),
        labels=labels,
        n=len(gold),
    )


def mean_and_deviation(values: Iterable[float]) -> Spread:
    """Return the mean and the sample standard deviation over runs; a single run has deviation 0."""
    values = list(values)
    if not values:
        raise InputError("There are no values to average.")
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), deviation, len(values))


def scores_by_label(
    gold: Counter[str], predicted: Counter[str], correct: Counter[str]
) -> dict[str, Score]:
    """Return the score of each label, given its counts; sorted by label."""
    return {
        label: Score.from_counts(
            gold=gold[label], predicted=predicted[label], correct=correct[label]
        )
        for label in sorted(gold.keys() | predicted.keys())
    }


def check_lengths(items: str, n_gold: int, n_predicted: int) -> None:
    """Raise an error if the numbers of gold and predicted items differ."""
    if n_gold != n_predicted:
        raise InputError(
            f"The number of {items} differs: {n_gold} in the gold data, {n_predicted} in the "
            "predictions."
        )
