"""A page with all of its styles, scripts and data in one file."""

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from elmo.files import atomic_path
from elmo.lab.pages.page_data import script_json

# Nothing may be requested: scripts and styles are allowed by their hash, images only from memory
# (the PNG export draws an SVG image). Pages of a server may send requests to it.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; img-src blob: data:; {connect}"
    "base-uri 'none'; form-action 'none'"
)
_CONNECT = "connect-src 'self'; "
_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
{styles}
</head>
<body>
{content}
<script type="application/json" id="page-data">{data}</script>
{scripts}
</body>
</html>
"""


@dataclass(frozen=True)
class HtmlPage:
    """A page in one file, which notebooks show in a frame.

    Attributes:
        html: The page.
        height: Height of the frame in a notebook, in pixels.
    """

    html: str
    height: int = 760

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        path = Path(path)
        with atomic_path(path) as partial:
            partial.write_text(self.html, encoding="utf-8", newline="\n")
        return path

    def _repr_html_(self) -> str:
        """Return a frame with the page. Its styles and scripts do not affect the notebook."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        """Return the size of the page; the page itself would fill the screen."""
        return f"{type(self).__name__}({len(self.html) / 1e6:.2f} MB; use .save(path))"


def page_resource(package: str, name: str) -> str:
    """Return the text of a file of a package, such as a style or a script."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def build_page(
    title: str,
    content: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    data: object,
    *,
    connect: bool = False,
) -> str:
    """Return a page as HTML.

    The shared style `common.css` and script `common.js` come before the given ones. All scripts are
    joined to one, which runs in strict mode and in a scope of its own.

    Args:
        title: Title, as plain text.
        content: HTML inside `<body>`.
        styles: CSS texts.
        scripts: JavaScript texts.
        data: JSON data, which `readData()` of `common.js` returns.
        connect: Whether scripts may send requests to the server that the page comes from.
    """
    style = "\n".join((page_resource(__package__, "common.css"), *styles))
    script = "\n".join((page_resource(__package__, "common.js"), *scripts))
    script = f'\n"use strict";\n{{\n{script}\n}}\n'
    return _TEMPLATE.format(
        # A path can have bytes that are not UTF-8.
        title=html.escape(title.encode("utf-8", "replace").decode("utf-8")),
        policy=_POLICY.format(
            scripts=_hash(script), styles=_hash(style), connect=_CONNECT if connect else ""
        ),
        styles=f"<style>{style}</style>",
        content=content,
        data=script_json(data),
        scripts=f"<script>{script}</script>",
    )


def _hash(text: str) -> str:
    """Return the hash by which a content security policy allows an inline script or style."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
