"""Tests of the explorer page in headless Chromium."""

import dataclasses
import json
import re
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from explorer_traces import QUOTE_UNIT, TEXT, inside_quotes, quote_traces, sampled_traces
from headless_browser import SHIFT

from elmo.lab.explorer import explorer_data
from elmo.lab.explorer.explore import explorer_page
from elmo.lab.pages.html_page import HtmlPage
from elmo.lab.units.saturation import saturation
from elmo.lab.units.traces import Track, UnitTraces

HOSTILE = (
    "</script><script>window.hacked=1</script>\n<img src=x onerror=window.hacked=2>\n"
    "\"double\" 'single' `back` \\ ${1} <!-- & &amp; \u2028 \x00\x07\r\n"
)
RTL = "שלום עולם\nقال الرجل mixed 123\n"


@pytest.fixture
def downloads(browser, tmp_path):
    browser.save_downloads(tmp_path)
    return tmp_path


class ExplorerTest:
    """An open explorer page."""

    def __init__(self, browser, path, fragment=""):
        self.browser_page = browser.page(1300, 800)
        self.path = path
        self.browser_page.open(path, fragment)
        self.js = self.browser_page.evaluate
        self.settle()

    def settle(self):
        """Wait until the details, which are shown after the text, are up to date."""
        self.js("new Promise((resolve) => setTimeout(resolve, 90))")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.js(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)"
        )

    def point(self, position, share=0.5, pane=0):
        """Return a point of the screen inside of a character."""
        return self.js(
            f"(() => {{ const view = explorer.panes[{pane}].view;"
            f"const [, x, y, width] = view.box({position});"
            "const body = view.body.getBoundingClientRect();"
            f"return [body.left + x + {share} * width, body.top + y + view.lineHeight / 2]; }})()"
        )

    def hover(self, position, pane=0):
        self.browser_page.mouse("mouseMoved", *self.point(position, pane=pane))

    def drag(self, first, last):
        start, end = self.point(first, 0.1), self.point(last, 0.9)
        self.browser_page.mouse("mousePressed", *start, pressed=True)
        self.browser_page.mouse("mouseMoved", *end, pressed=True)
        self.browser_page.mouse("mouseReleased", *end)
        self.settle()

    def pixel(self, position, pane=0):
        """Return the color of the canvas at the left edge of a character."""
        return self.js(
            f"(() => {{ const view = explorer.panes[{pane}].view;"
            f"const [, x, y] = view.box({position});"
            "return [...view.canvas.getContext('2d').getImageData(x + 2, y - view.top + 4, 1, 1)"
            ".data].slice(0, 3); })()"
        )

    def units(self):
        return [int(text) for text in self.texts("#unit-list li")]

    def check(self):
        """Check that there were no errors and that nothing was requested but the file."""
        assert self.browser_page.errors() == []
        # Firefox does not report files.
        requests = {url.partition("#")[0] for url in self.browser_page.requests()}
        assert requests <= {self.path.as_uri()}
        self.browser_page.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Return a function that opens a page; at the end, errors and requests are checked."""
    pages = []

    def open_page(traces=None, fragment="", **options):
        traces = traces if isinstance(traces, dict) else {"model": traces or quote_traces()}
        path = explorer_page(traces, **options).save(tmp_path / f"page-{len(pages)}.html")
        pages.append(ExplorerTest(browser, path, fragment))
        return pages[-1]

    yield open_page
    for page in pages:
        page.check()


def test_text_is_colored_by_the_unit(opened):
    page = opened(fragment=f"#layer=1&values=hidden&unit={QUOTE_UNIT}")
    assert page.text(".unit-name") == f"Unit {QUOTE_UNIT}"
    assert page.js("document.querySelector('.text-content').textContent") == TEXT.replace("\n", "")
    inside = TEXT.index("good")
    red, _, blue = page.pixel(inside)
    assert red > blue + 50
    red, _, blue = page.pixel(0)
    assert blue > red + 20


def test_page_starts_with_hidden_states_of_the_highest_layer(opened):
    page = opened()
    state = "(({layer, kind}) => [layer, kind])(explorer.panes[0].track)"
    assert page.js(state) == [1, "hidden"]
    assert page.texts(".layer option") == ["0 (lowest)", "1 (highest)"]
    assert page.texts(".kind option") == ["hidden state", "cell state", "forget gate"]


def test_selectors_change_layer_and_values_and_keep_the_unit(opened):
    page = opened(fragment="#unit=7")
    for name, value in (("layer", "0"), ("kind", "forget")):
        page.js(
            f"(() => {{ const s = document.querySelector('.{name}'); s.value = '{value}';"
            "s.dispatchEvent(new Event('change')); })()"
        )
    assert page.js("(({layer, kind}) => [layer, kind])(explorer.panes[0].track)") == [0, "forget"]
    assert page.text(".unit-name") == "Unit 7"
    assert page.texts(".legend span")[::2] == ["0.00", "1.00"]


def test_hover_shows_value_surprisal_and_guesses(opened):
    page = opened(fragment=f"#unit={QUOTE_UNIT}")
    page.hover(TEXT.index("good"))
    tooltip = page.text("#tooltip")
    assert "g character 9" in tooltip
    assert f"Unit {QUOTE_UNIT}: 0.90" in tooltip
    assert "2.00 bits" in tooltip
    assert "25%" in tooltip
    assert re.search(r"g\s+75%", tooltip)
    page.hover(0)  # not predicted
    assert "bits" not in page.text("#tooltip")
    page.browser_page.mouse("mouseMoved", 2, 2)
    assert page.js("document.getElementById('tooltip').hidden")


def test_hover_states_pieces_that_the_model_does_not_know(opened):
    traces = dataclasses.replace(
        quote_traces(), guesses=((("<UNK>", 0.25),),) * len(TEXT), unknown=frozenset({9})
    )
    page = opened(traces)
    page.hover(9)
    tooltip = page.text("#tooltip")
    assert "This character is not in the vocabulary of the model." in tooltip
    assert "Surprisal of <UNK> 2.00 bits: the model expected <UNK> with 25%" in tooltip
    assert len(page.texts("#tooltip .right")) == 1
    page.hover(10)
    assert "vocabulary" not in page.text("#tooltip")
    assert page.texts("#tooltip .right") == []
    assert f"1 of {len(TEXT)} characters" in page.text("#note")


def test_arrow_keys_move_through_the_units_of_the_list(opened):
    page = opened()
    order = page.units()
    assert len(order) == 12
    assert order[0] == QUOTE_UNIT  # the largest variance
    for _ in range(2):
        page.browser_page.press("ArrowDown")
    assert page.text(".unit-name") == f"Unit {order[2]}"
    page.browser_page.press("ArrowUp")
    assert page.text(".unit-name") == f"Unit {order[1]}"
    assert page.text("#unit-list [aria-selected=true]") == str(order[1])
    active = page.js("document.getElementById('unit-list').getAttribute('aria-activedescendant')")
    assert active == f"unit-{order[1]}"
    assert page.text("#announcement") == f"Unit {order[1]}"


def test_search_and_sorting_change_the_list(opened):
    page = opened()
    page.browser_page.press("/")
    assert page.js("document.activeElement.id") == "search"
    page.browser_page.press("1")
    assert sorted(page.units()) == [1, 10, 11]
    page.browser_page.press("1")
    assert page.units() == [11]
    assert page.text(".unit-name") == "Unit 11"
    page.browser_page.press("9")
    assert page.texts("#unit-list li") == ["No such unit."]
    page.browser_page.press("Escape")
    page.js(
        "(() => { const s = document.getElementById('sort'); s.value = 'number';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert page.units() == list(range(12))


def test_selection_finds_the_quote_unit_and_the_other_quotes(opened):
    page = opened(fragment="#unit=2")
    first = TEXT.index("good morning")
    page.drag(first, first + len("good morning") - 1)
    assert page.text("#selected-text") == "good morning"
    assert page.texts("#found-units li")[0].startswith(f"Unit {QUOTE_UNIT}")
    assert "higher" in page.texts("#found-units li")[0]
    parts = page.js("explorer.found.parts.map(({first, end}) => [first, end])")
    inside = inside_quotes(TEXT)
    # The quotes overlap the parts that were found.
    for word in ("who was that", "come back soon"):
        start = TEXT.index(word)
        assert any(a < start + len(word) and b > start for a, b in parts)
    best = [inside[a:b].mean() for a, b in parts[:2]]
    assert min(best) > 0.7
    page.browser_page.click("#found-units button")
    assert page.text(".unit-name") == f"Unit {QUOTE_UNIT}"
    page.browser_page.click("#clear-selection")
    assert page.js("explorer.found") is None


def test_selection_searches_all_layers_on_request(opened):
    page = opened(fragment="#layer=0&values=cell")
    first = TEXT.index("good morning")
    page.drag(first, first + 11)
    assert f"Unit {QUOTE_UNIT} (" not in page.text("#found-units")
    page.js(
        "(() => { const s = document.getElementById('scope'); s.value = 'all';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert page.texts("#found-units li")[0].startswith(f"Unit {QUOTE_UNIT} (hidden state, layer 1)")
    page.browser_page.click("#found-units button")
    assert page.js("(({layer, kind}) => [layer, kind])(explorer.panes[0].track)") == [1, "hidden"]


def test_selection_over_several_lines_includes_line_breaks(opened):
    page = opened()
    first = TEXT.index("left.")
    page.drag(first, TEXT.index("spoke") + 4)
    expected = "left.\nNobody spoke"
    assert (
        page.js("explorer.found.source.text(explorer.found.first, explorer.found.end)") == expected
    )


def test_keys_move_the_cursor_and_select(opened):
    page = opened()
    page.js("document.querySelector('.text-scroll').focus()")
    for _ in range(3):
        page.browser_page.press("ArrowRight")
    assert page.js("explorer.panes[0].cursor") == 2
    assert "character 2" in page.text("#announcement")
    for _ in range(4):
        page.browser_page.press("ArrowRight", SHIFT)
    assert page.text("#selected-text") == TEXT[2:7]
    page.browser_page.press("Escape")
    assert page.js("explorer.found") is None
    page.browser_page.press("End")
    assert page.js("explorer.panes[0].cursor") == len(TEXT) - 1


def test_contexts_show_extremes_and_jump_to_them(opened):
    long = "".join(f"line {number} of a long text\n" for number in range(200)) + TEXT
    page = opened(quote_traces(long), fragment=f"#unit={QUOTE_UNIT}")
    page.settle()
    assert '"' in page.texts("#highest li")[0]
    assert page.js("document.querySelector('.text-scroll').scrollTop") == 0
    page.browser_page.click("#highest button")
    page.settle()
    cursor = page.js("explorer.panes[0].cursor")
    assert inside_quotes(long)[cursor]
    first, end = page.js("explorer.panes[0].view.visible()")
    assert first <= cursor < end
    red, _, blue = page.pixel(cursor)
    assert red > blue + 50


def test_parts_of_a_text_keep_their_positions(opened, downloads):
    night = TEXT.index("At night")
    windows = (range(20), range(40, 90), range(night, len(TEXT)))
    page = opened(sampled_traces(windows), fragment=f"#unit={QUOTE_UNIT}&position={night + 3}")
    assert page.js("explorer.panes[0].cursor") == 73
    assert page.texts(".gap") == [
        "20 characters not shown",
        f"{night - 90} characters not shown",
    ]
    page.hover(75)
    assert f"character {night + 5}" in page.text("#tooltip")
    # A text that was not read separates the parts, also for the eye.
    assert page.js("explorer.panes[0].view.box(20)[2] > explorer.panes[0].view.box(19)[2] + 20")
    page.drag(21, 23)
    page.browser_page.click("#save-json")
    data = json.loads(downloaded(downloads, "unit-*.json"))
    assert data["shown"][0]["parts"][1] == {"first": 20, "position": 40}
    assert data["selection"]["first"] == 41
    assert data["selection"]["text"] == TEXT[41:44]


def test_two_layers_are_compared(opened):
    page = opened()
    page.browser_page.click("#compare")
    assert page.js("explorer.panes.map((pane) => pane.track.layer)") == [1, 0]
    page.hover(20, pane=1)
    assert page.js("explorer.panes.map((pane) => pane.cursor)") == [20, 20]
    units = page.js("explorer.panes.map((pane) => pane.index)")
    page.js("explorer.panes[1].element.querySelector('.next').click()")
    changed = page.js("explorer.panes.map((pane) => pane.index)")
    assert changed[0] == units[0]
    assert changed[1] != units[1]
    page.browser_page.click("#compare")
    assert len(page.texts(".pane")) == 1


def test_two_models_are_compared(opened):
    words = TEXT.split()
    values = np.random.default_rng(3).normal(size=(len(words), 4)).astype(np.float32)
    other = UnitTraces(tuple(words), "words", {Track(0, "backward", "hidden"): values})
    page = opened({"first": quote_traces(), "second": other})
    assert page.js("explorer.panes.map((pane) => pane.source.name)") == ["first", "second"]
    page.hover(3, pane=1)
    assert page.js("explorer.panes.map((pane) => pane.cursor)") == [-1, 3]
    assert f"{words[3]} word 3" in page.text("#tooltip")


def downloaded(folder, pattern):
    """Return the content of a downloaded file, which is empty until it is complete."""
    end = time.monotonic() + 15
    while time.monotonic() < end:
        for path in folder.glob(pattern):
            if content := path.read_bytes():
                return content
        time.sleep(0.02)
    raise AssertionError(f"No {pattern} was downloaded.")


def svg_elements(picture, name):
    return list(picture.iter(f"{{http://www.w3.org/2000/svg}}{name}"))


def test_export_of_json_svg_and_png(opened, downloads):
    page = opened(fragment=f"#unit={QUOTE_UNIT}")
    name = f"unit-{QUOTE_UNIT}-layer-1-hidden"
    page.drag(TEXT.index("good"), TEXT.index("good") + 3)
    page.hover(9)
    page.browser_page.click("#save-json")
    data = json.loads(downloaded(downloads, f"{name}.json"))
    (shown,) = data["shown"]
    expected = np.where(inside_quotes(TEXT), 0.9, -0.3)
    np.testing.assert_allclose(shown["values"], expected, atol=0.004)
    assert "".join(shown["pieces"]) == TEXT
    assert shown["surprisal_bits"][:2] == [None, 2.0]
    assert data["selection"]["text"] == "good"
    assert shown["pointed_at"] == {
        "position": 9,
        "piece": TEXT[9],
        "value": pytest.approx(0.9, abs=0.004),
        "surprisal_bits": 2.0,
        "guesses": [
            {"piece": TEXT[9], "probability": 0.75},
            {"piece": "<", "probability": 0.25},
        ],
    }
    page.browser_page.click("#save-svg")
    picture = ET.fromstring(downloaded(downloads, f"{name}.svg"))
    texts = [element.text for element in svg_elements(picture, "text")]
    assert TEXT.splitlines()[0] in texts
    (line,) = [each for each in svg_elements(picture, "path") if each.get("class") == "line"]
    first, end = page.js("explorer.panes[0].view.visible()")
    points = np.array(re.findall(r"[ML]([\d.]+) ([\d.]+)", line.get("d")), dtype=float)
    assert len(points) == end - first
    assert (np.diff(points[:, 0]) > 0).all()
    # High values are at the top, so at small y.
    inside = inside_quotes(TEXT)[first:end]
    assert points[inside, 1].max() < points[~inside, 1].min()
    marks = [each for each in svg_elements(picture, "rect") if each.get("class") == "mark"]
    n_matched = page.js("explorer.found.parts.reduce((sum, {first, end}) => sum + end - first, 0)")
    assert n_matched > 0
    assert len(marks) == 2 * len("good") + n_matched
    page.browser_page.click("#save-png")
    png = downloaded(downloads, f"{name}.png")
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 2 * int(picture.get("width"))


def test_points_of_the_saturation_figure_show_their_units(opened, downloads):
    traces = quote_traces()
    page = opened(traces, fragment="#layer=1&values=cell&unit=4")
    gate = saturation(traces)[Track(0, "forward", "forget")]
    assert "Time scale of its memory" in page.text("#unit-gates")
    page.browser_page.click("#show-saturation")
    assert page.texts("#saturation h3") == ["Layer 0", "Layer 1"]
    assert page.texts("#saturation figcaption") == ["Forget gate", "Time scale"] * 2
    unit = int(np.argmax(gate.time_scale))
    point = page.js(
        "(() => { const panel = explorer.saturation; const plot = panel.plots[1];"
        "plot.canvas.scrollIntoView();"
        f"const [x, y] = panel.place(...plot.points[{unit}]);"
        "const box = plot.canvas.getBoundingClientRect(); return [box.left + x, box.top + y]; })()"
    )
    page.browser_page.mouse("mouseMoved", *point)
    assert page.text("#tooltip").startswith(f"Unit {unit}")
    page.browser_page.mouse("mousePressed", *point, pressed=True)
    page.browser_page.mouse("mouseReleased", *point)
    page.settle()
    assert page.text("#details-title") == f"Unit {unit}, forget gate, layer 0"
    page.js(
        "(() => { const s = document.getElementById('sort'); s.value = 'memory';"
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert page.units() == np.argsort(-gate.time_scale).tolist()
    page.browser_page.click("#save-json")
    first, second = json.loads(downloaded(downloads, "unit-*.json"))["saturation"]["model"]
    assert (first["layer"], second["layer"], first["gate"]) == (0, 1, "forget")
    np.testing.assert_allclose(first["low"], gate.low, rtol=1e-3)
    np.testing.assert_allclose(first["time_scale"], gate.time_scale, rtol=1e-3)
    page.browser_page.click("#show-saturation")
    assert page.js("document.getElementById('saturation').hidden")


def test_network_without_gates_says_so(opened):
    page = opened(quote_traces(kinds=("hidden",)))
    page.browser_page.click("#show-saturation")
    assert "A simple RNN has none" in page.text("#no-gates")
    assert page.text("#unit-gates") == ""


@pytest.mark.parametrize(
    "text",
    [HOSTILE, RTL, "\ud800 lone", "x", "\n\n", "\t a\n", "é👩‍👧"],
    ids=["markup", "right to left", "surrogate", "one", "empty lines", "tab", "clusters"],
)
def test_any_text_is_shown_and_exported(opened, downloads, text):
    page = opened(quote_traces(text))
    shown = page.js("document.querySelector('.text-content').textContent.length")
    assert shown == len(text.replace("\n", "").encode("utf-16-le", "surrogatepass")) // 2
    assert page.js("window.hacked") is None
    assert page.js("document.querySelectorAll('img').length") == 0
    for position in range(len(text)):
        assert page.js(f"Boolean(explorer.panes[0].view.box({position}))")
    page.hover(0)
    page.browser_page.click("#save-svg")
    ET.fromstring(downloaded(downloads, "*.svg"))
    page.browser_page.click("#save-png")
    assert downloaded(downloads, "*.png").startswith(b"\x89PNG")


def test_right_to_left_lines_start_at_the_right(opened):
    page = opened(quote_traces(RTL))
    first, second = page.point(0), page.point(1)
    assert first[0] > second[0]
    assert page.js("getComputedStyle(document.querySelector('.line')).direction") == "rtl"


def test_bytes_of_a_character_have_boxes_of_their_own(opened):
    values = np.linspace(-1, 1, 4, dtype=np.float32)[:, None]
    traces = UnitTraces(("a", "é", "", "b"), "bytes", {Track(0, "forward", "hidden"): values})
    page = opened(traces)
    boxes = page.js("[0, 1, 2, 3].map((i) => explorer.panes[0].view.box(i))")
    assert [box[0] for box in boxes] == [0, 1, 2, 3]
    assert boxes[1][1] < boxes[2][1]


def light_colors(shares):
    """Return the colors of shares from -1 to 1 in the light theme, as in `common.js`."""
    shares = np.clip(shares, -1, 1)[:, None]
    ends = np.where(shares > 0, [222, 108, 88], [67, 147, 195])
    return 255 + (ends - 255) * np.abs(shares)


@pytest.mark.parametrize(("kind", "seen"), [("cell", np.tanh), ("hidden", np.asarray)])
def test_color_of_a_cell_is_its_tanh_and_that_of_a_hidden_state_its_value(opened, kind, seen):
    values = np.linspace(-4, 4, len(TEXT))
    limit = np.quantile(np.abs(values), 0.99)
    traces = quote_traces(layers=1)
    traces.values[Track(0, "forward", kind)][:, 3] = values
    page = opened(traces, fragment=f"#layer=0&values={kind}&unit=3")

    def numbers(colors):
        return [[int(part) for part in re.findall(r"\d+", color)] for color in colors]

    pane = "explorer.panes[0]"
    colors = numbers(page.js(f"Array.from({pane}.row, (q) => {pane}.colors[127 + q])"))
    # The values are stored as integers from -127 to 127.
    np.testing.assert_allclose(colors, light_colors(seen(values) / seen(limit)), atol=5)
    background = page.js("document.querySelector('.scale').style.background")
    steps = numbers(re.findall(r"rgb\([^)]*\)", background))
    shares = seen(np.linspace(-limit, limit, len(steps))) / seen(limit)
    np.testing.assert_allclose(steps, light_colors(shares), atol=2)
    assert page.texts(".legend span")[::2] == [f"−{limit:.2f}", f"{limit:.2f}"]


def test_color_of_a_unit_that_is_zero_is_the_middle_of_the_scale(opened):
    traces = quote_traces(layers=1)
    traces.values[Track(0, "forward", "hidden")][:, 3] = 0
    page = opened(traces, fragment="#layer=0&values=hidden&unit=3")
    assert page.js("explorer.panes[0].colors[127]") == "rgb(255,255,255)"


def test_dark_theme_changes_colors(opened):
    page = opened()
    light = page.pixel(0)
    page.browser_page.click("#theme")
    assert page.js("document.documentElement.dataset.theme") == "dark"
    assert sum(page.pixel(0)) < sum(light)


def test_page_states_units_that_it_does_not_have(opened, monkeypatch):
    monkeypatch.setattr(explorer_data, "MAX_BYTES", 2_000)
    page = opened(quote_traces(note="The text was cut."), fragment="#unit=400")
    missing = (
        "The text was cut. There is no unit 400 (hidden state, layer 1). "
        "Units are numbers from 0 to 11."
    )
    assert page.text("#note") == missing
    not_stored = min(set(range(12)) - set(page.units()))
    for fragment, note in (
        (
            f"unit={not_stored}",
            f"The text was cut. Unit {not_stored} is not stored in this page: "
            "use --units or --all-units.",
        ),
        ("unit=400", missing),
        (f"unit={QUOTE_UNIT}", "The text was cut."),
    ):
        page.js(
            "new Promise((done) => { addEventListener('hashchange', done, {once: true});"
            f"location.hash = '{fragment}'; }})"
        )
        assert page.text("#note") == note


def test_notes_of_two_models_are_named_only_if_they_differ(opened):
    first, second = quote_traces(note="A note."), quote_traces(note="Another.")
    page = opened({"first": first, "second": first})
    assert page.text("#note") == "A note."
    page = opened({"first": first, "second": second})
    assert page.text("#note") == "first: A note. second: Another."


def test_page_works_in_the_frame_of_a_notebook(browser, tmp_path):
    sizes = []
    for frame in ("", explorer_page({"model": quote_traces()})._repr_html_()):
        path = HtmlPage(f"<!doctype html><body>{frame}").save(tmp_path / "notebook.html")
        page = browser.page()
        page.open(path)
        time.sleep(0.4)
        page.screenshot(tmp_path / "notebook.png")
        sizes.append((tmp_path / "notebook.png").stat().st_size)
        assert page.errors() == []
        page.close()
    # The picture of a page without its script has no text and no plots.
    assert sizes[1] > sizes[0] + 30_000
