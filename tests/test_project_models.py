"""Tests of the models in `models`, which are packages of their own."""

import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder
from model_package import MAX_WHEEL_BYTES

from elmo.config import EvaluateConfig
from elmo.evaluate.evaluate_model import evaluate
from elmo.formats.attribution import LANGUAGE, LICENSE, card_attribution
from elmo.formats.model_packages import PROJECT_MODELS, distribution_name, installed_folder

REPOSITORY = Path(__file__).parents[1]
MODELS = REPOSITORY / "models"
SENTENCES = REPOSITORY / "benchmarks" / "sentences.txt"
# Perplexity on the first eight sentences of SENTENCES.
PERPLEXITY = {"base-en": 49.97}


@pytest.mark.parametrize("name", PROJECT_MODELS)
def test_installed_wheel_has_a_language_model_with_license_and_language(name, site, tmp_path):
    (path,) = WheelBuilder(str(MODELS / name)).build(directory=str(tmp_path))
    assert Path(path).stat().st_size < MAX_WHEEL_BYTES
    with ZipFile(path) as wheel:
        wheel.extractall(site)
    folder = installed_folder(name)
    assert folder.is_relative_to(site)
    card = card_attribution((folder / "README.md").read_text(encoding="utf-8"))
    project = tomllib.loads((MODELS / name / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == distribution_name(name)
    assert card[LICENSE].casefold() == project["project"]["license"].casefold()
    assert card[LANGUAGE] == name.rpartition("-")[2]
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()[:8]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")
    result = evaluate(EvaluateConfig(text=(str(text),), model=name))
    assert result.perplexity.mean == pytest.approx(PERPLEXITY[name], rel=1e-3)
