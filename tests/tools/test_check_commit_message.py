"""Tests of the commit-message hook."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "check_commit_message.py"


def check(tmp_path, message):
    (tmp_path / "message").write_text(message, encoding="utf-8")
    command = [sys.executable, str(SCRIPT), str(tmp_path / "message")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "message",
    [
        "Fix stale packed weights after in-place updates",
        "Address review comments\n\nThe body may be long. " + "x" * 200,
        "Merge branch 'main'",
        "x".upper() + "y" * 71,
    ],
)
def test_imperative_commit_subject_is_accepted(tmp_path, message):
    assert check(tmp_path, message).returncode == 0


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("\n", "empty"),
        ("Fix " + "x" * 69, "73 characters"),
        ("Fix the loader.", "period"),
        ("fix the loader", "capitalized"),
        ("Tests: a model that int8 does not bear", "capitalized"),
        ("Fixed the loader", "imperative"),
        ("Fixing the loader", "imperative"),
        ("Fixes the loader", "imperative"),
        ("The loader is fixed", "imperative"),
        ("What bytes lose is tested", "imperative"),
    ],
)
def test_invalid_commit_subject_is_rejected(tmp_path, message, problem):
    done = check(tmp_path, message)
    assert done.returncode == 1
    assert problem in done.stderr


def test_pre_commit_config_contains_the_commit_message_hook():
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "tools/check_commit_message.py" in config
    assert "commit-msg" in config
