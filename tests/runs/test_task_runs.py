"""Tests of the scripts that prepare data for `elmo task` and run all experiments."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from conftest import RUNS, random_model

from elmo.cli import application
from elmo.embed.embedder import ELMo
from elmo.tasks.files.word_vectors import read_word_vectors

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n"
SICK = SICK_HEADER + "1\tKim left .\tKim didn't stay\tNEUTRAL\n"
COREFERENCE = """\
#begin document (NAME); part 0
NAME 0 0 NAME x _ _ _ _ _ _ _ (1)

#end document
"""
GAP = (
    "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    "1\tAnn met Eve. Her left.\tHer\t13\tAnn\t0\tTRUE\tEve\t8\tFALSE\tx\n"
)
CONLL = "Kim NNP I-NP B-PER\nslept VBD I-VP O\n\nSeoul NNP I-NP B-LOC\n"
REVIEWS = "id\tdocument\tlabel\n" + "".join(f"{n}\ttext {n} .\t{n % 2}\n" for n in range(20))

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="requires the runs folder of a checkout")


def test_static_vectors_are_layer_0_vectors_of_all_words(tmp_path, script_bytes):
    ELMo(random_model()).save_pretrained(tmp_path / "elmo")
    (tmp_path / "train.txt").write_text(CONLL)
    (tmp_path / "test.txt").write_text(CONLL.replace("Kim", "Lee"))
    files = [tmp_path / "train.txt", tmp_path / "test.txt"]
    vectors = tmp_path / "vectors.bin"
    vectors.write_bytes(script_bytes("static_vectors.py", tmp_path / "elmo", "conll2003", *files))
    table = read_word_vectors(vectors)
    # Words of the test set have vectors, too.
    assert table.words == ["Kim", "Lee", "Seoul", "slept"]
    expected = ELMo.from_pretrained(tmp_path / "elmo").encode([["Lee"]], layers=0)[0][0]
    np.testing.assert_allclose(table.vectors[1], expected, rtol=1e-5)


def test_static_vectors_include_words_of_both_sentences_of_a_pair(tmp_path, script_bytes):
    ELMo(random_model()).save_pretrained(tmp_path / "elmo")
    (tmp_path / "train.txt").write_text(SICK)
    vectors = tmp_path / "vectors.bin"
    vectors.write_bytes(
        script_bytes("static_vectors.py", tmp_path / "elmo", "sick", tmp_path / "train.txt")
    )
    # Both texts are split with the preset's tokenizer.
    assert read_word_vectors(vectors).words == [".", "Kim", "did", "left", "n't", "stay"]


def test_static_vectors_include_words_of_litbank_splits_and_gap(tmp_path, script_bytes):
    ELMo(random_model()).save_pretrained(tmp_path / "elmo")
    folder = tmp_path / "coref-conll"
    folder.mkdir()
    for number in range(10):
        text = COREFERENCE.replace("NAME", f"n{number}")
        (folder / f"{number}_brat.conll").write_text(text)
    (tmp_path / "gap.tsv").write_text(GAP)
    parts = [folder / "dev", folder / "test"]
    vectors = tmp_path / "vectors.bin"
    arguments = [tmp_path / "elmo", "litbank", *parts, "--gap", tmp_path / "gap.tsv"]
    vectors.write_bytes(script_bytes("static_vectors.py", *arguments))
    assert read_word_vectors(vectors).words == [".", "Ann", "Eve", "Her", "left", "met", "n8", "n9"]


def test_task_text_writes_separate_training_and_development_texts(tmp_path, script):
    (tmp_path / "train.txt").write_text(REVIEWS)
    script("task_text.py", "nsmc", tmp_path / "text", "--train", tmp_path / "train.txt")
    train, dev = ((tmp_path / "text" / f"{p}.txt").read_text() for p in ("train", "dev"))
    lines = [*train.splitlines(), *dev.splitlines()]
    assert (len(train.splitlines()), len(dev.splitlines())) == (18, 2)
    assert sorted(lines) == sorted(f"text {n} ." for n in range(20))


def test_tfidf_prints_scores_as_json(tmp_path, script):
    pytest.importorskip("sklearn")
    path = tmp_path / "train.txt"
    path.write_text(REVIEWS.replace("text 1", "fine 1"))
    scores = json.loads(script("tfidf.py", "nsmc", "--train", path, "--test", path, "--json"))
    assert set(scores) == {"accuracy", "macro_f1"}


def test_split_korean_splits_texts_into_morphemes(tmp_path, script, monkeypatch):
    stub = SimpleNamespace(words=lambda text: text.replace("가", " 가").split())
    monkeypatch.setattr("elmo.text.tokenizers_by_name.get_tokenizer", lambda name: stub)
    for folder, name, header in (
        ("klue-ynat", "train.tsv", "title\tlabel"),
        ("klue-ynat", "dev.tsv", "title\tlabel"),
        ("nsmc", "ratings_train.txt", "id\tdocument\tlabel"),
        ("nsmc", "ratings_test.txt", "id\tdocument\tlabel"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        row = "영화가 좋았다\t1\n" if folder == "klue-ynat" else "7\t영화가 좋았다\t1\n8\t\t0\n"
        (tmp_path / folder / name).write_text(f"{header}\n{row}", encoding="utf-8")
    pair = {"guid": "1", "premise": "영화가 좋았다", "hypothesis": "내가", "gold_label": "neutral"}
    (tmp_path / "klue-nli").mkdir()
    for part in ("train", "dev"):
        path = tmp_path / "klue-nli" / f"klue-nli-v1.1_{part}.json"
        path.write_text(json.dumps([pair]), encoding="utf-8")
    script("split_korean.py", tmp_path, tmp_path / "out")
    split_table = (tmp_path / "out" / "nsmc" / "ratings_test.txt").read_text(encoding="utf-8")
    header, first, second = split_table.splitlines()
    assert header == "id\tdocument\tlabel"
    assert first == "7\t영화 가 좋았다\t1"
    assert second == "8\t\t0"
    path = tmp_path / "out" / "klue-nli" / "klue-nli-v1.1_dev.json"
    split = {"premise": "영화 가 좋았다", "hypothesis": "내 가"}
    assert json.loads(path.read_text(encoding="utf-8")) == [pair | split]


def test_split_korean_skips_existing_files_without_loading_tokenizer(tmp_path, script, monkeypatch):
    monkeypatch.setattr("elmo.text.tokenizers_by_name.get_tokenizer", None)
    (tmp_path / "out" / "klue-nli").mkdir(parents=True)
    for part in ("train", "dev"):
        (tmp_path / "out" / "klue-nli" / f"klue-nli-v1.1_{part}.json").write_text("[]")
    script("split_korean.py", tmp_path, tmp_path / "out", "klue-nli")
    with pytest.raises(FileNotFoundError, match=r"ratings_train\.txt"):
        script("split_korean.py", tmp_path, tmp_path / "out", "nsmc")


# Replaces Python: appends its arguments to a file and writes the results that tasks.sh expects.
STUB = """\
#!/usr/bin/env bash
echo "$@" >> "$CALLS"
case "$*" in
    *"task fit"*) mkdir -p "$7/seed-0/model" "$7/seed-1/model" && echo "{}" > "$7/results.json" ;;
    *"elmo finetune"*) all=$* && model=${all##*--out }/model
        mkdir -p "$model" && echo "{}" > "$model/config.json" ;;
    *"task evaluate"*) echo '{"gap_f1": 0.5}' ;;
    *best_run.py*"static --hyperparameters rate dropout epochs"*) echo "$BEST" ;;
    *best_run.py*"static --hyperparameters rate"*) echo "$BEST_RATE" ;;
