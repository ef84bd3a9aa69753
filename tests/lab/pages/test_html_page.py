"""Tests of pages in one file."""

import base64
import hashlib
import html
import re

import pytest

from elmo.errors import OutputError
from elmo.lab.pages.html_page import HtmlPage, build_page


def page(data=None, title="Title", **options):
    return build_page(title, "<main></main>", ["b { color: red }"], ["run();"], data, **options)


def test_build_page_allows_only_its_own_script_and_style_by_hash():
    text = page()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_build_page_escapes_title_and_data():
    text = page({"text": "</script><script>alert(1)</script>"}, title="</title><b>&")
    assert "<title>&lt;/title&gt;&lt;b&gt;&amp;</title>" in text
    assert text.count("</script>") == 2
    assert text.count("<script") == 2


def test_build_page_contains_no_address():
    # The empty icon keeps browsers from requesting one.
    text = page().replace('<link rel="icon" href="data:,">', "", 1)
    assert not re.findall(r"(?:src|href)=|url\(|https?:", text)


def test_build_page_allows_requests_to_its_server_only_if_asked_to():
    assert "connect-src" not in page()
    assert "connect-src 'self';" in page(connect=True)


def test_page_frame_contains_the_escaped_page():
    frame = HtmlPage('<p title="x">&amp;</p>', height=300)._repr_html_()
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == '<p title="x">&amp;</p>'
    assert "height: 300px" in frame


def test_save_writes_the_page_and_returns_its_path(tmp_path):
    path = HtmlPage("<p>é</p>").save(tmp_path / "page.html")
    assert path.read_bytes() == "<p>é</p>".encode()


def test_save_reports_a_missing_folder(tmp_path):
    with pytest.raises(OutputError, match="does not exist"):
        HtmlPage("<p>").save(tmp_path / "missing" / "page.html")


def test_repr_of_a_page_is_short():
    assert repr(HtmlPage("x" * 2_000_000)) == "HtmlPage(2.00 MB; use .save(path))"
