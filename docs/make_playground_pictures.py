"""Writes pictures of the page of a running `elmo serve`, for the page `playground.md`.

python docs/make_playground_pictures.py http://127.0.0.1:8000/
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from headless_browser import headless_browser  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDTH = 1100
# Name and height of the picture by mode of the page.
PICTURES = {"similarity": ("playground.png", 846), "neighbors": ("playground-senses.png", 806)}


def main() -> None:
    """Write the pictures of the first example, in the light theme."""
    with headless_browser() as browser:
        page = browser.page()
        page.open(sys.argv[1])
        for mode, (name, height) in PICTURES.items():
            page.resize(WIDTH, height)
            page.evaluate(f"document.querySelector('input[value={mode}]').click()")
            page.wait(f"window.playground?.answer?.mode === '{mode}'")
            page.wait("document.querySelector('main').ariaBusy === 'false'")
            page.screenshot(IMAGES / name)


if __name__ == "__main__":
    main()
