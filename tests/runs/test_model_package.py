"""Tests that `runs/model_package.py` writes packages whose models are found by name."""

import subprocess
import sys
from importlib.metadata import distribution

import pytest
from conftest import TINY, random_model
from hatchling.builders.wheel import WheelBuilder

from elmo.embed.embedder import ELMo
from elmo.formats import model_folder
from elmo.formats.model_packages import package_names

CARD = "---\nlanguage: en\nlicense: cc-by-sa-4.0\n---\n\n# tiny-en\n"


@pytest.fixture
def model(tmp_path):
    model_folder.write(random_model(TINY), tmp_path / "model", "int8")
    (tmp_path / "model" / "README.md").write_text(CARD)
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["tiny-en", "tiny"])
def test_installed_package_is_found_by_name(script, tmp_path, monkeypatch, model, name):
    source, site = tmp_path / "source", tmp_path / "site"
    printed = script("model_package.py", model, source, "--name", name)
    assert printed == f"{source}: wheel of 0.0 MB\n"
    (wheel,) = WheelBuilder(str(source)).build(directory=str(tmp_path))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), wheel], check=True)
    monkeypatch.syspath_prepend(str(site))
    assert package_names() == [name]
    expected = ELMo.from_pretrained(str(model)).encode([["a", "b"]])[0]
    assert (ELMo.from_pretrained(name).encode([["a", "b"]])[0] == expected).all()
    metadata = distribution(f"elmo-torch-{name}").read_text("METADATA")
    assert "License-Expression: CC-BY-SA-4.0\n" in metadata
    assert "# tiny-en" in metadata


@pytest.mark.parametrize("card", ["# No header\n", CARD.replace("cc-by-sa-4.0", "mine")])
def test_unknown_license_is_rejected(script, tmp_path, model, card):
    (model / "README.md").write_text(card)
    with pytest.raises(SystemExit, match=r"README\.md is '(mine)?', expected one of cc-by-sa-3"):
        script("model_package.py", model, tmp_path / "source", "--name", "tiny-en")
    assert not (tmp_path / "source").exists()


def test_existing_folder_is_rejected(script, tmp_path, model):
    with pytest.raises(SystemExit, match="exists"):
        script("model_package.py", model, tmp_path, "--name", "tiny-en")


def test_folder_of_another_format_is_rejected(script, tmp_path, golden_path):
    old = golden_path("bilm-tf")
    with pytest.raises(SystemExit, match="elmo convert"):
        script("model_package.py", old, tmp_path / "source", "--name", "old")


def test_wheel_above_the_limit_is_an_error(script, tmp_path, monkeypatch, model):
    monkeypatch.setattr(WheelBuilder, "build", lambda *_, **__: [write_sparse_wheel(tmp_path)])
    with pytest.raises(SystemExit, match="larger than 100 MB"):
        script("model_package.py", model, tmp_path / "source", "--name", "tiny-en")


def write_sparse_wheel(folder):
    """Write a sparse file of 101 MB and return its path."""
    path = folder / "big.whl"
    with path.open("wb") as file:
        file.truncate(101 * 10**6)
    return str(path)
