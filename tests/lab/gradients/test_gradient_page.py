"""Tests of the page of `elmo gradients`, in a headless browser."""

import dataclasses
import json
import re

import pytest
from headless_browser import BrowserPage
from small_flow import small_flow

from elmo.lab.gradients.gradient_page import gradient_page


@pytest.fixture
def page(browser, tmp_path):
    page = browser.page(1200, 1100)
    page.open(small_flow().save(tmp_path / "page.html"))
    yield page
    errors, requests = page.errors(), page.requests()
    page.close()
    assert errors == []
    # Only the file itself, which Firefox does not report.
    assert len(requests) <= 1
    assert all(url.startswith("file:") for url in requests)


def set_step(page, step):
    page.evaluate(
        f"(() => {{ const s = document.getElementById('step'); s.value = {step};"
        "s.dispatchEvent(new Event('input')); })()"
    )


def table(page):
    """Return the rows of the table of networks."""
    return page.evaluate(
        "[...document.querySelectorAll('#table tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )


def test_page_data_are_the_rounded_numbers():
    flow = small_flow()
    html = gradient_page(flow.to_dict())
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.S)[1])
    norms = flow["lstm, trained"].curve(0, "cell").norms
    curve = data["networks"][0]["curves"][2]
    assert (curve["layer"], curve["state"]) == (0, "cell")
    assert curve["norms"] == pytest.approx(norms, rel=1e-3)


def test_page_escapes_names():
    flow = small_flow()
    network = dataclasses.replace(flow.networks[0], name="</script><script>alert(1)</script>")
    html = gradient_page(dataclasses.replace(flow, networks=(network,), panels={}).to_dict())
    assert "alert(1)" in html
    assert "</script><script>alert" not in html


def test_slider_moves_cursor_and_table(page):
    norms = small_flow()["lstm, trained"].curve().norms
    for step in (0, 7, 20):
        set_step(page, step)
        assert page.evaluate("document.getElementById('step-value').textContent") == str(step)
        rows = table(page)
        assert rows[0][0] == "lstm, trained"
        assert float(rows[0][1]) == pytest.approx(norms[step], rel=0.06)
    page.evaluate("document.getElementById('step').focus()")
    page.press("ArrowLeft")
    assert page.evaluate("document.getElementById('step-value').textContent") == "19"


def test_panels_layers_and_scale_change_the_curves(page):
    n_networks = {title: len(names) for title, names in small_flow().panels.items()}
    for number, (title, count) in enumerate(n_networks.items(), start=1):
        page.click(f"#panels button:nth-child({number})")
        assert page.evaluate("document.querySelector('[aria-pressed=true]').textContent") == title
        assert len(table(page)) == count
        assert page.evaluate("document.querySelectorAll('.curve').length") == count
    assert page.evaluate("document.querySelectorAll('.region').length") >= 1
    for selector, value in (("scale", "absolute"), ("state", "cell"), ("layer", "0")):
        page.evaluate(
            f"(() => {{ const s = document.getElementById('{selector}'); s.value = '{value}';"
            "s.dispatchEvent(new Event('change')); })()"
        )
    assert page.evaluate("document.querySelectorAll('.region').length") == 0
    gated = sum("lstm" in name for name in small_flow().panels["Recurrent weights"])
    assert page.evaluate("document.querySelectorAll('.curve').length") == gated


def test_play_and_pause(page):
    set_step(page, 17)
    page.click("#play")
    assert page.evaluate("document.getElementById('play').textContent") == "Pause"
    page.wait("Number(document.getElementById('step').value) === 20")
    page.wait("document.getElementById('play').textContent === 'Play'")
    page.click("#play")  # from the beginning
    page.wait("[1, 2, 3, 4, 5].includes(Number(document.getElementById('step').value))")
    page.click("#play")
    step = page.evaluate("document.getElementById('step').value")
    assert page.evaluate("document.getElementById('play').textContent") == "Play"
    page.evaluate("new Promise((done) => setTimeout(done, 900))")
    assert page.evaluate("document.getElementById('step').value") == step


def test_reduced_motion_plays_a_few_jumps(page):
    if not isinstance(page, BrowserPage):
        pytest.skip("Firefox has no command that sets the preference for reduced motion")
    page.reduce_motion()
    page.evaluate("document.getElementById('step').value = 0")
    page.click("#play")
    page.wait("Number(document.getElementById('step').value) === 2", timeout=3)


def test_theme_button_changes_colors(page):
    def color():
        return page.evaluate("document.querySelector('.curve').getAttribute('stroke')")

    before = color()
    page.click("#theme")
    assert color() != before
