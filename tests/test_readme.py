"""README and docs stay true: their Python and `elmo` lines run, the help page is current."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]


def blocks(page):
    """Give (language, code) of each fenced block of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.long
def test_examples_run(tmp_path):
    """The pages are run one after another in one folder, with the bundled model."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for page in PAGES:
        languages = set()
        for language, code in blocks(page):
            if language == "python":
                command = [sys.executable, "-W", "error", "-c", code]
            elif language == "console":
                command = ["bash", "-euc", code]
            else:
                continue
            languages.add(language)
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{page.name}: {code}\n{done.stderr}"
            if "(7, 512)" in code:
                assert "(7, 512)" in done.stdout
        assert languages == {"python", "console"}, page.name
    assert "(7, 512): a vector for each word" in PAGES[0].read_text(encoding="utf-8")


def test_command_line_page_is_current(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import make_cli_page

    assert make_cli_page.PAGE.read_text(encoding="utf-8") == make_cli_page.page(), (
        "run make docs: the help has changed"
    )


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
