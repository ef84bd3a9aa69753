"""Tests for the names of `elmo.integrations`, which are imported on first use."""

import subprocess
import sys

import pytest

import elmo.integrations
from elmo.errors import MissingExtra

PACKAGES = {
    "ElmoEncoder": ("datasets", "datasets"),
    "ElmoModule": ("sentence_transformers", "sentence-transformers"),
    "ElmoVectorizer": ("sklearn", "sklearn"),
    "add_hooks": ("spacy", "spacy"),
}


@pytest.mark.parametrize("name", elmo.integrations.__all__)
def test_missing_package_is_reported_with_its_extra(name, monkeypatch):
    package, extra = PACKAGES[name]
    loaded = [module for module in sys.modules if module.partition(".")[0] == package]
    for module in {*loaded, package}:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, elmo.integrations._MODULES[name], raising=False)
    with pytest.raises(MissingExtra, match=rf"elmo.integrations.{name} .*\[{extra}\]'"):
        getattr(elmo.integrations, name)


def test_unknown_name_is_an_attribute_error():
    assert dir(elmo.integrations) == elmo.integrations.__all__
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        elmo.integrations.Unknown  # noqa: B018


def test_import_does_not_import_the_packages():
    code = (
        "import sys, elmo.integrations\n"
        "heavy = {'torch', 'numpy', 'spacy', 'sklearn', 'datasets'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
