"""Write a model as the source of an installable package, so that it is found by its name.

    pip install hatchling
    python runs/model_package.py MODEL models/base-en --name base-en
    pip install ./models/base-en

MODEL is a model folder. First add its license, and its language, to the header of its card,
README.md. The distribution is called `elmo-torch-NAME`. An older package of the same name in the
folder is replaced. The wheel is built once to check its size: PyPI accepts files of up to 100 MB.
"""

import argparse
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

import elmo
from elmo.errors import ElmoError
from elmo.files import atomic_folder
from elmo.formats import bundled, model_folder
from elmo.formats.attribution import LANGUAGE, LICENSE, card_attribution
from elmo.formats.load import read
from elmo.formats.model_packages import GROUP, distribution_name
from elmo.formats.published_models import MODELS

MAX_WHEEL_BYTES = 100 * 10**6
REQUIRED_FILES = (model_folder.CONFIG, model_folder.WEIGHTS, model_folder.CARD)
OPTIONAL_FILES = (model_folder.VOCABULARY, model_folder.CHARACTERS, model_folder.WORDS)


def license_of(card: Path) -> str:
    """Return the license in the header of a model card, as packages write it.

    Args:
        card: The card.
    """
    attribution = card_attribution(card.read_text(encoding="utf-8"))
    if LANGUAGE not in attribution:
        raise SystemExit(f"{card} states no language. Add `language: CODE` to its header.")
    name = attribution.get(LICENSE, "")
    try:
        return canonicalize_license_expression(name)
    except InvalidLicenseExpression:
        raise SystemExit(
            f"{card} has the license '{name}', expected an SPDX identifier. Add one to its header, "
            "such as `license: cc-by-sa-4.0`."
        ) from None


def project_file(name: str, module: str, license_name: str) -> str:
    """Return the text of pyproject.toml.

    Args:
        name: Name of the model.
        module: Name of the Python package with its files.
        license_name: License of the model.
    """
    return f"""\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{distribution_name(name)}"
version = "{elmo.__version__}"
description = "The ELMo model {name} for elmo-torch"
readme = "src/{module}/{model_folder.CARD}"
license = "{license_name}"
requires-python = ">=3.11"
dependencies = ["elmo-torch>={elmo.__version__}"]

[project.entry-points.{GROUP}]
{name} = "{module}"

[tool.hatch.build]
# Repositories often ignore weights.
ignore-vcs = true

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]
"""


def check_names(name: str, folder: Path) -> None:
    """Raise an error if the name cannot be that of a package, or the folder is not replaceable.

    Args:
        name: Name of the model.
        folder: Folder for the package.
    """
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", name):
        raise SystemExit(f"--name is '{name}', expected words of a-z, A-Z and 0-9 with hyphens.")
    if name in bundled.NAMES or name in MODELS:
        raise SystemExit(f"--name {name} is that of a bundled or published model.")
    project = folder / "pyproject.toml"
    is_older_package = (
        project.is_file() and f'name = "{distribution_name(name)}"\n' in project.read_text("utf-8")
    )
    if folder.exists() and not is_older_package:
        raise SystemExit(f"{folder} exists and is not a package of {name}.")


def write_package(model: Path, folder: Path, name: str) -> None:
    """Write the source of a package with a model.

    Args:
        model: Model folder.
        folder: Empty folder for the package.
        name: Name of the model.
    """
    missing = [file for file in REQUIRED_FILES if not (model / file).is_file()]
    if missing:
        raise SystemExit(f"{model} is not a model folder: {missing[0]} is missing.")
    read(str(model))  # raises an error if a file is damaged
    license_name = license_of(model / model_folder.CARD)
    module = distribution_name(name).replace("-", "_")
    source = folder / "src" / module
    source.mkdir(parents=True)
    for file in (*REQUIRED_FILES, *OPTIONAL_FILES):
        if (model / file).is_file():
            shutil.copy(model / file, source)
    (source / "__init__.py").write_text(f'"""Files of the ELMo model {name}."""\n', "ascii")
    project = project_file(name, module, license_name)
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")


def wheel_bytes(folder: Path) -> int:
    """Return the size of the wheel of a package, after checking that it has all files.

    Args:
        folder: Source of the package.
    """
    with TemporaryDirectory() as temporary:
        (path,) = WheelBuilder(str(folder)).build(directory=temporary)
        with ZipFile(path) as wheel:
            included = set(wheel.namelist())
        source = folder / "src"
        files = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()}
        if files - included:
            raise SystemExit(f"The wheel lacks {', '.join(sorted(files - included))}.")
        return Path(path).stat().st_size


def main() -> None:
    """Write the package and check the size of its wheel."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, help="Model folder.")
    parser.add_argument("folder", type=Path, help="Folder for the package.")
    parser.add_argument("--name", required=True, help="Name of the model, such as base-en.")
    args = parser.parse_args()
    check_names(args.name, args.folder)
    args.folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_folder(args.folder) as folder:
            write_package(args.model, folder, args.name)
            size = wheel_bytes(folder)
            if size > MAX_WHEEL_BYTES:
                limit = MAX_WHEEL_BYTES / 1e6
                raise SystemExit(f"The wheel has {size / 1e6:.1f} MB, more than {limit:.0f} MB.")
    except ElmoError as error:
        raise SystemExit(str(error)) from None
    print(f"{args.folder}: wheel of {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
