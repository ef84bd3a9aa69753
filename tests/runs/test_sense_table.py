"""Test of the script that prints a table of ambiguous words."""

import dataclasses

import pytest
from conftest import RUNS, TINY, random_model

from elmo.embed.embedder import ELMo


@pytest.mark.skipif(not RUNS.is_dir(), reason="requires the runs folder of a checkout")
def test_sense_table_script_prints_table_and_nearest_neighbors(tmp_path, script):
    text = dataclasses.replace(TINY.text, tokenizer="english")
    model = ELMo(random_model(dataclasses.replace(TINY, text=text)))
    model.save_pretrained(tmp_path / "model")
    printed = script("sense_table.py", tmp_path / "model", "--show")
    assert printed.startswith("layer 2\n")
    rows = [line for line in printed.splitlines() if line.startswith("| ")][2:]
    assert [row.split()[1] for row in rows][:2] == ["bank", "play"]
    distinguished = [min(int(x.strip("%")) for x in row.split() if "%" in x) > 50 for row in rows]
    assert f"{sum(distinguished)} of 10 words are distinguished" in printed
    assert "bank (river)  The ferryman pushed" in printed
    assert printed.index("bank (money)  In 1893") < printed.index("play (theatre)")
