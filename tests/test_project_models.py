"""Tests of the models in `models`, which are packages of their own."""

import tomllib
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from model_package import MAX_WHEEL_BYTES, distribution_name

from elmo.config import EvaluateConfig
from elmo.evaluate.evaluate_model import evaluate
from elmo.formats.attribution import LANGUAGE, LICENSE, card_attribution
from elmo.formats.model_packages import GROUP, PROJECT_MODELS

REPOSITORY = Path(__file__).parents[1]
SENTENCES = REPOSITORY / "benchmarks" / "sentences.txt"
MODELS = REPOSITORY / "models"
# Upper bounds of the perplexity on the first sentences of SENTENCES, from which damaged weights
# are far away: base-en has 50.0, and small-en 71.0 with a smaller vocabulary.
MAX_PERPLEXITY = {"base-en": 55}


@pytest.fixture(params=PROJECT_MODELS)
def package(request):
    """Return the name of a model and its entry in pyproject.toml."""
    project = tomllib.loads((MODELS / request.param / "pyproject.toml").read_text(encoding="utf-8"))
    return request.param, project["project"]


def model_folder(name, project):
    """Return the folder of a model from the entry point of its package."""
    return MODELS / name / "src" / project["entry-points"][GROUP][name]


def test_every_project_model_has_a_package_with_license_and_language(package):
    name, project = package
    assert project["name"] == distribution_name(name)
    card = card_attribution((model_folder(name, project) / "README.md").read_text(encoding="utf-8"))
    assert card[LICENSE].casefold() == project["license"].casefold()
    assert card[LANGUAGE] == name.rpartition("-")[2]


def test_wheel_of_a_package_has_its_weights_and_is_small_enough_for_pypi(package, tmp_path):
    name, project = package
    (wheel,) = WheelBuilder(str(MODELS / name)).build(directory=str(tmp_path))
    weights = (model_folder(name, project) / "model.safetensors").stat().st_size
    assert 0.9 * weights < Path(wheel).stat().st_size < MAX_WHEEL_BYTES


def test_language_model_of_a_package_predicts_text(package, tmp_path):
    name, project = package
    folder = model_folder(name, project)
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()[:8]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")
    result = evaluate(EvaluateConfig(text=(str(text),), model=str(folder)))
    assert result.perplexity.mean < MAX_PERPLEXITY[name]
