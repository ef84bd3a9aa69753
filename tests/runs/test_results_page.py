"""Tests of the record of runs, the selection of hyperparameters, and the results page."""

import json
import runpy

import pytest
from conftest import RUNS
from record_result import read
from search_space import parse_suffix
from search_tables import TASKS, Runs, preset_suffix

from elmo.config.serialization import load_config, presets
from elmo.tasks.registry.task_config import TaskConfig

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="requires the runs folder of a checkout")

METRICS = (
    "accuracy",
    "macro_f1",
    "span_f1",
    "f1",
    "mean_f1",
    "gap_f1",
    "masculine_f1",
    "feminine_f1",
    "bias",
)


def write_run(out, name, values, shares=None, development=0.1):
    runs = [
        {
            "seed": seed,
            "development": dict.fromkeys(METRICS, development),
            "test": dict.fromkeys(METRICS, value),
            "mixes": {at: {"shares": shares} for at in ("input", "output")} if shares else {},
        }
        for seed, value in enumerate(values)
    ]
    (out / name).mkdir(parents=True)
    (out / name / "results.json").write_text(json.dumps({"runs": runs, "measure": "accuracy"}))


def test_results_page_shows_sentence_pairs_qa_srl_and_coreference(tmp_path, script):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    for setup, value in (("static", 0.8), ("elmo", 0.85), ("input", 0.84)):
        write_run(out, f"sick-{setup}", [value], [0.2, 0.5, 0.3] if setup == "elmo" else None)
    write_run(out, "litbank-static", [0.5, 0.52])
    write_run(out, "litbank-elmo", [0.5, 0.5], [0.1, 0.6, 0.3])
    write_run(out, "squad-static", [0.3])
    write_run(out, "gap-static", [0.9])
    script("results.py", out, "--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU")
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    paper = "| SNLI, accuracy | 88.0 | 88.7 | +0.70 / 5.8% | SICK, test accuracy |"
    assert f"{paper} 80.00 | 85.00 | +5.00 / 25.0% |" in page
    # A loss is shown like a gain.
    assert "51.00 ± 1.41 | 50.00 ± 0.00 | -1.00 / -2.0% |" in page
    assert "| SICK, test accuracy | 80.00 |  | **85.00** |  | +5.00 | SNLI: 88.0" in page
    assert "| SQuAD subset, XQuAD-en F1 | 30.00 |  |  |  | full SQuAD" in page
    assert "| input | 10.00 | 84.00 |\n| input and output | 10.00 | 85.00 |\n" in page
    assert "| static vectors | 90.00 | 90.00 | 90.00 | 0.90 |" in page
    assert "| SICK, at the output | 0.20 | 0.50 | 0.30 |" in page
    # A data set without runs is omitted; one without ELMo runs is not compared to the paper.
    assert "| KLUE-NLI" not in page
    assert "| SQuAD, F1 |" not in page


