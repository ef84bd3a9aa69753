"""Test of the script that compares pooled vectors with human similarity scores."""

import json

import pytest
from conftest import RUNS, TINY, random_model

from elmo.embed.embedder import ELMo

PAIRS = [
    ("a cat sat", "a cat sat", 5.0),
    ("a cat sat", "a cat ran", 4.0),
    ("a cat sat", "a big dog", 2.0),
    ("a cat sat", "no one here", 1.0),
]


@pytest.mark.skipif(not RUNS.is_dir(), reason="requires the runs folder of a checkout")
@pytest.mark.parametrize("form", ["sick", "klue-sts"])
def test_script_prints_rank_correlations_of_both_data_sets(tmp_path, script, form):
    ELMo(random_model(TINY)).save_pretrained(tmp_path / "model")
    if form == "sick":
        path = tmp_path / "sick.txt"
        rows = [
            "sentence_A\tsentence_B\trelatedness_score",
            *("\t".join(map(str, pair)) for pair in PAIRS),
        ]
        path.write_text("\n".join(rows), encoding="utf-8")
    else:
        path = tmp_path / "sts.json"
        rows = [
            {"sentence1": one, "sentence2": two, "labels": {"real-label": score}}
            for one, two, score in PAIRS
        ]
        path.write_text(json.dumps(rows), encoding="utf-8")
    lines = script("sentence_similarity.py", path, "--model", tmp_path / "model").splitlines()
    assert lines[0].startswith("4 pairs of")
    # The share of common words falls with the scores: 1, 1/2, 1/5, 0.
    assert lines[1] == "common words: 100.0"
    assert [line.split(":")[0] for line in lines[2:]] == [
        *("layers=average", "layers=0", "layers=1", "layers=top")
    ]
