"""Tests for models in packages of their own."""

import sys

import pytest
from conftest import random_model
from sources import assert_error

from elmo.config import DownloadConfig
from elmo.embed.embedder import ELMo
from elmo.formats import hub, model_folder
from elmo.formats.attribution import DERIVED_FROM, published_attribution
from elmo.formats.download_model import download
from elmo.formats.load import read
from elmo.formats.model_packages import installed_folder, is_model_name, name_of, package_names


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return an empty folder on the import path, without models of this environment."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "download", lambda name: pytest.fail(f"download of {name}"))
    return folder


def add_package(site, model, *, distribution="elmo-torch-tiny", module="elmo_tiny", note="tiny"):
    """Write an installed package with a model, as an installer would."""
    metadata = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[elmo_models]\n{model} = {module}\n")
    folder = site / module
    model_folder.write(random_model(notes=(note,)), folder)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    return folder


def test_model_of_installed_package_is_found_by_name(site):
    assert not is_model_name("tiny-en")
    folder = add_package(site, "tiny-en")
    assert package_names() == ["tiny-en"]
    assert is_model_name("tiny-en")
    assert installed_folder("tiny-en") == folder
    assert read("tiny-en").notes == ("tiny",)
    assert ELMo.from_pretrained("tiny-en").encode(["a b"])[0].shape == (2, 16)
    assert "elmo_tiny" not in sys.modules


def test_path_takes_precedence_over_package(site, tmp_path):
    add_package(site, "tiny-en")
    model_folder.write(random_model(notes=("mine",)), tmp_path / "tiny-en")
    assert read("tiny-en").notes == ("mine",)


def test_bundled_model_takes_precedence_over_package(site, models):
    model_folder.write(random_model(notes=("bundled",)), models / "small-en")
    add_package(site, "small-en")
    assert read("small-en").notes == ("bundled",)


def test_saved_model_names_the_packaged_model_it_is_derived_from(site, tmp_path):
    folder = add_package(site, "tiny-en")
    assert name_of(folder) == "tiny-en"
    assert published_attribution(folder) == {DERIVED_FROM: "tiny-en"}
    ELMo.from_pretrained("tiny-en").save_pretrained(tmp_path / "saved")
    assert "tiny-en" in (tmp_path / "saved" / "README.md").read_text()


def test_error_for_unknown_name_lists_packaged_models(site, models):
    add_package(site, "tiny-en")
    assert_error(lambda: read("tiny-e"), "tiny-e", "installed: tiny-en)", "tiny-en?")


def test_two_packages_with_the_same_model_are_an_error(site):
    add_package(site, "tiny-en")
    add_package(site, "tiny-en", distribution="other-models", module="elmo_other")
    assert_error(
        lambda: read("tiny-en"), "Several installed packages", "elmo-torch-tiny, other-models"
    )


@pytest.mark.parametrize("damage", ["no config", "no folder", "dotted name", "plain module"])
def test_package_without_its_model_is_an_error(site, damage):
    folder = add_package(site, "tiny-en")
    entry = site / "elmo_torch_tiny-1.0.dist-info" / "entry_points.txt"
    if damage == "no config":
        (folder / "config.json").unlink()
    elif damage == "no folder":
        entry.write_text("[elmo_models]\ntiny-en = elmo_missing\n")
    elif damage == "dotted name":
        entry.write_text("[elmo_models]\ntiny-en = elmo_tiny.inner\n")
    else:
        entry.write_text("[elmo_models]\ntiny-en = plain\n")
        (site / "plain.py").write_text("")
    assert_error(
        lambda: read("tiny-en"), "elmo-torch-tiny does not contain the model tiny-en", "Reinstall"
    )


def test_download_has_nothing_to_do_for_a_packaged_model(site):
    add_package(site, "tiny-en")
    assert "nothing to download" in str(download(DownloadConfig(name="tiny-en")))
    assert "tiny-en" in str(download(DownloadConfig(list=True)))
