"""Table that compares the loss of a model with n-gram models and published losses."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from elmo.config.language_models import Unit
from elmo.lab.loss_measures import bits_per_character, perplexity_text
from elmo.lab.published_losses import PublishedLoss

COLUMNS = 100
# Limits of the cells with text. With the columns of figures they fill a line.
MODEL_COLUMNS, SPLIT_COLUMNS, SOURCE_COLUMNS = 30, 12, 18
_BITS_PER: dict[Unit, str] = {"characters": "char", "bytes": "byte", "words": "char"}


@dataclass(frozen=True)
class _Row:
    """Loss per symbol of one model, in nats."""

    model: str
    nats: float
    split: str
    source: str = ""
    is_result: bool = False
    dynamic: bool = False


def loss_table(
    result_nats: float,
    unit: Unit,
    ngrams: Sequence[float],
    published: Sequence[PublishedLoss],
    split: str,
    characters_per_symbol: float | None = None,
    dynamic: bool = False,
) -> str:
    """Return a table of losses, lowest first, of at most 100 columns.

    A published model without a loss on the same part of the text is listed with the other parts.

    Args:
        result_nats: Mean loss per symbol of the model.
        unit: "characters", "bytes" or "words".
        ngrams: Losses of n-gram models of orders 1, 2, ... on the same text, in nats.
        published: Published losses on the text.
        split: Part of the text that the loss was computed on.
        characters_per_symbol: For words: number of characters of the part, divided by the number of
            its symbols. Without it the table of a word model has no bits per character.
        dynamic: Whether the loss is from dynamic evaluation.
    """
    rows = [_Row("this model", result_nats, split, is_result=True, dynamic=dynamic)]
    rows += [
        _Row(f"{order}-gram, Kneser-Ney", loss, split, "computed here")
        for order, loss in enumerate(ngrams, 1)
    ]
    same_split = {(loss.model, loss.dynamic) for loss in published if loss.split == split}
    listed = [
        loss
        for loss in published
        if loss.split == split or (loss.model, loss.dynamic) not in same_split
    ]
    rows += [
        _Row(loss.model, loss.nats, loss.split, loss.source, dynamic=loss.dynamic)
        for loss in listed
    ]
    rows.sort(key=lambda row: (math.isnan(row.nats), row.nats))
    cells = [["  model", "nats", f"bits/{_BITS_PER[unit]}", "perplexity", "part", "source"]]
    for row in rows:
        ratio: float | None = 1.0
        if unit == "words":
            # The mean length of words differs between the parts of a text.
            ratio = characters_per_symbol if row.split == split else None
        cells.append(_cells(row, ratio))
    notes = _notes(rows, split, [loss.note for loss in listed])
    return "\n".join([f"Loss per {unit.removesuffix('s')}:", *_aligned(cells), *notes])


def _cells(row: _Row, characters_per_symbol: float | None) -> list[str]:
    bits = bits_per_character(row.nats, characters_per_symbol) if characters_per_symbol else None
    return [
        ("> " if row.is_result else "  ")
        + _shortened(row.model, MODEL_COLUMNS)
        + ("*" if row.dynamic else ""),
        f"{row.nats:.4f}",
        "-" if bits is None else f"{bits:.3f}",
        perplexity_text(row.nats),
        _shortened(row.split, SPLIT_COLUMNS),
        _shortened(row.source, SOURCE_COLUMNS),
    ]


def _shortened(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: columns - 3] + "..."


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; figures are aligned at the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_figure = [False, True, True, True, False, False]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_figure, strict=True)
        ).rstrip()
        for row in cells
    ]


def _notes(rows: Sequence[_Row], split: str, notes: Sequence[str]) -> list[str]:
    """Return the lines below the table."""
    paragraphs = list(dict.fromkeys(filter(None, notes)))
    if any(row.dynamic for row in rows):
        paragraphs.insert(0, "* dynamic evaluation: the weights adapt to the text that was read")
    if any(row.split != split for row in rows):
        paragraphs.append(
            "Losses on different parts of the text can only be compared approximately."
        )
    return [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, COLUMNS)]