esac
"""


def check_call(arguments):
    """Check that a script exists, or that an `elmo` command only uses known flags."""
    if arguments[:2] != ["-m", "elmo"]:
        assert arguments[0] == "-" or Path(arguments[0]).is_file()
        return
    command = typer.main.get_command(application(arguments[2:]))
    n_words = 2 if arguments[2] == "task" else 1
    for name in arguments[2 : 2 + n_words]:
        command = command.commands[name]
    command.make_context(name, arguments[2 + n_words :])


@pytest.fixture
def run_tasks(tmp_path, monkeypatch):
    """Return a function that runs tasks.sh with a stub for Python and returns the stub's calls."""
    stub, calls = tmp_path / "python", tmp_path / "calls"
    stub.write_text(STUB)
    stub.chmod(0o755)
    monkeypatch.setenv("PYTHON", str(stub))
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("BEST", "")
    monkeypatch.setenv("BEST_RATE", "")
    for name in ("SEEDS", "RATES", "DROPOUTS", "RECORD", "EN", "KO", "SEARCHED", "SIZE"):
        monkeypatch.delenv(name, raising=False)

    def run(sets):
        monkeypatch.setenv("SETS", sets)
        command = ["bash", str(RUNS / "tasks.sh"), str(tmp_path / "data"), str(tmp_path / "out")]
        subprocess.run(command, check=True)
        lines = calls.read_text().splitlines()
        calls.write_text("")
        for line in lines:
            check_call(line.split())
        return [line.split() for line in lines]

    return run


