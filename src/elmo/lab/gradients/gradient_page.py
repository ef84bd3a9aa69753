"""The page of `elmo gradients`."""

from collections.abc import Mapping

from elmo.lab.pages.html_page import build_page, page_resource

TITLE = "Gradients through time"
# Significant digits of the numbers of the page, which keep it small.
DIGITS = 4


def gradient_page(data: Mapping[str, object]) -> str:
    """Return the page for the numbers of `GradientFlow.to_dict`, as HTML."""
    content, style, script = (
        page_resource(__package__, f"gradient_page.{ending}") for ending in ("html", "css", "js")
    )
    return build_page(TITLE, content, [style], [script], _rounded(data))


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
