"""Draws a text colored by the values of one unit, as an SVG without links to other files."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from elmo.lab.units.traces import GATES, Track, UnitTraces
from elmo.lab.units.unit_search import Sign

# Colors of -1, 0 and 1, those of the light theme of the pages (src/elmo/lab/pages/common.js).
LOW, MIDDLE, HIGH = (67, 147, 195), (255, 255, 255), (222, 108, 88)
INK, QUIET = "#1c2026", "#5b6470"
SANS = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
CHARACTER, LINE, MARGIN, HEADER = 8, 20, 16, 64
COLUMNS, TAB = 84, 4
LEGEND = 120
# Height of the line below marked pieces.
MARK = 2
# Share of the absolute values that the color scale covers.
COVERED = 0.99
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Box:
    """A piece of text with its color.

    Attributes:
        column: Column of its left edge, or of its right edge counted from the right if its line is
            written from right to left.
        columns: Width in columns.
        text: Its visible text.
        color: Background as `#rrggbb`.
        is_marked: Whether it is underlined.
    """

    column: int
    columns: int
    text: str
    color: str
    is_marked: bool


def diverging_color(value: float) -> str:
    """Return the color of a value from -1 (blue) to 1 (red); values beyond are clipped."""
    end, share = LOW if value < 0 else HIGH, min(1.0, abs(value))
    rgb = (round(start + (stop - start) * share) for start, stop in zip(MIDDLE, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in rgb)


def unit_picture(
    traces: UnitTraces,
    track: Track,
    unit: int,
    subtitle: str = "",
    *,
    sign: Sign = 1,
    marked: Sequence[bool] = (),
) -> str:
    """Return the text of traces, colored by a unit, as SVG. The color of a cell is its tanh.

    Args:
        traces: Traces of a short text: every position is drawn.
        track: Layer, direction and kind of value.
        unit: Number of the unit.
        subtitle: Text below the name of the unit.
        sign: 1: high values are red. -1: low values are red, for units that are low where a
            property holds.
        marked: Whether each position is underlined. Default: none.
    """
    values = traces.values[track][:, unit].astype(float)
    name = str(track)
    if track.kind == "cell":
        # The hidden state sees the cell through tanh, which is flat beyond 2.
        values, name = np.tanh(values), f"tanh of {name}"
    if track.kind in GATES:
        low, high, scaled = 0.0, 1.0, 2 * values - 1
    else:
        high = float(np.quantile(np.abs(values), COVERED)) or 1.0
        low, scaled = -high, values / high
    left_end, right_end = (low, high) if sign > 0 else (high, low)
    colors = [diverging_color(value) for value in (sign * scaled).tolist()]
    lines = list(_lines(traces, colors, marked or [False] * len(traces)))
    width = 2 * MARGIN + COLUMNS * CHARACTER
    height = HEADER + len(lines) * LINE + MARGIN
    drawn = "\n".join(_line_svg(line, HEADER + i * LINE) for i, line in enumerate(lines))
    stops = "".join(
        f'<stop offset="{(value + 1) / 2}" stop-color="{diverging_color(value)}"/>'
        for value in (-1, 0, 1)
    )
    right = width - MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">\n'
        f'<defs><linearGradient id="scale">{stops}</linearGradient></defs>\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
        f'<g font-family="{SANS}" font-size="12" fill="{QUIET}">'
        f'<text x="{MARGIN}" y="24" font-size="14" font-weight="600" fill="{INK}">'
        f"Unit {unit}: {_xml(name)}</text>"
        f'<text x="{MARGIN}" y="44">{_xml(subtitle)}</text>'
        f'<rect x="{right - LEGEND}" y="14" width="{LEGEND}" height="10" fill="url(#scale)" '
        f'stroke="#d9dee5"/><text x="{right - LEGEND}" y="40">{left_end:.2f}</text>'
        f'<text x="{right}" y="40" text-anchor="end">{right_end:.2f}</text></g>\n'
        f'<g font-family="{MONO}" font-size="13" fill="{INK}">\n{drawn}\n</g></svg>\n'
    )


def _xml(text: str) -> str:
    """Return text for use in SVG, without the characters that XML does not allow."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _columns(text: str) -> int:
    """Return the width of a text in columns of a monospace font."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _lines(
    traces: UnitTraces, colors: Sequence[str], marked: Sequence[bool]
) -> Iterator[list[Box]]:
    """Yield the boxes of each line; lines are broken at line breaks and after `COLUMNS`."""
    gap = int(traces.unit == "words")
    line: list[Box] = []
    column = 0
    positions = traces.positions.tolist()
    for position, piece, color, is_marked in zip(
        positions, traces.pieces, colors, marked, strict=True
    ):
        is_break = piece == "\n"
        # The value after a line break is drawn as an empty box at the end of its line.
        text = "" if is_break else piece
        if piece == "\t":
            text = " " * (TAB - column % TAB)
        columns = _columns(text) + is_break
        if line and not is_break and column + columns > COLUMNS:
            yield line
            line, column = [], 0
        # The end of a line of words has no box.
        if not (is_break and gap):
            line.append(Box(column, columns, text, color, is_marked))
        column += columns + gap
        if is_break or position in traces.line_ends:
            yield line
            line, column = [], 0
    if line:
        yield line


def _is_rtl(text: str) -> bool:
    """Return whether the first letter of a line is written from right to left."""
    directions = (unicodedata.bidirectional(c) for c in text)
    return next((d in ("R", "AL") for d in directions if d in ("L", "R", "AL")), False)


def _line_svg(line: list[Box], y: int) -> str:
    """Return the boxes of a line and its text."""
    is_rtl = _is_rtl("".join(box.text for box in line))
    left, right = MARGIN, MARGIN + COLUMNS * CHARACTER
    drawn: list[str] = []
    column, text = 0, ""
    for box in line:
        x = box.column * CHARACTER
        width = box.columns * CHARACTER
        if width:
            x = right - x - width if is_rtl else left + x
            drawn.append(f'<path fill="{box.color}" d="M{x} {y}h{width}v{LINE}h-{width}z"/>')
            if box.is_marked:
                y_mark = y + LINE - MARK
                drawn.append(f'<path fill="{INK}" d="M{x} {y_mark}h{width}v{MARK}h-{width}z"/>')
        text += " " * (box.column - column) + box.text
        column = box.column + _columns(box.text)
    if text.strip():
        # The length keeps the text above its boxes in any font.
        drawn.append(
            f'<text x="{right if is_rtl else left}" y="{y + 14}" xml:space="preserve" '
            f'textLength="{column * CHARACTER}" lengthAdjust="spacingAndGlyphs" '
            f'direction="{"rtl" if is_rtl else "ltr"}">{_xml(text)}</text>'
        )
    return "".join(drawn)
