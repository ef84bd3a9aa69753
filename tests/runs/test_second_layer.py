"""What the second layer adds, on a set of two words."""

import runpy
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "runs" / "second_layer.py"
WORDS = "1\ta\t_\tDET\tDT\t_\t0\t_\t_\t_\n2\tbank\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n"


@pytest.mark.skipif(not RUN.is_file(), reason="an installed copy has no runs")
def test_a_row_for_each_kind_of_vector(tmp_path, monkeypatch, capsys):
    (tmp_path / "train.conllu").write_text(WORDS)
    # A tag that was never met cannot be right.
    (tmp_path / "test.conllu").write_text(WORDS.replace("NN", "NNP"))
    monkeypatch.setattr(sys, "argv", [str(RUN), "small-en", "--data", str(tmp_path)])
    runpy.run_path(str(RUN), run_name="__main__")
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[1] for row in rows] == ["layer 1", "layer 2", "layer 2 less layer 1"] * 2
    assert [row[2] for row in rows] == ["50.00 ± 0.00 |"] * 3 + ["100.00 ± 0.00 |"] * 3
