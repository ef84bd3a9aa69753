"""Test of the layer 2 probe script on a data set of two words."""

import pytest
from conftest import RUNS

WORDS = "1\ta\t_\tDET\tDT\t_\t0\t_\t_\t_\n2\tbank\t_\tNOUN\tNN\t_\t0\t_\t_\t_\n"


@pytest.mark.skipif(not RUNS.is_dir(), reason="requires the runs folder of a checkout")
def test_layer2_probe_prints_a_row_for_each_tag_set_and_vector_type(tmp_path, script):
    (tmp_path / "train.conllu").write_text(WORDS)
    # A tag that is not in the training set counts as wrong.
    (tmp_path / "test.conllu").write_text(WORDS.replace("NN", "NNP"))
    printed = script("layer2_probe.py", "small-en", "--data", tmp_path)
    rows = [line.split(" | ") for line in printed.splitlines()[2:]]
    assert [row[1] for row in rows] == ["layer 1", "layer 2", "layer 2 minus layer 1"] * 2
    assert [row[2] for row in rows] == ["50.00 ± 0.00 |"] * 3 + ["100.00 ± 0.00 |"] * 3
