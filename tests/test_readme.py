"""Tests that code blocks in the README and docs run, links work and docs/cli.md is current."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from forked import MODULES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md"]
FORK_SERVER = str(ROOT / "runs" / "fork_server.py")
SHAPE = "(7, 512)"
STRICT = "import warnings; warnings.simplefilter('error')\n"


def blocks(page):
    """Return the language and code of each fenced block in a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.long
def test_code_blocks_in_readme_and_quickstart_run_without_errors(tmp_path):
    # The pages share a folder, because later blocks use files of earlier ones.
    lines = [f"The cat number {number} sat on the mat ." for number in range(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "test.txt").write_text("The mat sat on the cat .\n", encoding="utf-8")
    # All processes are forked from one, because each would import PyTorch for seconds.
    script = ['elmo() { "$PYTHON" -m elmo "$@"; }']
    for page in PAGES:
        found = blocks(page)
        assert {"python", "bash"} <= {language for language, _ in found}, page.name
        for number, (language, code) in enumerate(found):
            place = f"{page.stem}-{number}"
            if language == "python":
                (tmp_path / f"{place}.py").write_text(STRICT + code, encoding="utf-8")
                code = f'"$PYTHON" {place}.py'
            if language in ("python", "bash"):
                script.append(f"echo 'In block {number} of {page.name}:' >&2\n{code}")
    server = (
        f"import runpy, {', '.join(MODULES)}\nrunpy.run_path({FORK_SERVER!r}, None, '__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", server, "1", "bash", "-euc", "\n".join(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # README states the shape that its example prints.
    assert f"# {SHAPE}" in PAGES[0].read_text(encoding="utf-8")
    assert SHAPE in done.stdout


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
