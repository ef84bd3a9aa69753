"""The scripts around `elmo task`: static vectors, texts, TF-IDF, split sets, the page."""

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import random_model

from elmo.embed.embedder import ELMo
from elmo.tasks.static import read_static

RUNS = Path(__file__).parents[2] / "runs"
CONLL = "Kim NNP I-NP B-PER\nslept VBD I-VP O\n\nSeoul NNP I-NP B-LOC\n"
REVIEWS = "id\tdocument\tlabel\n" + "".join(f"{n}\ttext {n} .\t{n % 2}\n" for n in range(20))

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="an installed copy has no runs")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a script and give what it printed."""

    def call(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        runpy.run_path(str(RUNS / name), run_name="__main__")
        return capsys.readouterr().out

    return call


def test_layer_0_as_static_vectors(tmp_path, run):
    ELMo(random_model()).save_pretrained(tmp_path / "elmo")
    (tmp_path / "train.txt").write_text(CONLL)
    (tmp_path / "test.txt").write_text(CONLL.replace("Kim", "Lee"))
    files = [tmp_path / "train.txt", tmp_path / "test.txt"]
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(run("layer0.py", tmp_path / "elmo", "conll2003", *files))
    table = read_static(vectors)
    # Words of the test part have vectors too.
    assert table.words == ["Kim", "Lee", "Seoul", "slept"]
    expected = ELMo.from_pretrained(tmp_path / "elmo").encode([["Lee"]], layers=0)[0][0]
    np.testing.assert_allclose(table.vectors[1], expected, atol=1e-4)


def test_the_text_of_a_task(tmp_path, run):
    (tmp_path / "train.txt").write_text(REVIEWS)
    run("task_text.py", "nsmc", tmp_path / "text", "--train", tmp_path / "train.txt")
    train, dev = ((tmp_path / "text" / f"{p}.txt").read_text() for p in ("train", "dev"))
    lines = [*train.splitlines(), *dev.splitlines()]
    assert (len(train.splitlines()), len(dev.splitlines())) == (18, 2)
    assert sorted(lines) == sorted(f"text {n} ." for n in range(20))


def test_tfidf_as_json(tmp_path, run):
    pytest.importorskip("sklearn")
    path = tmp_path / "train.txt"
    path.write_text(REVIEWS.replace("text 1", "fine 1"))
    found = json.loads(run("tfidf.py", "nsmc", "--train", path, "--test", path, "--as-json"))
    assert set(found) == {"accuracy", "macro_f1"}


def test_korean_sets_are_split_once(tmp_path, run, monkeypatch):
    stub = SimpleNamespace(words=lambda text: text.replace("가", " 가").split())
    monkeypatch.setattr("elmo.text.tokenizer.get_tokenizer", lambda name: stub)
    for folder, name, header in (
        ("klue-ynat", "train.tsv", "title\tlabel"),
        ("klue-ynat", "dev.tsv", "title\tlabel"),
        ("nsmc", "ratings_train.txt", "id\tdocument\tlabel"),
        ("nsmc", "ratings_test.txt", "id\tdocument\tlabel"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        row = "영화가 좋았다\t1\n" if folder == "klue-ynat" else "7\t영화가 좋았다\t1\n8\t\t0\n"
        (tmp_path / folder / name).write_text(f"{header}\n{row}", encoding="utf-8")
    run("split_korean.py", tmp_path, tmp_path / "out")
    found = (tmp_path / "out" / "nsmc" / "ratings_test.txt").read_text(encoding="utf-8")
    header, first, second = found.splitlines()
    assert header == "id\tdocument\tlabel"
    assert first == "7\t영화 가 좋았다\t1"
    assert second == "8\t\t0"


def write_run(out, name, values, shares=None):
    runs = [
        {
            "seed": seed,
            "development": {"accuracy": 0.1, "macro_f1": 0.1, "span_f1": 0.1},
            "test": {"accuracy": value, "macro_f1": value, "span_f1": value},
            "mixes": {"input": {"shares": shares, "gamma": 1.0}} if shares else {},
        }
        for seed, value in enumerate(values)
    ]
    (out / name).mkdir(parents=True)
    (out / name / "results.json").write_text(json.dumps({"runs": runs, "measure": "accuracy"}))


def test_the_page_of_results(tmp_path, run):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    write_run(out, "ynat-none", [0.7, 0.8])
    write_run(out, "ynat-static", [0.76])
    write_run(out, "ynat-elmo", [0.8, 0.82], [0.2, 0.5, 0.3])
    write_run(out, "ynat-elmo-0.1", [0.75])
    write_run(out, "ynat-nogamma", [0.74])
    (out / "ynat-tfidf.json").write_text(json.dumps({"accuracy": 0.5, "macro_f1": 0.794}))
    (out / "ynat-before.json").write_text(json.dumps({"mean": 200.04}))
    given = ["--docs", tmp_path, "--command", "bash it", "--commit", "c0ffee", "--machine", "a GPU"]
    run("results.py", out, *given)
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "```bash\nbash it\n```\n\nCommit c0ffee; a GPU." in page
    row = (
        "| KLUE-YNAT, dev macro F1 | 79.40 | 75.00 ± 7.07 | 76.00 |  | 81.00 ± 1.41 |  | +5.00 | 76"
    )
    assert row in page
    assert "| KLUE-YNAT | 200.0 |  |  | 81.00 ± 1.41 |  |" in page
    assert "| γ = 1 | 74.00 | 74.00 |" in page
    assert "| KLUE-YNAT | 0.20 | 0.50 | 0.30 |" in page
    for name in ("mixes.png", "sample-efficiency.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
