"""Writes a picture of a page that `elmo explore` wrote, for the page `explore.md`.

python docs/make_explorer_picture.py page.html '#layer=0&values=cell&unit=100'
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from headless_browser import headless_browser  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "explorer.png"


def main() -> None:
    """Write the picture, in the light theme."""
    with headless_browser() as browser:
        page = browser.page(1180, 700)
        page.open(Path(sys.argv[1]), *sys.argv[2:3])
        time.sleep(1)  # details and strips are drawn after the text
        page.screenshot(PICTURE)


if __name__ == "__main__":
    main()
