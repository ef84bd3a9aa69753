"""Runs the code of the notebook about language models, with few steps."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "language_models.ipynb"


@pytest.fixture
def without_display(monkeypatch):
    """Replace IPython, which is not needed to run the code."""
    display = ModuleType("IPython.display")
    display.Image = lambda path, width: path
    package = ModuleType("IPython")
    package.version_info = (9, 0)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)


def test_all_cells_run(tmp_path, monkeypatch, capsys, without_display):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert "STEPS = 600" in sources[0]
    sources[0] = (
        sources[0]
        .replace("STEPS = 600", "STEPS = 4")
        .replace(
            "(argparse, logging, shutil, tokenize, json.decoder, ast, csv, textwrap)",
            "(csv, textwrap)",
        )
    )
    names = {}
    for source in sources:
        exec(compile(source, str(NOTEBOOK), "exec"), names)
    printed = capsys.readouterr().out
    assert "> this model" in printed
    assert printed.count(" nats") >= 3


def test_stored_outputs_are_complete():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code)
