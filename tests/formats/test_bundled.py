"""Tests of the models that come with the package, in a folder made for the test."""

import pytest
from conftest import random_model
from sources import refused

from elmo.embed.embedder import ELMo
from elmo.errors import FormatError
from elmo.formats import bundled, hub, native
from elmo.formats.load import read


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    def download(name):
        raise FormatError(f"the hub was asked for {name}")

    monkeypatch.setattr(hub, "download", download)


@pytest.fixture
def small(models):
    native.write(random_model(notes=("the bundled one",)), models / "small-en", "int8")
    return models / "small-en"


def test_found_by_name(models, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bundled.installed() == {"small-en": small}
    assert read("small-en").notes == ("the bundled one",)
    assert ELMo.from_pretrained("small-en").encode(["a b"])[0].shape == (2, 16)


def test_a_path_comes_first(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    native.write(random_model(notes=("mine",)), tmp_path / "small-en")
    assert read("small-en").notes == ("mine",)


@pytest.mark.parametrize("name", ["owner/name", "owner/small-en", "small-en/small-en"])
def test_a_hub_id_comes_last(models, small, name):
    refused(lambda: read(name), f"the hub was asked for {name}")


@pytest.mark.parametrize("name", bundled.NAMES)
def test_a_name_that_is_not_in_this_installation(models, name):
    refused(
        lambda: read(name), name, "is not in this installation", "bundled: none", "name another"
    )
    for other in ("other", "small"):
        native.write(random_model(), models / other)
    refused(lambda: read(name), name, "is not in this installation", "bundled: other, small)")


def test_an_unknown_name_lists_the_bundled_ones(small):
    refused(lambda: read("small-fr"), "small-fr", "no model of that name", "bundled: small-en)")


def test_no_folder_at_all(models):
    models.rmdir()
    assert bundled.installed() == {}
    refused(lambda: read("small-en"), "bundled: none")


def test_only_folders_of_models_count(models, small):
    (models / "README.md").write_text("models")
    (models / "notes").mkdir()
    assert list(bundled.installed()) == ["small-en"]
    for name in ("notes", "README.md", "../bundled", ".", "*", "small-*", "SMALL-EN"):
        refused(lambda name=name: read(f"{name}"), name)


def test_the_folder_is_inside_the_package():
    assert bundled.FOLDER.parent.name == "elmo"
    assert (bundled.FOLDER.parent / "py.typed").is_file()
    assert set(bundled.installed()) <= set(bundled.NAMES)
