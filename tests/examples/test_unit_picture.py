"""Tests of `docs/unit_picture.py`."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from elmo.lab.units.traces import Track, UnitTraces

sys.path.append(str(Path(__file__).parents[2] / "docs"))
from unit_picture import CHARACTER, COLUMNS, INK, MARGIN, diverging_color, unit_picture

CELL = Track(0, "forward", "cell")
HIDDEN = Track(0, "forward", "hidden")
SVG = "{http://www.w3.org/2000/svg}"


def drawn(pieces, values, unit="characters", track=HIDDEN, **options):
    """Return the picture of one unit as XML."""
    array = np.array(values, dtype=np.float32)[:, None]
    traces = UnitTraces(tuple(pieces), unit, {track: array})
    return ElementTree.fromstring(unit_picture(traces, track, 0, "<score> & more", **options))


def lines(svg):
    """Return the text elements of the colored text."""
    return [line for line in svg.iter(f"{SVG}text") if line.get("textLength")]


def boxes(svg):
    """Return left edge, width and color of each box."""
    result = []
    for path in svg.iter(f"{SVG}path"):
        start, rest = path.get("d").split("h", 1)
        left = int(start[1:].split()[0])
        result.append((left, int(rest.split("v")[0]), path.get("fill")))
    return result


def test_diverging_color_is_that_of_the_pages_and_is_clipped():
    assert diverging_color(-1) == diverging_color(-7) == "#4393c3"
    assert diverging_color(0) == "#ffffff"
    assert diverging_color(1) == diverging_color(7) == "#de6c58"
    script = Path(__file__).parents[2] / "src/elmo/lab/pages/common.js"
    assert "light: [[67, 147, 195], [255, 255, 255], [222, 108, 88]]" in script.read_text()


def test_text_is_escaped():
    text = "</text>\"'&\x00<script>"
    svg = drawn(text, [0.5] * len(text))
    assert [line.text for line in lines(svg)] == [text.replace("\x00", "\ufffd")]
    assert any(line.text == "<score> & more" for line in svg.iter(f"{SVG}text"))


def test_colors_span_the_values_of_the_unit():
    colors = [color for _, _, color in boxes(drawn("abc", [-2, 0, 2]))]
    assert colors == ["#4393c3", "#ffffff", "#de6c58"]


def test_gates_are_blue_at_0_and_red_at_1():
    gate = Track(0, "forward", "forget")
    colors = [color for _, _, color in boxes(drawn("abc", [0, 0.5, 1], track=gate))]
    assert colors == ["#4393c3", "#ffffff", "#de6c58"]


def test_color_of_a_cell_is_its_tanh():
    svg = drawn("abc", [-20, 1, 20], track=CELL)
    assert [color for _, _, color in boxes(svg)] == [
        "#4393c3",
        diverging_color(np.tanh(1)),
        "#de6c58",
    ]
    assert any(text.text == "Unit 0: tanh of layer 0 cell" for text in svg.iter(f"{SVG}text"))


def test_negative_sign_makes_low_values_red():
    svg = drawn("abc", [-2, 0, 2], sign=-1)
    assert [color for _, _, color in boxes(svg)] == ["#de6c58", "#ffffff", "#4393c3"]
    assert [text.text for text in svg.iter(f"{SVG}text")][2:4] == ["2.00", "-2.00"]


def test_marked_positions_are_underlined():
    below = [(left, width) for left, width, color in boxes(drawn("abc", [1, 1, 1])) if color == INK]
    assert below == []
    svg = drawn("abc", [1, 1, 1], marked=[False, True, False])
    below = [(left, width) for left, width, color in boxes(svg) if color == INK]
    assert below == [(MARGIN + CHARACTER, CHARACTER)]


def test_unit_of_zeros_is_white():
    assert {color for _, _, color in boxes(drawn("ab", [0, 0]))} == {"#ffffff"}


def test_right_to_left_line_starts_at_the_right():
    svg = drawn(["שלום", "עולם", "\n", "hello"], [1, -1, 0, 1], unit="words")
    right = MARGIN + COLUMNS * CHARACTER
    hebrew, english = lines(svg)
    assert (hebrew.get("direction"), english.get("direction")) == ("rtl", "ltr")
    assert (hebrew.get("x"), english.get("x")) == (str(right), str(MARGIN))
    (first, width, _), (second, _, _), (third, _, _) = boxes(svg)
    assert first + width == right
    assert second + width == first - CHARACTER
    assert third == MARGIN


def test_long_lines_are_broken_and_boxes_stay_inside():
    svg = drawn("x" * (2 * COLUMNS + 1), np.linspace(-1, 1, 2 * COLUMNS + 1))
    assert [len(line.text) for line in lines(svg)] == [COLUMNS, COLUMNS, 1]
    assert max(left + width for left, width, _ in boxes(svg)) == MARGIN + COLUMNS * CHARACTER


def test_line_break_has_a_box_and_tab_moves_to_the_next_stop():
    svg = drawn("a\tb\n", [1, 1, 1, 1])
    assert [line.text for line in lines(svg)] == ["a   b"]
    assert [width // CHARACTER for _, width, _ in boxes(svg)] == [1, 3, 1, 1]