def fits(calls):
    """Return the flags of each `elmo task fit` call, by run name."""
    return {Path(call[6]).name: call[7:] for call in calls if "fit" in call}


@pytest.mark.parametrize(
    ("command", "n_commands"),
    [
        ("small-en.sh data out", 9),
        ("small-ko.sh data out", 5),
        ("base.sh en data out 20", 4),
        ("base.sh en data out 20 last-part", 4),
        ("base.sh ko data out 20", 3),
    ],
)
def test_model_training_scripts_call_existing_scripts_with_known_flags(
    tmp_path, monkeypatch, command, n_commands
):
    for program, prefix in (("elmo", "-m elmo "), ("python", "")):
        (tmp_path / program).write_text(f'#!/usr/bin/env bash\necho "{prefix}$@" >> "$CALLS"\n')
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("LM1B", "lm1b.txt")
    subprocess.run(["bash", *f"{RUNS}/{command}".split()], check=True, cwd=tmp_path)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sum(call.startswith("-m elmo") for call in calls) == n_commands
    for call in calls:
        check_call(call.split())
    if command.startswith("base.sh"):
        prepare = next(call for call in calls if " prepare " in call)
        texts = "en-" if " en " in command else "ko-"
        assert f"prepare data/{texts}*.txt* --valid data/valid.txt*" in prepare
        assert ("--tokenizer korean --pretokenized" in prepare) == (texts == "ko-")


