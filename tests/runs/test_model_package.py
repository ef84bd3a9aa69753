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


@pytest.fixture
def write(script, model, tmp_path):
    """Return a function that writes a package of the model, and returns its folder."""

    def call(name="tiny-en"):
        source = tmp_path / "packages" / "source"
        assert script("model_package.py", model, source, "--name", name).startswith(f"{source}: ")
        return source

    return call


@pytest.mark.parametrize("name", ["tiny-en", "tiny"])
def test_installed_package_is_found_by_name(tmp_path, site, model, write, name):
    # Ignored files belong to the package, others in the model folder do not.
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.safetensors\n")
    (model / "checkpoint.pt").touch()
    (wheel,) = WheelBuilder(str(write(name))).build(directory=str(tmp_path))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(site), wheel], check=True)
    assert package_names() == [name]
    expected = ELMo.from_pretrained(str(model)).encode([["a", "b"]])[0]
    assert (ELMo.from_pretrained(name).encode([["a", "b"]])[0] == expected).all()
    metadata = distribution(f"elmo-torch-{name}").read_text("METADATA")
    assert "License-Expression: CC-BY-SA-4.0\n" in metadata
    assert "# tiny-en" in metadata
    assert not list(site.rglob("checkpoint.pt"))


def test_package_of_the_same_name_is_replaced(model, write):
    (write() / "old").touch()
    (model / "README.md").write_text(CARD.replace("by-sa-4.0", "by-3.0"))
    source = write()
    assert 'license = "CC-BY-3.0"' in (source / "pyproject.toml").read_text()
    assert not (source / "old").exists()


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ("# No header\n", "states no language"),
        (CARD.replace("language: en\n", ""), "states no language"),
        (CARD.replace("license: cc-by-sa-4.0\n", ""), "has the license ''"),
        (CARD.replace("cc-by-sa-4.0", "mine"), "has the license 'mine', expected an SPDX"),
    ],
)
def test_card_without_language_or_license_is_rejected(tmp_path, model, write, card, reason):
    (model / "README.md").write_text(card)
    with pytest.raises(SystemExit, match=reason):
        write()
    assert not list((tmp_path / "packages").iterdir())


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "base.en", "é", 'a"b', "a--b", "a-", "small-en"]
)
def test_impossible_names_are_rejected(write, name):
    with pytest.raises(SystemExit, match="--name"):
        write(name)


def test_other_folders_are_not_replaced(script, tmp_path, model, write):
    write("other")
    with pytest.raises(SystemExit, match="exists and is not a package of tiny-en"):
        write()
    with pytest.raises(SystemExit, match="exists and is not a package of tiny-en"):
        script("model_package.py", model, tmp_path, "--name", "tiny-en")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "README.md"])
def test_incomplete_and_damaged_models_are_rejected(tmp_path, model, write, name):
    content = (model / name).read_bytes()
    (model / name).unlink()
    with pytest.raises(SystemExit, match=f"{name} is missing"):
        write()
    if name != "README.md":
        (model / name).write_bytes(content[:-9])
        with pytest.raises(SystemExit, match=name):
            write()
    assert not list((tmp_path / "packages").iterdir())


def test_wheel_above_the_limit_is_an_error(tmp_path, monkeypatch, write):
    build = WheelBuilder.build

    def build_large(*args, **options):
        (path,) = build(*args, **options)
        with open(path, "r+b") as file:
            content = file.read()
            file.seek(0)
            # A ZIP file can have other data before it.
            file.truncate(101 * 10**6)
            file.seek(101 * 10**6)
            file.write(content)
        return [path]

    monkeypatch.setattr(WheelBuilder, "build", build_large)
    with pytest.raises(SystemExit, match="more than 100 MB"):
        write()
    assert not list((tmp_path / "packages").iterdir())
