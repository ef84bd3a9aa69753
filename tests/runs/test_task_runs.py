"""The scripts around `elmo task`: static vectors, texts, TF-IDF, split sets, all runs."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import RUNS, random_model

from elmo.embed.embedder import ELMo
from elmo.tasks.word_vectors import read_word_vectors

PAIRS = "pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n"
SICK = PAIRS + "1\tKim left .\tKim didn't stay\tNEUTRAL\n"
CLUSTERS = """\
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

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="an installed copy has no runs")


def test_layer_0_as_static_vectors(tmp_path, script_bytes):
    ELMo(random_model()).save_pretrained(tmp_path / "elmo")
    (tmp_path / "train.txt").write_text(CONLL)
    (tmp_path / "test.txt").write_text(CONLL.replace("Kim", "Lee"))
    files = [tmp_path / "train.txt", tmp_path / "test.txt"]
    vectors = tmp_path / "vectors.bin"
    vectors.write_bytes(script_bytes("static_vectors.py", tmp_path / "elmo", "conll2003", *files))
    table = read_word_vectors(vectors)
    # Words of the test part have vectors too.
    assert table.words == ["Kim", "Lee", "Seoul", "slept"]
    expected = ELMo.from_pretrained(tmp_path / "elmo").encode([["Lee"]], layers=0)[0][0]
    np.testing.assert_allclose(table.vectors[1], expected)


def test_layer_0_of_all_texts_of_an_example(tmp_path, script_bytes):
    ELMo(random_model()).save_pretrained(tmp_path / "elmo")
    (tmp_path / "train.txt").write_text(SICK)
    vectors = tmp_path / "vectors.bin"
    vectors.write_bytes(
        script_bytes("static_vectors.py", tmp_path / "elmo", "sick", tmp_path / "train.txt")
    )
    # Both texts of a pair, split as the preset says.
    assert read_word_vectors(vectors).words == [".", "Kim", "did", "left", "n't", "stay"]


def test_layer_0_of_parts_of_a_folder_and_of_gap(tmp_path, script_bytes):
    ELMo(random_model()).save_pretrained(tmp_path / "elmo")
    folder = tmp_path / "coref-conll"
    folder.mkdir()
    for number in range(10):
        text = CLUSTERS.replace("NAME", f"n{number}")
        (folder / f"{number}_brat.conll").write_text(text)
    (tmp_path / "gap.tsv").write_text(GAP)
    parts = [folder / "dev", folder / "test"]
    vectors = tmp_path / "vectors.bin"
    given = [tmp_path / "elmo", "litbank", *parts, "--gap", tmp_path / "gap.tsv"]
    vectors.write_bytes(script_bytes("static_vectors.py", *given))
    assert read_word_vectors(vectors).words == [".", "Ann", "Eve", "Her", "left", "met", "n8", "n9"]


def test_the_text_of_a_task(tmp_path, script):
    (tmp_path / "train.txt").write_text(REVIEWS)
    script("task_text.py", "nsmc", tmp_path / "text", "--train", tmp_path / "train.txt")
    train, dev = ((tmp_path / "text" / f"{p}.txt").read_text() for p in ("train", "dev"))
    lines = [*train.splitlines(), *dev.splitlines()]
    assert (len(train.splitlines()), len(dev.splitlines())) == (18, 2)
    assert sorted(lines) == sorted(f"text {n} ." for n in range(20))


def test_tfidf_as_json(tmp_path, script):
    pytest.importorskip("sklearn")
    path = tmp_path / "train.txt"
    path.write_text(REVIEWS.replace("text 1", "fine 1"))
    found = json.loads(script("tfidf.py", "nsmc", "--train", path, "--test", path, "--as-json"))
    assert set(found) == {"accuracy", "macro_f1"}


def test_korean_sets_are_split_once(tmp_path, script, monkeypatch):
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
    pair = {"guid": "1", "premise": "영화가 좋았다", "hypothesis": "내가", "gold_label": "neutral"}
    (tmp_path / "klue-nli").mkdir()
    for part in ("train", "dev"):
        path = tmp_path / "klue-nli" / f"klue-nli-v1.1_{part}.json"
        path.write_text(json.dumps([pair]), encoding="utf-8")
    script("split_korean.py", tmp_path, tmp_path / "out")
    found = (tmp_path / "out" / "nsmc" / "ratings_test.txt").read_text(encoding="utf-8")
    header, first, second = found.splitlines()
    assert header == "id\tdocument\tlabel"
    assert first == "7\t영화 가 좋았다\t1"
    assert second == "8\t\t0"
    path = tmp_path / "out" / "klue-nli" / "klue-nli-v1.1_dev.json"
    split = {"premise": "영화 가 좋았다", "hypothesis": "내 가"}
    assert json.loads(path.read_text(encoding="utf-8")) == [pair | split]


