"""Tests of the commands of the Makefile, which are not run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"


@pytest.fixture
def clone(tmp_path):
    if shutil.which("make") is None:
        pytest.skip("needs make")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(MAKEFILE.with_name(name), tmp_path)
    return tmp_path


def dry_run(clone, target):
    """Return the result of printing the commands of a target."""
    # The tests themselves are run by make, which leaves its variables to its children.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-n", target]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False, env=own)


def test_models_installs_all_packages_without_dependencies(clone):
    for name in ("base-en", "base-ko"):
        (clone / "models" / name).mkdir(parents=True)
        (clone / "models" / name / "pyproject.toml").touch()
    (clone / "models" / "notes").mkdir()
    commands = dry_run(clone, "models").stdout.splitlines()
    assert any(command.endswith("-c constraints.txt -e .") for command in commands)
    assert commands[-1].endswith("-c constraints.txt --no-deps ./models/base-en ./models/base-ko")


def test_models_without_packages_is_a_clear_error(clone):
    done = dry_run(clone, "models")
    assert done.returncode != 0
    assert "There is no model package to install" in done.stderr
