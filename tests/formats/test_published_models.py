"""Tests that the table of published models is consistent, and that the docs page shows it."""

import re
from pathlib import Path

import pytest

from elmo.config.serialization import presets
from elmo.formats import bundled
from elmo.formats.published_models import MODELS

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
HASH_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_entry_is_complete(model):
    assert re.fullmatch(r"[a-z0-9.-]+", model.name)
    assert model.name not in {*bundled.NAMES, *presets("")}
    assert model.language
    assert model.page.startswith("http")
    names = [file.name for file in model.files]
    assert len(set(names)) == len(names) == len([name for name in names if name])
    if len(names) == 1:
        assert names[0].endswith((".zip", ".tar.gz"))
    else:
        assert any("options" in name and name.endswith(".json") for name in names)
        assert any(name.endswith(".hdf5") for name in names)
    for file in model.files:
        assert file.url.startswith(("https://", "http://"))
        algorithm, _, digest = file.checksum.partition(":")
        assert len(digest) == HASH_LENGTHS.get(algorithm, 0)


def test_no_address_is_listed_twice():
    urls = [file.url for model in MODELS.values() for file in model.files]
    assert len(urls) == len(set(urls))


def test_many_langs_has_44_languages():
    names = [name for name in MODELS if name.startswith("manylangs-")]
    assert len(names) == 44
    assert MODELS["manylangs-cu"].language == "Old Church Slavonic"
    assert MODELS["manylangs-ko"].files[0].url == "http://vectors.nlpl.eu/repository/11/161.zip"


def test_docs_page_shows_the_table(monkeypatch):
    monkeypatch.syspath_prepend(str(PAGE.parent))
    import make_models_page

    assert PAGE.read_text(encoding="utf-8") == make_models_page.page(), "Run make docs."