def test_korean_sets_that_are_split_need_no_tokeniser(tmp_path, script, monkeypatch):
    monkeypatch.setattr("elmo.text.tokenizer.get_tokenizer", None)
    (tmp_path / "out" / "klue-nli").mkdir(parents=True)
    for part in ("train", "dev"):
        (tmp_path / "out" / "klue-nli" / f"klue-nli-v1.1_{part}.json").write_text("[]")
    script("split_korean.py", tmp_path, tmp_path / "out", "klue-nli")
    with pytest.raises(FileNotFoundError, match=r"ratings_train\.txt"):
        script("split_korean.py", tmp_path, tmp_path / "out", "nsmc")


# In the place of Python: notes what it is asked, trains nothing.
STUB = """\
#!/usr/bin/env bash
echo "$@" >> "$NOTES"
case "$*" in
    *"task fit"*) mkdir -p "$7/seed-0/model" "$7/seed-1/model" && echo "{}" > "$7/results.json" ;;
    *"elmo finetune"*) all=$* && model=${all##*--out }/model
        mkdir -p "$model" && echo "{}" > "$model/config.json" ;;
    *"task evaluate"*) echo '{"gap_f1": 0.5}' ;;
    *best_run.py*"static --dials rate dropout epochs"*) echo "$BEST" ;;
    *best_run.py*"static --dials rate"*) echo "$BEST_RATE" ;;
esac
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Run all runs of some sets with a stub; gives its calls, words of each."""
    stub, notes = tmp_path / "python", tmp_path / "notes"
    stub.write_text(STUB)
    stub.chmod(0o755)
    monkeypatch.setenv("PYTHON", str(stub))
    monkeypatch.setenv("NOTES", str(notes))
    monkeypatch.setenv("BEST", "")
    monkeypatch.setenv("BEST_RATE", "")
    for name in ("SEEDS", "RATES", "DROPOUTS", "RECORD"):
        monkeypatch.delenv(name, raising=False)

    def call(sets):
        monkeypatch.setenv("SETS", sets)
        command = ["bash", str(RUNS / "tasks.sh"), str(tmp_path / "data"), str(tmp_path / "out")]
        subprocess.run(command, check=True)
        found = notes.read_text().splitlines()
        notes.write_text("")
        return [line.split() for line in found]

    return call


def fits(calls):
    """Give the flags of each fit by its name."""
    return {Path(call[6]).name: call[7:] for call in calls if "fit" in call}


def test_seeds_static_vectors_and_words_of_a_set(asked, monkeypatch):
    monkeypatch.setenv("RATES", "")
    first, second = fits(asked("conll2003")), fits(asked("squad klue-nli"))
    assert set(second) == {
        *(
            f"{name}-{way}"
            for name in ("squad", "klue-nli")
            for way in ("elmo", "static", "layer0")
        ),
        "klue-nli-tuned",
    }
    assert first["conll2003-elmo"][:2] == first["conll2003-tuned"][:2] == ["--seeds", "5"]
    assert first["conll2003-elmo-0.1"][:2] == ["--seeds", "3"]
    # What ELMo comes to is the model with static vectors.
    assert all("--word-vectors" in flags for flags in first.values())
    without = {name for name, flags in first.items() if "none" in flags}
    shares = ("", "-0.01", "-0.03", "-0.1", "-0.3")
    assert without == {f"conll2003-static{share}" for share in shares}
    assert "--use tuned" in " ".join(first["conll2003-tuned"])
    assert all(flags[:2] == ["--seeds", "3"] for flags in second.values())
    assert "--tokenizer" not in second["squad-elmo"]
    assert "--dev" not in second["squad-elmo"]
    assert "--tokenizer whitespace" in " ".join(second["klue-nli-static"])
    monkeypatch.setenv("SEEDS", "2")
    assert fits(asked("sick"))["sick-output"][:2] == ["--seeds", "2"]


