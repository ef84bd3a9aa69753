"""How well answers fit: accuracy, F1 of labels, F1 of spans as conlleval computes it.

All figures are of 1. What would be divided by nothing is 0, as in conlleval.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elmo.errors import InputError
from elmo.tasks.spans import to_spans


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1, and what they are computed from.

    Attributes:
        precision: right of found.
        recall: right of gold.
        f1: their harmonic mean.
        gold: how many there are.
        found: how many were answered.
        right: how many were answered and are there.
    """

    precision: float
    recall: float
    f1: float
    gold: int
    found: int
    right: int

    @classmethod
    def from_counts(cls, *, gold: int, found: int, right: int) -> "Score":
        """Compute the three figures."""
        return cls(
            precision=right / found if found else 0.0,
            recall=right / gold if gold else 0.0,
            f1=2 * right / (gold + found) if gold + found else 0.0,
            gold=gold,
            found=found,
            right=right,
        )


@dataclass(frozen=True)
class LabelScores:
    """Of answers that are one label each.

    Attributes:
        accuracy: how many labels are right.
        macro_f1: mean F1 over the labels that are in gold.
        labels: by label, sorted; those that were only answered included.
        n: answers.
    """

    accuracy: float
    macro_f1: float
    labels: dict[str, Score]
    n: int


@dataclass(frozen=True)
class SpanScores:
    """Of tags that mark spans; a span is right where both ends and the label are.

    Attributes:
        precision: right of found spans, of all labels together.
        recall: right of gold spans.
        f1: their harmonic mean.
        accuracy: how many tags are right.
        total: the first three with what they are computed from.
        labels: by label, sorted.
        n: words.
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
    """Mean and standard deviation of `n` runs."""

    mean: float
    deviation: float
    n: int


def label_scores(gold: Sequence[str], found: Sequence[str]) -> LabelScores:
    """Score labels: of texts, or of the words of all sentences one after the other.

    Args:
        gold: right labels, at least one.
        found: answers, in the same order.
    """
    _check("labels", len(gold), len(found))
    if not gold:
        raise InputError("there is no label to score")
    right = Counter(label for label, answer in zip(gold, found, strict=True) if label == answer)
    labels = _by_label(Counter(gold), Counter(found), right)
    there = [score.f1 for score in labels.values() if score.gold]
    return LabelScores(
        accuracy=right.total() / len(gold),
        macro_f1=statistics.fmean(there),
        labels=labels,
        n=len(gold),
    )


def span_scores(
    gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]], scheme: str
) -> SpanScores:
    """Score tags as conlleval does.

    Args:
        gold: right tags of each sentence, at least one in all.
        found: answered tags, in the same order.
        scheme: of both.
    """
    _check("sentences", len(gold), len(found))
    there: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    right: Counter[str] = Counter()
    n = n_right = 0
    for number, (tags, answers) in enumerate(zip(gold, found, strict=True), start=1):
        _check(f"tags in sentence {number}", len(tags), len(answers))
        n += len(tags)
        n_right += sum(tag == answer for tag, answer in zip(tags, answers, strict=True))
        spans, guesses = set(to_spans(tags, scheme)), set(to_spans(answers, scheme))
        there.update(span.label for span in spans)
        answered.update(span.label for span in guesses)
        right.update(span.label for span in spans & guesses)
    if not n:
        raise InputError("there is no tag to score")
    total = Score.from_counts(gold=there.total(), found=answered.total(), right=right.total())
    return SpanScores(
        precision=total.precision,
        recall=total.recall,
        f1=total.f1,
        accuracy=n_right / n,
        total=total,
        labels=_by_label(there, answered, right),
        n=n,
    )


def mean_and_deviation(values: Iterable[float]) -> Spread:
    """Give the mean over runs and the sample standard deviation, which is 0 for a single run."""
    values = list(values)
    if not values:
        raise InputError("there is no value to take the mean of")
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Spread(statistics.fmean(values), deviation, len(values))


def _by_label(gold: Counter[str], found: Counter[str], right: Counter[str]) -> dict[str, Score]:
    return {
        label: Score.from_counts(gold=gold[label], found=found[label], right=right[label])
        for label in sorted(gold.keys() | found.keys())
    }


def _check(what: str, gold: int, found: int) -> None:
    if gold != found:
        raise InputError(f"{what}: {gold} in gold, {found} in the answers; expected as many")
