"""Tests that `runs/base_text.sh` writes the text that `runs/base.sh` reads."""

import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import RUNS

from elmo.config.serialization import presets
from elmo.tasks.registry.task_rows import all_readers

pytestmark = pytest.mark.skipif(not RUNS.is_dir(), reason="requires the runs folder of a checkout")

BLOCKS = 600
REVIEW = "정말 재미있고 감동적인 영화였다고 생각합니다"
# Writes the folder of its last argument, as all scripts that it replaces.
STUB = """\
#!/usr/bin/env bash
printf '%s\\n' "$@" >> "$CALLS"
mkdir "${@: -1}" && echo text | tee "${@: -1}/en-1.txt" > "${@: -1}/valid.txt"
"""


def run(language, folder):
    command = ["bash", RUNS / "base_text.sh", language, "text", "data", "out"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def unpacked(path):
    return lzma.decompress(path.read_bytes()).decode()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_korean_data(data):
    """Write training and test sets of the tasks with a text each."""
    petition = {"title": "제목", "content": "내용"}
    write(data / "petitions" / "petitions_2019-04", json.dumps(petition) + "\n")
    for split in ("train", "dev"):
        write(data / "klue-ynat" / f"{split}.tsv", "guid\ttitle\tlabel\n1\t기사\tIT과학\n")
        pairs = [{"guid": "1", "premise": "전제", "hypothesis": "가설", "gold_label": "neutral"}]
        write(data / "klue-nli" / f"klue-nli-v1.1_{split}.json", json.dumps(pairs))
    write(data / "nsmc" / "ratings_train.txt", "id\tdocument\tlabel\n1\t좋다\t1\n")
    write(data / "nsmc" / "ratings_test.txt", f"id\tdocument\tlabel\n1\t{REVIEW}\t1\n")
    write(data / "kmou-ner" / "testb.words.txt", "서울 NNP B-LOC\n\n")


def test_korean_text_is_split_and_lacks_test_texts_and_held_out_blocks(tmp_path, monkeypatch):
    pytest.importorskip("kiwipiepy")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    write_korean_data(tmp_path / "data")
    # Headings are lines of the blocks, too, and splitting them takes no time.
    headings = ["= 은행 =\n"] * 100 * (BLOCKS - 2)
    sentences = [f"학교에 {n}번 갔다.\n" for n in range(200)]
    lines = [f"앞 {REVIEW} 뒤\n", *sentences[:100], *headings, *sentences[100:]]
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "ko-1.txt.xz").write_bytes(lzma.compress("".join(lines).encode()))
    done = run("ko", tmp_path)
    assert done.returncode == 0, done.stderr
    packed = tmp_path / "out" / "packed"
    names = ["ko-1-00.txt.xz", "ko-tasks-00.txt.xz", "valid.txt.xz"]
    assert sorted(path.name for path in packed.iterdir()) == names
    train, tasks, valid = (unpacked(packed / name).splitlines() for name in names)
    expected = [f"학교 에 {n} 번 갔 다 ." for n in range(200)]
    assert train == expected[:100]
    assert valid == expected[100:]
    assert tasks[:3] == ["제목", "내용", "기사"]
    assert "좋 다" in tasks
    (tmp_path / "out" / "ko-tasks.txt").unlink()
    (tmp_path / "data" / "nsmc" / "ratings_train.txt").unlink()
    shutil.rmtree(tmp_path / "out" / "without-tests")
    assert run("ko", tmp_path).returncode == 1
    assert not (tmp_path / "out" / "without-tests").exists()


def test_finished_steps_are_skipped_and_interrupted_ones_repeated(tmp_path, monkeypatch):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "en-1.txt").touch()
    (tmp_path / "python").write_text(STUB)
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    (tmp_path / "out" / "divided.partial").mkdir(parents=True)
    assert run("en", tmp_path).returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    scripts = [Path(word).name for word in calls if word.endswith(".py")]
    assert scripts == ["text_overlap.py", "held_out_text.py"]
    sources = [word.split("=", 1)[0].split(":") for word in calls if "=data/" in word]
    assert len(sources) == 11
    for preset, *readers in sources:
        assert preset in presets("tasks")
        assert set(readers) <= set(all_readers())
    assert {"data/wikitext-103/test.txt", "30", "The New Yorker"} <= set(calls)
    packed = tmp_path / "out" / "packed"
    assert unpacked(packed / "en-1-00.txt.xz") == unpacked(packed / "valid.txt.xz") == "text\n"
    assert run("en", tmp_path).returncode == 0
    assert (tmp_path / "calls").read_text().splitlines() == calls


def test_unknown_language_is_rejected(tmp_path):
    done = run("fr", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "LANGUAGE is 'fr', expected en or ko.\n"


def test_missing_texts_are_an_error(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "en-1.txt.part").touch()
    done = run("en", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "text has no texts en-*.txt.\n"
