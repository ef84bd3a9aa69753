"""Tests of the script that splits Korean texts into morphemes."""

import lzma
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("kiwipiepy")
SCRIPT = Path(__file__).parents[2] / "runs" / "split_korean_text.py"


def test_split_writes_morphemes_without_titles_and_keeps_finished_files(tmp_path):
    text = "= 은행 =\n은행에 갔다.\n\n= = 역사 = =\n나는 학교에 간다.\n"
    (tmp_path / "ko-1.txt.xz").write_bytes(lzma.compress(text.encode()))
    (tmp_path / "ko-2.txt").write_text("은행에 갔다.\n")
    out = tmp_path / "out"
    out.mkdir()
    (out / "ko-2.txt").write_text("finished")
    command = [sys.executable, SCRIPT, "ko-1.txt.xz", "ko-2.txt", "--out", out, "--workers", "1"]
    printed = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert printed.stdout == f"{out / 'ko-1.txt'}\n"
    assert (out / "ko-1.txt").read_text() == "은행 에 갔 다 .\n나 는 학교 에 간다 .\n"
    assert (out / "ko-2.txt").read_text() == "finished"