def test_base_model_script_rejects_unknown_language(tmp_path):
    command = ["bash", RUNS / "base.sh", "fr", "data", "out", "20"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "LANGUAGE is 'fr', expected en or ko.\n"


def test_task_fits_use_seeds_static_vectors_and_tokenizer_of_the_data_set(run_tasks, monkeypatch):
    monkeypatch.setenv("RATES", "")
    first, second = fits(run_tasks("conll2003")), fits(run_tasks("squad klue-nli"))
    assert set(second) == {
        *(
            f"{name}-{setup}"
            for name in ("squad", "klue-nli")
            for setup in ("elmo", "static", "layer0")
        ),
        "klue-nli-tuned",
    }
    assert first["conll2003-elmo"][:2] == first["conll2003-tuned"][:2] == ["--seeds", "5"]
    assert first["conll2003-elmo-0.1"][:2] == ["--seeds", "3"]
    # ELMo is added to the model with static vectors.
    assert all("--word-vectors" in flags for flags in first.values())
    without_elmo = {name for name, flags in first.items() if "none" in flags}
    fractions = ("", "-0.01", "-0.03", "-0.1", "-0.15", "-0.3")
    assert without_elmo == {f"conll2003-static{fraction}" for fraction in fractions}
    assert "--use tuned" in " ".join(first["conll2003-tuned"])
    assert all(flags[:2] == ["--seeds", "3"] for flags in second.values())
    assert "--tokenizer" not in second["squad-elmo"]
    assert "--dev" not in second["squad-elmo"]
    assert "--tokenizer whitespace" in " ".join(second["klue-nli-static"])
    monkeypatch.setenv("SEEDS", "2")
    assert fits(run_tasks("sick"))["sick-output"][:2] == ["--seeds", "2"]


def test_same_hyperparameters_are_tried_with_and_without_elmo(run_tasks, monkeypatch):
    monkeypatch.setenv("BEST_RATE", "@0.002")
    monkeypatch.setenv("BEST", "@0.002+epochs16")
    flags_of = fits(run_tasks("ud-pos"))
    rates = ("0.0005", "0.002", "0.004")
    # The search starts from dropout 0.5, which is not a trial.
    others = ("dropout0.1", "dropout0.3", "epochs16")
    trials = {
        *(f"ud-pos-{setup}@{rate}-try" for setup in ("static", "elmo") for rate in rates),
        *(f"ud-pos-static@0.002+{value}-try" for value in others),
        *(f"ud-pos-elmo@{value}-try" for value in others),
    }
    assert trials == {name for name in flags_of if name.endswith("-try")}
    for name in trials:
        # A trial has one seed and does not read the test set.
        assert flags_of[name][-4:-2] == ["--seeds", "1"]
        assert "--test" not in flags_of[name]
    for name, flags in (
        ("elmo@0.0005-try", "--learning-rate 0.0005"),
        ("static@0.002+dropout0.3-try", "--learning-rate 0.002 --dropout 0.3"),
        ("elmo@epochs16-try", "--epochs 16"),
        ("static@0.002+epochs16", "--learning-rate 0.002 --epochs 16"),
        ("static@0.002-0.1", "--fraction 0.1 --keep-steps --learning-rate 0.002"),
    ):
        assert flags in " ".join(flags_of[f"ud-pos-{name}"])
    # The best trial is run with all seeds; the best learning rate also with fractions.
    fractions = [f"-{fraction}" for fraction in ("0.01", "0.03", "0.1", "0.15", "0.3")]
    assert {name for name in flags_of if "@" in name} - trials == {
        "ud-pos-static@0.002+epochs16",
        *(f"ud-pos-static@0.002{fraction}" for fraction in fractions),
    }
    from_start = {
        f"ud-pos-{setup}{fraction}" for setup in ("static", "elmo") for fraction in fractions
    }
    assert from_start <= set(flags_of)
    assert flags_of["ud-pos-static@0.002+epochs16"][:2] == ["--seeds", "3"]
    assert "--test" in flags_of["ud-pos-static@0.002+epochs16"]


def test_hyperparameter_search_skips_values_of_its_start_and_recorded_runs(
    tmp_path, run_tasks, monkeypatch
):
    monkeypatch.setenv("RATES", "0.002")
    monkeypatch.setenv("BEST_RATE", "@0.002")
    record = tmp_path / "record.jsonl"
    record.write_text('{"run": "propbank-ewt-elmo@dropout0.3", "found": {}}\n')
    monkeypatch.setenv("RECORD", str(record))
    flags_of = fits(run_tasks("sst5 propbank-ewt"))
    trials = {name.split("@")[1] for name in flags_of if name.startswith("sst5-static@")}
    # The highest learning rate was the best, so twice that rate is tried, too.
    others = ("dropout0.1", "dropout0.5", "epochs8")
    assert trials == {"0.002-try", "0.004-try", *(f"0.002+{value}-try" for value in others)}
    trials = {name.split("@")[1] for name in flags_of if name.startswith("propbank-ewt-elmo@")}
    others = ("dropout0.1", "dropout0.5", "epochs16")
    assert trials == {"0.002-try", *(f"{value}-try" for value in others)}


def test_runs_without_suffix_have_the_hyperparameters_at_the_start_of_the_search(run_tasks):
    """Names of recorded runs keep their meaning when a preset gets what the search found."""
    for name, dropout in (("conll2003", 0.5), ("squad", 0.3), ("propbank-ewt", 0.2)):
        flags = fits(run_tasks(name))[f"{name}-elmo"]
        assert flags[2:6] == ["--learning-rate", "0.001", "--dropout", f"{dropout}"]
    # Probes are not searched; those without training have no seeds.
    probes = fits(run_tasks("probes"))
    assert "--dropout" not in probes["pos-probe-all"]
    assert probes["wsd-2"][-2:] == ["--layers", "2"]


def test_models_trained_on_litbank_are_evaluated_on_gap(tmp_path, run_tasks, monkeypatch):
    monkeypatch.setenv("BEST", "@0.004")
    calls = run_tasks("litbank")
    vectors_call = next(call for call in calls if call[0].endswith("static_vectors.py"))
    assert vectors_call[-2:] == ["--gap", str(tmp_path / "data" / "gap" / "gap-test.tsv")]
    # All runs with all seeds are evaluated; the results page selects the best one.
    assert sum("evaluate" in call for call in calls) == 8
    gap = {path.name for path in (tmp_path / "out").glob("gap-*/")}
    assert gap == {"gap-elmo", "gap-layer0", "gap-static", "gap-static@0.004"}
    results = json.loads((tmp_path / "out" / "gap-static@0.004" / "results.json").read_text())
    assert [run["test"] for run in results["runs"]] == [{"gap_f1": 0.5}] * 2
    # A second start only selects the best hyperparameters; nothing is run again.
    assert all(call[0].endswith("best_run.py") for call in run_tasks("litbank"))


def test_other_models_run_what_a_search_for_the_bundled_ones_found(
    tmp_path, run_tasks, monkeypatch
):
    monkeypatch.setenv("EN", "large-en")
    monkeypatch.setenv("KO", "large-ko")
    searched, record = tmp_path / "small.jsonl", tmp_path / "record.jsonl"
    searched.write_text("")
    record.write_text('{"run": "base/sick-layer0", "found": {}}\n{"run": "sick-tuned"}\n')
    monkeypatch.setenv("SEARCHED", str(searched))
    monkeypatch.setenv("BEST", "@0.002+dropout0.3")
    monkeypatch.setenv("BEST_RATE", "@0.002")
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setenv("SIZE", "base")
    calls = run_tasks("sick klue-nli conll2003 ynat probes")
    vectors = [call[1] for call in calls if call[0].endswith("static_vectors.py")]
    assert vectors == ["large-en", "large-ko", "large-en", "large-ko", "large-en"]
    searches = [call for call in calls if call[0].endswith("best_run.py")]
    assert all(call[-2:] == ["--record", str(searched)] for call in searches)
    flags_of = fits(calls)
    assert {name for name in flags_of if name.startswith("sick")} == {
        f"sick-{setup}"
        for setup in ("static", "elmo", "tuned", "static@0.002+dropout0.3", "input", "output")
    }
    assert flags_of["sick-static@0.002+dropout0.3"][:2] == ["--seeds", "5"]
    for name, flags in flags_of.items():
        model = flags[flags.index("--model") + 1]
        own = "large-ko" if name.startswith(("klue", "ynat")) else "large-en"
        if "static" in name:
            assert model == "none"
        elif name.endswith("-finetuned"):
            assert model.endswith("-lm/model")
        else:
            assert model == own
    finetuned = [call for call in calls if "finetune" in call]
    assert [call[call.index("--model") + 1] for call in finetuned] == ["large-en", "large-ko"]
    # The baseline without ELMo is that of the small models.
    assert not any(call[0].endswith("tfidf.py") for call in calls)


@pytest.mark.parametrize(("name", "value"), [("SIZE", "large"), ("SEARCHED", "missing.jsonl")])
def test_task_runs_reject_unknown_size_and_missing_record(run_tasks, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(subprocess.CalledProcessError):
        run_tasks("sick")


def test_runs_that_are_already_recorded_are_skipped(tmp_path, run_tasks, monkeypatch):
    record = tmp_path / "record.jsonl"
    record.write_text('{"run": "sick-elmo", "found": {}}\n{"run": "sick-input", "found": {}}\n')
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setenv("RATES", "")
    assert set(fits(run_tasks("sick"))) == {
        f"sick-{setup}" for setup in ("static", "layer0", "output", "tuned")
    }
    record.write_text(
        "".join(f'{{"run": "ynat-{setup}", "found": {{}}}}\n' for setup in ("finetuned", "tfidf"))
    )
    calls = run_tasks("ynat")
    assert "ynat-tuned" in fits(calls)
    # All runs of SICK are recorded: nothing is left to do.
    setups = ("static", "layer0", "elmo", "tuned", "input", "output")
    record.write_text("".join(f'{{"run": "sick-{setup}", "found": {{}}}}\n' for setup in setups))
    shutil.rmtree(tmp_path / "out")
    assert fits(run_tasks("sick")) == {}
    assert not any("finetune" in call or call[0].endswith("tfidf.py") for call in calls)
