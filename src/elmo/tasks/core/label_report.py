"""Scores by label and confusion matrix, as a table for people and as plain data."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from elmo.progress import format_count
from elmo.tasks.core.label_scores import Score

# Columns of a terminal.
MAX_WIDTH = 80
# Longer labels are shortened in tables, and more in the header of the matrix.
MAX_LABEL, MAX_HEADER = 30, 10
# Number of confusions that are listed if the matrix is wider than a terminal.
MAX_CONFUSIONS = 20
# Number of the most frequent and of the rarest labels in a line.
MAX_COUNTS = 5
# Gold or predicted label of a span that exists only on the other side.
NO_SPAN = "(none)"
# Label of the spans of the tags B and I.
NO_NAME = "(no name)"


@dataclass(frozen=True)
class LabelReport:
    """Scores by label, and counts by gold label and predicted label, without zeros."""

    labels: Mapping[str, Score]
    confusion: Mapping[str, Mapping[str, int]]

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON-serializable data."""
        labels = {
            name: {
                "precision": score.precision,
                "recall": score.recall,
                "f1": score.f1,
                "support": score.gold,
                "predicted": score.predicted,
                "correct": score.correct,
            }
            for name, score in self._sorted_scores()
        }
        confusion = {gold: dict(counts) for gold, counts in self.confusion.items()}
        return {"labels": labels, "confusion_matrix": confusion}

    def __str__(self) -> str:
        """Return the scores by label and the confusion matrix, in at most 80 columns."""
        return f"{self._score_table()}\n\n{self._matrix() or self._confusion_list()}"

    def _sorted_scores(self) -> list[tuple[str, Score]]:
        return [(name, self.labels[name]) for name in _sorted(self.labels)]

    def _score_table(self) -> str:
        width = _column_width(["label", *self.labels], MAX_LABEL)
        lines = [f"{_pad('label', width)}  precision  recall      F1   support"]
        for name, score in self._sorted_scores():
            lines.append(
                f"{_pad(name, width)}  {score.precision:>9.4f}  {score.recall:.4f}  "
                f"{score.f1:.4f}  {score.gold:>8,}"
            )
        return "\n".join(lines)

    def _matrix(self) -> str | None:
        """Return the confusion matrix; None if it is wider than a terminal."""
        names = _sorted({*self.confusion, *(p for row in self.confusion.values() for p in row)})
        counts = [[self.confusion.get(gold, {}).get(name, 0) for name in names] for gold in names]
        digits = max((len(str(count)) for row in counts for count in row), default=1)
        rows = names
        headers = [_shorten(name, MAX_HEADER) for name in names]
        widths = [max(digits, _width(header)) for header in headers]
        side = _column_width(rows, MAX_LABEL)
        if side + sum(widths) + 2 * len(names) > MAX_WIDTH:
            # Number the columns, and repeat the numbers in front of the rows.
            headers = [str(number) for number in range(1, len(names) + 1)]
            rows = [f"{number:>2} {name}" for number, name in enumerate(names, start=1)]
            widths = [max(digits, len(header)) for header in headers]
            side = _column_width(rows, MAX_LABEL)
        if side + sum(widths) + 2 * len(names) > MAX_WIDTH:
            return None
        cells = [headers, *([str(count) for count in row] for row in counts)]
        lines = [
            _pad(name, side)
            + "".join(
                f"  {' ' * (width - _width(cell))}{cell}"
                for cell, width in zip(row, widths, strict=True)
            )
            for name, row in zip(["", *rows], cells, strict=True)
        ]
        return "\n".join(["confusion matrix (rows: gold, columns: predicted)", *lines])

    def _confusion_list(self) -> str:
        """Return the most frequent confusions, for matrices that are wider than a terminal."""
        confusions = Counter(
            {
                (gold, name): count
                for gold, counts in self.confusion.items()
                for name, count in counts.items()
                if gold != name
            }
        )
        shown = confusions.most_common(MAX_CONFUSIONS)
        width = _column_width([gold for (gold, _), _ in shown], MAX_LABEL)
        lines = [
            f"{_pad(gold, width)}  {_pad(name, MAX_LABEL)}  {count:>8,}"
            for (gold, name), count in shown
        ]
        title = f"{_pad('gold', width)}  {_pad('predicted', MAX_LABEL)}  {'count':>8}"
        note = (
            f"most frequent confusions, {len(shown)} of {len(confusions)} "
            "(the whole matrix is printed with --json)"
        )
        return "\n".join([note, title, *lines])


def label_report(
    gold: Sequence[str], predicted: Sequence[str], scores: Mapping[str, Score]
) -> LabelReport:
    """Return the report of labels of texts or words."""
    return LabelReport(scores, confusion_counts(zip(gold, predicted, strict=True)))


def describe_counts(counts: Mapping[str, int], noun: str) -> str:
    """Return the number of labels of a noun and how often each occurs, the rarest last."""
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name or NO_NAME} {count:,}" for name, count in by_count]
    if len(shown) > 2 * MAX_COUNTS:
        n_left_out = len(shown) - 2 * MAX_COUNTS
        shown = [*shown[:MAX_COUNTS], f"{n_left_out:,} more", *shown[-MAX_COUNTS:]]
    return f"{format_count(len(counts), noun)}{': ' if shown else ''}{', '.join(shown)}"


def confusion_counts(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count pairs of a gold label and a predicted label."""
    counts = Counter(pairs)
    confusion: dict[str, dict[str, int]] = {}
    for gold in _sorted({gold for gold, _ in counts}):
        names = _sorted({name for first, name in counts if first == gold})
        confusion[gold] = {name: counts[gold, name] for name in names}
    return confusion


def _sorted(names: Iterable[str]) -> list[str]:
    """Sort labels; as numbers if all of them are numbers."""
    names = list(names)
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names, key=lambda name: (name == NO_SPAN, name))


def _width(text: str) -> int:
    """Return the number of terminal columns of a text: two for a wide character."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _shorten(text: str, width: int) -> str:
    """Return a text that fits into a width, with an ellipsis if it is cut."""
    text = "".join(" " if character.isspace() else character for character in text)
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _pad(text: str, width: int) -> str:
    text = _shorten(text, width)
    return text + " " * (width - _width(text))


def _column_width(names: Iterable[str], maximum: int) -> int:
    return min(maximum, max(map(_width, names), default=0))
