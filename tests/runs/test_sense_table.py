"""The table of ambiguous words, from a model on the disk."""

import dataclasses

import pytest
from conftest import RUNS, TINY, random_model

from elmo.embed.embedder import ELMo


@pytest.mark.skipif(not RUNS.is_dir(), reason="an installed copy has no runs")
def test_a_table_and_neighbours(tmp_path, script):
    text = dataclasses.replace(TINY.text, tokenizer="english")
    model = ELMo(random_model(dataclasses.replace(TINY, text=text)))
    model.save_pretrained(tmp_path / "model")
    printed = script("sense_table.py", tmp_path / "model", "--show")
    assert printed.startswith("layer 2\n")
    rows = [line for line in printed.splitlines() if line.startswith("| ")][2:]
    assert [row.split()[1] for row in rows][:2] == ["bank", "play"]
    told = [min(int(x.strip("%")) for x in row.split() if "%" in x) > 50 for row in rows]
    assert f"{sum(told)} of 10 words are told apart" in printed
    assert "bank (river)  The ferryman pushed" in printed
    assert printed.index("bank (money)  In 1893") < printed.index("play (theatre)")
