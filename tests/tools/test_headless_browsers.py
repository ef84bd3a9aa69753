"""Tests of the clients for headless browsers: what goes wrong in a page must be seen."""

import pytest


@pytest.fixture
def open_page(browser, tmp_path):
    """Return a function that opens a page with a content."""
    pages = []

    def open_content(content):
        path = tmp_path / "page.html"
        path.write_text(f"<!doctype html><meta charset=utf-8>{content}", encoding="utf-8")
        page = browser.page(400, 300)
        pages.append(page)
        page.open(path)
        return page

    yield open_content
    for page in pages:
        page.close()


def test_requests_are_seen(open_page):
    page = open_page("<img src='http://127.0.0.1:48123/picture.png'>")
    assert "http://127.0.0.1:48123/picture.png" in page.requests()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("setTimeout(() => { throw new Error('thrown') })", "thrown"),
        ("console.error('logged')", "logged"),
        ("console.warn('warned')", "warned"),
    ],
)
def test_errors_are_seen(open_page, script, message):
    page = open_page(f"<script>{script}</script>")
    page.evaluate("new Promise((done) => setTimeout(done, 50))")
    assert any(message in error for error in page.errors())


def test_violations_of_the_security_policy_are_seen(open_page):
    policy = "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\">"
    page = open_page(f"{policy}<img src='http://127.0.0.1:48123/picture.png'>")
    assert any("Content" in error and "127.0.0.1:48123" in error for error in page.errors())


def test_values_of_javascript_are_returned(open_page):
    page = open_page("<p>é🙂</p>")
    assert page.evaluate("document.querySelector('p').innerText") == "é🙂"
    assert page.evaluate("[1, {a: null}]") == [1, {"a": None}]
    assert page.evaluate("undefined") is None
    assert page.evaluate("'x'.repeat(100_000).length") == 100_000
    assert len(page.evaluate("'x'.repeat(100_000)")) == 100_000
    with pytest.raises(RuntimeError, match="not defined"):
        page.evaluate("missing")


def test_keys_and_mouse_reach_the_page(open_page):
    page = open_page("<input><button onclick='this.textContent += 1'>b</button>")
    page.click("button")
    assert page.evaluate("document.querySelector('button').textContent") == "b1"
    page.click("input")
    for key in ("a", "ArrowLeft", "b"):
        page.press(key)
    assert page.evaluate("document.querySelector('input').value") == "ba"