def test_dials_are_tried_alike_without_elmo_and_with_it(asked, monkeypatch):
    monkeypatch.setenv("BEST_RATE", "@0.002")
    monkeypatch.setenv("BEST", "@0.002+epochs16")
    found = fits(asked("ud-pos"))
    rates = ("0.0005", "0.002", "0.004")
    others = ("dropout0.1", "dropout0.3", "epochs16")
    # Of what is as the preset has it, dropout 0.5, there is a run.
    tries = {
        *(f"ud-pos-{way}@{rate}-try" for way in ("static", "elmo") for rate in rates),
        *(f"ud-pos-static@0.002+{dial}-try" for dial in others),
        *(f"ud-pos-elmo@{dial}-try" for dial in others),
    }
    assert tries == {name for name in found if name.endswith("-try")}
    for name in tries:
        # One seed, and nothing is read that is reported.
        assert found[name][-4:-2] == ["--seeds", "1"]
        assert "--test" not in found[name]
    for name, flags in (
        ("elmo@0.0005-try", "--learning-rate 0.0005"),
        ("static@0.002+dropout0.3-try", "--learning-rate 0.002 --dropout 0.3"),
        ("elmo@epochs16-try", "--epochs 16"),
        ("static@0.002+epochs16", "--learning-rate 0.002 --epochs 16"),
        ("static@0.002-0.1", "--fraction 0.1 --learning-rate 0.002"),
    ):
        assert flags in " ".join(found[f"ud-pos-{name}"])
    # What is best has all seeds; the best rate has shares of the examples.
    shares = [f"-{share}" for share in ("0.01", "0.03", "0.1", "0.3")]
    assert {name for name in found if "@" in name} - tries == {
        "ud-pos-static@0.002+epochs16",
        *(f"ud-pos-static@0.002{share}" for share in shares),
    }
    assert {f"ud-pos-{way}{share}" for way in ("static", "elmo") for share in shares} <= set(found)
    assert found["ud-pos-static@0.002+epochs16"][:2] == ["--seeds", "3"]
    assert "--test" in found["ud-pos-static@0.002+epochs16"]


def test_dials_of_presets_and_of_other_runs_are_not_tried_again(tmp_path, asked, monkeypatch):
    monkeypatch.setenv("RATES", "0.002")
    monkeypatch.setenv("BEST_RATE", "@0.002")
    record = tmp_path / "record.jsonl"
    record.write_text('{"run": "propbank-ewt-elmo@dropout0.3", "found": {}}\n')
    monkeypatch.setenv("RECORD", str(record))
    found = fits(asked("sst5 propbank-ewt"))
    tries = {name.split("@")[1] for name in found if name.startswith("sst5-static@")}
    # The highest rate was the best: one above it is tried too.
    dials = ("dropout0.1", "dropout0.5", "epochs8")
    assert tries == {"0.002-try", "0.004-try", *(f"0.002+{dial}-try" for dial in dials)}
    tries = {name.split("@")[1] for name in found if name.startswith("propbank-ewt-elmo@")}
    dials = ("dropout0.1", "dropout0.5", "epochs16")
    assert tries == {"0.002-try", *(f"{dial}-try" for dial in dials)}


def test_models_of_litbank_are_asked_about_pronouns(tmp_path, asked, monkeypatch):
    monkeypatch.setenv("BEST", "@0.004")
    calls = asked("litbank")
    layer0 = next(call for call in calls if call[0].endswith("static_vectors.py"))
    assert layer0[-2:] == ["--gap", str(tmp_path / "data" / "gap" / "gap-test.tsv")]
    # Those at each rate that has all seeds: which is the best the page says.
    assert sum("evaluate" in call for call in calls) == 8
    gap = {path.name for path in (tmp_path / "out").glob("gap-*/")}
    assert gap == {"gap-elmo", "gap-layer0", "gap-static", "gap-static@0.004"}
    found = json.loads((tmp_path / "out" / "gap-static@0.004" / "results.json").read_text())
    assert [run["test"] for run in found["runs"]] == [{"gap_f1": 0.5}] * 2
    # What is done is not done again; which rate is best is asked.
    assert all(call[0].endswith("best_run.py") for call in asked("litbank"))


def test_what_is_recorded_is_not_run_again(tmp_path, asked, monkeypatch):
    record = tmp_path / "record.jsonl"
    record.write_text('{"run": "sick-elmo", "found": {}}\n{"run": "sick-input", "found": {}}\n')
    monkeypatch.setenv("RECORD", str(record))
    monkeypatch.setenv("RATES", "")
    assert set(fits(asked("sick"))) == {
        f"sick-{way}" for way in ("static", "layer0", "output", "tuned")
    }
    record.write_text(
        "".join(f'{{"run": "ynat-{way}", "found": {{}}}}\n' for way in ("finetuned", "tfidf"))
    )
    calls = asked("ynat")
    assert "ynat-tuned" in fits(calls)
    # Nothing at all is left to do.
    ways = ("static", "layer0", "elmo", "tuned", "input", "output")
    record.write_text("".join(f'{{"run": "sick-{way}", "found": {{}}}}\n' for way in ways))
    shutil.rmtree(tmp_path / "out")
    assert fits(asked("sick")) == {}
    assert not any("finetune" in call or call[0].endswith("tfidf.py") for call in calls)
