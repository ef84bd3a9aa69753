"""Runs the Python code of the pages about integrations."""

import re
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["datasets-and-hub", "scikit-learn", "sentence-transformers", "spacy"]


@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("page", PAGES)
def test_code_of_page_runs(page, tmp_path, monkeypatch, capsys):
    # spaCy finds the component by the entry point of an installation, which tests may lack.
    import elmo.integrations.spacy_component

    assert elmo.integrations.spacy_component
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert blocks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(compile(block, f"{page}.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    for expected in re.findall(r"print\(.*\)  # (\([\d, ]+\)|\d\.\d+)", text):
        assert expected in [line[: len(expected)] for line in printed]