def test_results_page_in_docs_matches_the_recorded_runs(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(RUNS)
    results = runpy.run_path(str(RUNS / "results.py"))
    docs = RUNS.parent / "docs"
    for name, page in results["pages"](results["read"](docs / "results.jsonl")).items():
        assert page == (docs / name).read_text(encoding="utf-8")


def test_results_page_shows_classification_scores_and_figures(tmp_path, script):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    write_run(out, "ynat-static", [0.7, 0.8])
    write_run(out, "ynat-elmo", [0.8, 0.82], [0.2, 0.5, 0.3])
    write_run(out, "ynat-elmo-0.1", [0.75])
    write_run(out, "ynat-nogamma", [0.74])
    (out / "ynat-tfidf.json").write_text(json.dumps({"accuracy": 0.5, "macro_f1": 0.794}))
    (out / "ynat-before.json").write_text(json.dumps({"mean": 200.04}))
    arguments = ["--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU"]
    script("results.py", out, *arguments)
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| 6 | c0ffee | a GPU |" in page
    row = "| KLUE-YNAT, dev macro F1 | 79.40 | 75.00 ± 7.07 |  | **81.00 ± 1.41** |  |  | +6.00 |"
    assert row in page
    assert "| KLUE-YNAT | 200.0 |  |  | 81.00 ± 1.41 |  |" in page
    assert "| γ = 1 | 74.00 | 74.00 |" in page
    curve = "| KLUE-YNAT, dev macro F1 | ELMo, frozen | 75.00 | 81.00 ± 1.41 | 10% |"
    assert curve in page
    assert "| KLUE-YNAT | 0.20 | 0.50 | 0.30 |" in page
    for name in ("mixes.png", "sample-efficiency.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_runs_are_recorded_and_results_page_is_generated_from_the_record(tmp_path, script):
    pytest.importorskip("matplotlib")
    write_run(tmp_path / "first", "sst2-static", [1 / 3, 0.8])
    write_run(tmp_path / "first", "sst2-elmo", [0.7])
    write_run(tmp_path / "second", "sst2-elmo", [0.9])
    record = tmp_path / "results.jsonl"
    for folder, commit in (("first", "aaa"), ("second", "bbb")):
        arguments = ["--docs", tmp_path, "--commit", commit, "--machine", "a GPU"]
        script("results.py", tmp_path / folder, *arguments)
    entries = {entry["run"]: entry for entry in map(json.loads, record.read_text().splitlines())}
    assert {name: entry["commit"] for name, entry in entries.items()} == {
        "sst2-elmo": "bbb",
        "sst2-static": "aaa",
    }
    assert entries["sst2-static"]["found"]["runs"][0]["test"]["accuracy"] == 0.333333
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| SST-2, test accuracy |  | 56.67 ± 33.00 |  | **90.00** |" in page
    assert "| 1 | bbb | a GPU |\n| 1 | aaa | a GPU |" in page
    script("results.py", "--docs", tmp_path)
    assert (tmp_path / "results.md").read_text(encoding="utf-8") == page
    with pytest.raises(SystemExit):
        script("results.py", tmp_path / "first", "--docs", tmp_path)


def test_base_models_have_their_own_page_which_compares_them_with_the_small_ones(tmp_path, script):
    pytest.importorskip("matplotlib")
    write_run(tmp_path / "small", "sst5-static", [0.5])
    write_run(tmp_path / "small", "sst5-elmo", [0.6])
    write_run(tmp_path / "small", "sick-static", [0.7])
    arguments = ["--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU"]
    script("results.py", tmp_path / "small", *arguments)
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert not (tmp_path / "results-base.md").exists()
    write_run(tmp_path / "base", "sst5-static", [0.6])
    write_run(tmp_path / "base", "sst5-elmo", [0.8], [0.2, 0.5, 0.3])
    script("results.py", tmp_path / "base", *arguments, "--size", "base")
    assert "base/sst5-elmo" in read(tmp_path / "results.jsonl")
    link = "\nThe [base models](results-base.md) have a page of their own.\n"
    assert (tmp_path / "results.md").read_text(encoding="utf-8").replace(link, "") == page
    base = (tmp_path / "results-base.md").read_text(encoding="utf-8")
    row = "| SST-5, test accuracy | 50.00 | 60.00 | +10.00 | 60.00 | 80.00 | +20.00 |"
    assert row in base
    assert "| SST-5 | 0.20 | 0.50 | 0.30 |" in base
    assert "| 2 | c0ffee | a GPU |" in base
    assert "SICK, test accuracy | 70.00" not in base
    assert (tmp_path / "mixes-base.png").is_file()


def test_reported_gain_uses_elmo_setup_with_best_development_score(tmp_path, script):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    write_run(out, "sst5-static", [0.5])
    write_run(out, "sst5-elmo", [0.6], development=0.3)
    write_run(out, "sst5-tuned", [0.55], development=0.4)
    write_run(out, "conll2003-static", [0.5])
    write_run(out, "conll2003-elmo", [0.6], development=0.4)
    write_run(out, "conll2003-tuned", [0.7], development=0.3)
    write_run(out, "nsmc-static", [0.5])
    write_run(out, "nsmc-tuned", [0.55], development=0.4)
    write_run(out, "nsmc-finetuned", [0.6], development=0.5)
    script("results.py", out, "--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU")
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| NSMC, test accuracy |  | 50.00 |  |  | 55.00 | **60.00** | +10.00 |" in page
    assert "| SST-5, test accuracy |  | 50.00 |  | 60.00 | **55.00** |  | +5.00 |" in page
    assert "| CoNLL-2003 NER, test F1 | 50.00 |  | **60.00** | 70.00 |  | +10.00 |" in page


def test_best_run_is_selected_by_development_score_of_first_seed(tmp_path, script):
    out, record = tmp_path / "out", tmp_path / "results.jsonl"

    def best(setup, *names):
        options = "--hyperparameters", *names, "--out", out, "--record", record
        return script("best_run.py", "sst5", setup, *options)

    write_run(out, "sst5-static@0.002-try", [0.5], development=0.3)
    assert best("elmo", "rate") == ""
    write_run(out, "sst5-static@0.004-try", [0.9], development=0.2)
    write_run(tmp_path / "old", "sst5-static", [0.5], development=0.25)
    arguments = ["--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU"]
    script("results.py", tmp_path / "old", *arguments)
    assert best("static", "rate") == "@0.002\n"
    write_run(tmp_path / "new", "sst5-static", [0.5], development=0.4)
    script("results.py", tmp_path / "new", *arguments)
    assert best("static", "rate") == "\n"
    # On a tie the start of the search wins; any learning rate may be tried.
    write_run(out, "sst5-static@0.0001-try", [0.5], development=0.4)
    assert best("static", "rate") == "\n"
    write_run(out, "sst5-static@0.03-try", [0.5], development=0.5)
    write_run(out, "sst5-static@0.03+dropout0.1-try", [0.5], development=0.5)
    write_run(out, "sst5-static@0.03+epochs8-try", [0.5], development=0.6)
    write_run(out, "sst5-static@0.03+epochs8-0.1", [0.5], development=0.9)
    assert best("static", "rate") == best("static", "rate", "dropout") == "@0.03\n"
    assert best("static", "rate", "dropout", "epochs") == "@0.03+epochs8\n"
    # Without a folder only the record counts.
    options = "--hyperparameters", "rate", "--record", record
    assert script("best_run.py", "sst5", "static", *options) == "\n"


def test_best_run_of_a_record_is_that_of_the_requested_size(tmp_path, script):
    pytest.importorskip("matplotlib")
    arguments = ["--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU"]
    for size, rate, other in (("small", "0.002", "0.004"), ("base", "0.004", "0.002")):
        write_run(tmp_path / size, f"sst5-static@{rate}-try", [0.5], development=0.9)
        write_run(tmp_path / size, f"sst5-static@{other}-try", [0.5], development=0.3)
        script("results.py", tmp_path / size, *arguments, "--size", size)
    options = "--hyperparameters", "rate", "--record", tmp_path / "results.jsonl"
    assert script("best_run.py", "sst5", "static", *options) == "@0.002\n"
    assert script("best_run.py", "sst5", "static", *options, "--size", "base") == "@0.004\n"
    with pytest.raises(SystemExit):
        script("best_run.py", "sst5", "static", "--hyperparameters", "rate")


def test_results_page_uses_hyperparameters_with_best_score_over_all_seeds(tmp_path, script):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    for name, value, development in (
        ("sst5-static", 0.5, 0.2),
        ("sst5-static@0.002-try", 0.9, 0.4),
        ("sst5-static@0.002", 0.6, 0.3),
        ("sst5-elmo", 0.7, 0.4),
        ("sst5-elmo@0.002-try", 0.9, 0.5),
        ("sst5-elmo@0.002", 0.6, 0.3),
        ("sst5-elmo@dropout0.1-try", 0.9, 0.35),
        ("sst5-elmo@epochs8-try", 0.9, 0.45),
        ("sst2-static@0.002+dropout0.1-try", 0.9, 0.45),
        ("sst2-static@0.002+dropout0.1", 0.63, 0.45),
        ("sst2-static@0.002", 0.6, 0.3),
        ("ud-pos-static@0.004", 0.6, 0.2),
        ("ud-pos-static", 0.6, 0.1),
        # Fractions and GAP use the best learning rate among their own runs.
        ("ud-pos-static-0.1", 0.3, 0.2),
        ("ud-pos-static@0.004-0.1", 0.2, 0.1),
        ("litbank-static", 0.6, 0.1),
        ("litbank-static@0.004", 0.6, 0.2),
        ("litbank-static@0.002", 0.6, 0.3),
        ("gap-static", 0.32, 0.1),
        ("gap-static@0.004", 0.35, 0.1),
    ):
        write_run(out, name, [value], development=development)
    script("results.py", out, "--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU")
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "| SST-5, test accuracy |  | 60.00 |  | **70.00** |  |  | +10.00 |" in page
    assert "| SST-5, accuracy | static vectors | 20.00 | **40.00** |  |" in page
    assert "| SST-5, accuracy | ELMo, frozen | **40.00** | 50.00 |  |" in page
    header = "start | dropout 0.1 | dropout 0.3 | dropout 0.5 | twice the epochs"
    assert f"| data set | setup | learning rate | {header} |" in page
    assert "| SST-5, accuracy | ELMo, frozen | 0.001 | **40.00** | 35.00 |  |  | 45.00 |" in page
    assert "| SST-2, accuracy | static vectors | 0.002 | 30.00 | **45.00** |  |  |  |" in page
    assert "| SST-2, test accuracy |  | 63.00 |" in page
    # A trial with all seeds is complete even if it is not the best one.
    assert "Not yet run with all seeds: SST-5" not in page
    write_run(out, "sst5-elmo@0.002+dropout0.1-try", [0.9], development=0.6)
    script("results.py", out, "--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU")
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "Not yet run with all seeds: SST-5 (ELMo, frozen, 0.002+dropout0.1)." in page
    ends = "test accuracy | static vectors | 30.00 | 60.00 |"
    assert f"| UD English EWT POS (universal tags), {ends}" in page
    assert "| static vectors | 35.00 | 35.00 | 35.00 | 0.35 |" in page


def test_hyperparameters_that_are_better_with_every_seed_are_those_of_the_preset(tmp_path, script):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    for name, values in (
        ("sst5-elmo", [0.4, 0.5, 0.6]),
        ("sst5-elmo@0.002+dropout0.1", [0.5, 0.6, 0.7]),
        ("sst5-elmo@0.002", [0.6, 0.4, 0.4]),
        # Better on average, but not with every seed.
        ("sst2-elmo", [0.4, 0.5]),
        ("sst2-elmo@dropout0.1", [0.9, 0.4]),
        ("sst2-static", [0.4, 0.5]),
        ("sst2-static@epochs8", [0.5, 0.6]),
    ):
        write_run(out, name, values)
        path = out / name / "results.json"
        result = json.loads(path.read_text())
        for run, value in zip(result["runs"], values, strict=True):
            run["development"]["accuracy"] = value
        path.write_text(json.dumps(result))
    script("results.py", out, "--docs", tmp_path, "--commit", "c0ffee", "--machine", "a GPU")
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    table = page[page.index("| hyperparameters | start | changed |") :].split("\n\n")[0]
    assert [line.split(" | ", 2)[2] for line in table.splitlines()[2:]] == [
        "rate 0.002 | 50.00 ± 10.00 | 46.67 ± 11.55 | 1 of 3 |  |",
        "rate 0.002, dropout 0.1 | 50.00 ± 10.00 | 60.00 ± 10.00 | 3 of 3 | yes |",
        "epochs 8 | 45.00 ± 7.07 | 55.00 ± 7.07 | 2 of 2 |  |",
        "dropout 0.1 | 45.00 ± 7.07 | 65.00 ± 35.36 | 1 of 2 |  |",
    ]


# Dropout at the start of the search, as in runs/tasks.sh.
START_DROPOUTS = {"sst5": 0.3, "sst2": 0.3, "squad": 0.3, "litbank": 0.3, "propbank-ewt": 0.2}


def test_presets_have_the_best_recorded_hyperparameters():
    runs = Runs(read(RUNS.parent / "docs" / "results.jsonl"))
    for name in TASKS.keys() - {"gap"}:
        config = load_config(TaskConfig, name, {"out": "x"}, presets("tasks"))
        best = parse_suffix(preset_suffix(runs, name))
        expected = {"rate": 0.001, "dropout": START_DROPOUTS.get(name, 0.5)} | best
        preset = {"rate": config.optimizer.learning_rate, "dropout": config.encoder.dropout}
        preset |= {"epochs": config.run.epochs} if "epochs" in best else {}
        assert preset == expected, name


def accuracies(value):
    return {
        "all": value,
        "others": None,
        "fields": {"syntax_semantics": 0.5},
        "phenomena": {"binding": 0.25},
        "sets": {"a": value},
    }


def test_results_page_shows_perplexity_and_minimal_pairs_of_each_model(tmp_path, script):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    out.mkdir()
    for model, unknown in (("tiny-en", 0.0625), ("base-en", 0.01)):
        result = {"model": "x", "forward": 80.04, "backward": 90.06, "mean": 84.9}
        result |= {"n_words": 1200, "unknown_rate": unknown}
        (out / f"{model}-lm1b.json").write_text(json.dumps(result))
    directions = {"forward": 0.75, "backward": 0.5, "both": 0.625}
    result = {name: accuracies(value) for name, value in directions.items()}
    (out / "tiny-en-blimp.json").write_text(json.dumps({"one_unknown": 0.25, **result}))
    arguments = ["--docs", tmp_path, "--commit", "c0ffee", "--machine", "a CPU"]
    # Language models are on the main page, whatever their size.
    script("results.py", out, *arguments, "--size", "base")
    assert not (tmp_path / "results-base.md").exists()
    page = (tmp_path / "results.md").read_text(encoding="utf-8")
    text = "| One Billion Word, held-out sentences | 1,200 |"
    assert (
        f"{text} base-en | 80.0 | 90.1 | 84.9 | 1.00% |\n"
        f"{text} tiny-en | 80.0 | 90.1 | 84.9 | 6.25% |\n"
    ) in page
    assert "words: 25.0% of the pairs for `tiny-en`." in page
    assert (
        "| accuracy | tiny-en, forward | tiny-en, backward | tiny-en, both |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| all pairs | 75.0 | 50.0 | 62.5 |\n"
        "| without pairs with one unknown |  |  |  |\n"
        "| field: syntax semantics | 50.0 | 50.0 | 50.0 |\n"
        "| phenomenon: binding | 25.0 | 25.0 | 25.0 |\n"
    ) in page
