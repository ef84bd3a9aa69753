"""Tests that code blocks in the README and docs run, links work and docs/cli.md is current."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
SHAPE = "(7, 512)"


def blocks(page):
    """Return the language and code of each fenced block in a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.long
def test_code_blocks_in_readme_and_quickstart_run_without_errors(tmp_path):
    # The pages share a folder, because later blocks use files of earlier ones.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    lines = [f"The cat number {number} sat on the mat ." for number in range(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    output = ""
    for page in PAGES:
        languages = set()
        for language, code in blocks(page):
            if language == "python":
                command = [sys.executable, "-W", "error", "-c", code]
            elif language == "bash":
                command = ["bash", "-euc", code]
            else:
                continue
            languages.add(language)
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{page.name}: {code}\n{done.stderr}"
            output += done.stdout
        assert languages == {"python", "bash"}, page.name
    # README states the shape that its example prints.
    assert f"# {SHAPE}" in PAGES[0].read_text(encoding="utf-8")
    assert SHAPE in output


def test_command_line_page_matches_current_help_texts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import make_cli_page

    assert make_cli_page.PAGE.read_text(encoding="utf-8") == make_cli_page.page(), (
        "The help texts changed. Run make docs."
    )


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md")]
    assert [str(page) for page in pages if f" {page}\n" not in navigation] == []


def test_relative_links_point_to_existing_files():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
