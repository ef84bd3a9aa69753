"""Tests for models in packages of their own."""

import sys
from pathlib import Path

import pytest
from conftest import random_model
from packaged_models import add_package
from sources import assert_error

from elmo.config import DownloadConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.formats import hub, model_folder
from elmo.formats.attribution import DERIVED_FROM, published_attribution
from elmo.formats.download_model import download
from elmo.formats.load import read
from elmo.formats.model_packages import (
    PROJECT_MODELS,
    installed_folder,
    is_model_name,
    missing_models,
    name_of,
    package_names,
)

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def no_other_models(tmp_path, monkeypatch):
    """Look for model folders in an empty folder, and never on the hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "download", lambda name: pytest.fail(f"download of {name}"))


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


class TestProjectModels:
    @pytest.mark.parametrize("name", PROJECT_MODELS)
    def test_missing_package_is_an_error_with_its_install_command(self, site, name):
        assert missing_models() == list(PROJECT_MODELS)
        assert is_model_name(name)
        assert installed_folder(name) is None
        for load in (read, ELMo.from_pretrained):
            assert_error(
                lambda load=load: load(name),
                f"{name} is in a package that is not installed",
                f"models/{name}' (in a clone of elmo-torch: make models)",
            )

    @pytest.mark.parametrize("name", PROJECT_MODELS)
    def test_download_of_a_missing_package_names_its_install_command(self, site, name):
        command = rf"^{name} is in a package .* install '.*/models/{name}' \(.*: make models\)$"
        with pytest.raises(ConfigError, match=command):
            download(DownloadConfig(name=name))
        listing = str(download(DownloadConfig(list=True)))
        assert f"\n{name} is in a package that is not installed. Run: " in listing

    def test_installed_package_is_loaded_and_not_listed_as_missing(self, site):
        add_package(site, "base-en", distribution="elmo-torch-base-en")
        assert read("base-en").notes == ("tiny",)
        assert "base-en" not in missing_models()
        assert "nothing to download" in str(download(DownloadConfig(name="base-en")))
        listing = str(download(DownloadConfig(list=True)))
        assert ", base-en." in listing
        assert "base-en is in a package" not in listing

    def test_path_takes_precedence_over_missing_package(self, site, tmp_path):
        model_folder.write(random_model(notes=("mine",)), tmp_path / "base-en")
        assert read("base-en").notes == ("mine",)

    def test_similar_name_is_suggested(self, site):
        assert_error(lambda: read("base_en"), "Did you mean base-en?")
        with pytest.raises(ConfigError, match=r"Did you mean base-en\?"):
            download(DownloadConfig(name="base_en"))

    def test_packages_in_the_repository_are_project_models(self):
        folders = {path.parent.name for path in REPOSITORY.glob("models/*/pyproject.toml")}
        assert folders <= set(PROJECT_MODELS)
