"""Runs the Python example of the page about language models."""

import re
from pathlib import Path

from small_language_models import TEXT

PAGE = Path(__file__).parents[2] / "docs" / "language-models.md"


def test_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("shakespeare.txt").write_text(TEXT, encoding="utf-8")
    Path("other.txt").write_text(TEXT, encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(source, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out
    assert "KING:" in printed
    assert "nats per character" in printed
