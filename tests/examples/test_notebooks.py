"""Runs the code of all notebooks, with few steps and little data."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
# Changes of the code that make it fast, by name of the notebook.
FAST = {
    "classify_with_scikit_learn": {
        "FOLDS = 5": "FOLDS = 2",
        '"text"]\n)': '"text"], nrows=60\n)',
    },
    "language_models": {
        "STEPS = 600": "STEPS = 4",
        "(argparse, logging, shutil, tokenize, json.decoder, ast, ": "(",
    },
    "spacy_pipeline": {"range(500)": "range(5)"},
    "train_on_your_own_corpus": {"STEPS = 200": "STEPS = 2", "town(3000": "town(300"},
}
# Texts in the output.
PRINTED = {
    "classify_with_scikit_learn": ["ElmoVectorizer   accuracy", "bytes for the features"],
    "language_models": ["> this model", " nats"],
    "migrate_from_allennlp": ["difference to AllenNLP after a reset: 0.00000"],
    "quickstart": ["[[1.   0.75 0.53 0.61]"],
    "serve_and_query": ["ready: True", "[True, True]", "422 sentences[1][1]", "exit status 0"],
    "spacy_pipeline": ["[('bank', 'RIVER')] The women", "[('bank', 'MONEY')] My uncle"],
    "train_on_your_own_corpus": ["layer 0: same 1.00, different 1.00", "tuned"],
}


def code_cells(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture
def without_display(monkeypatch):
    """Replace IPython, which is not needed to run the code."""
    display = ModuleType("IPython.display")
    display.Image = lambda path, width: path
    package = ModuleType("IPython")
    package.version_info = (9, 0)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_cells_run(notebook, tmp_path, monkeypatch, capsys, without_display):
    # An installation has an entry point for the component; tests can run without one.
    import elmo.integrations.spacy_component

    assert elmo.integrations.spacy_component
    monkeypatch.chdir(tmp_path)
    sources = ["".join(cell["source"]) for cell in code_cells(notebook)]
    for before, after in FAST.get(notebook.stem, {}).items():
        assert sum(before in source for source in sources) == 1
        sources = [source.replace(before, after) for source in sources]
    names = {}
    try:
        for source in sources:
            exec(compile(source, str(notebook), "exec"), names)
    finally:
        if "server" in names:  # of a notebook that failed before it stopped the server
            names["server"].kill()
    printed = capsys.readouterr().out
    for text in PRINTED[notebook.stem]:
        assert text in printed


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_complete(notebook):
    text = notebook.read_text(encoding="utf-8")
    cells = code_cells(notebook)
    assert all(cell["outputs"] for cell in cells)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    for output in (output for cell in cells for output in cell["outputs"]):
        assert output["output_type"] in ("stream", "execute_result", "display_data")
        assert output.get("name") != "stderr"
    assert "/tmp/" not in text
