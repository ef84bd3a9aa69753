"""Write a model as the source of an installable package, so that it is found by its name.

    python runs/model_package.py MODEL models/base-en --name base-en
    pip install ./models/base-en

MODEL is a model folder whose card, README.md, states language and license. The distribution is
called `elmo-torch-NAME`. Package registries accept files of up to 100 MB by default; the script
builds the wheel once to check this.
"""

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from hatchling.builders.wheel import WheelBuilder

import elmo
from elmo.formats.attribution import LICENSE, card_attribution
from elmo.formats.load import read
from elmo.formats.model_folder import CONFIG
from elmo.formats.model_packages import GROUP

MAX_WHEEL_BYTES = 100 * 10**6
# How licenses are called in packages; model cards use lowercase names.
LICENSES = {name.lower(): name for name in ("CC-BY-SA-3.0", "CC-BY-SA-4.0", "Apache-2.0")}


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
name = "elmo-torch-{name}"
version = "{elmo.__version__}"
description = "The ELMo model {name} for elmo-torch"
readme = "src/{module}/README.md"
license = "{license_name}"
requires-python = ">=3.11"
dependencies = ["elmo-torch>={elmo.__version__}"]

[project.entry-points.{GROUP}]
{name} = "{module}"

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]
"""


def write_package(model: Path, folder: Path, name: str) -> None:
    """Write the source of a package with a model.

    Args:
        model: Model folder.
        folder: Folder of the package, which must not exist.
        name: Name of the model.
    """
    if not (model / CONFIG).is_file():
        raise SystemExit(f"{model} is not a model folder. Convert it with `elmo convert` first.")
    read(str(model))  # raises an error if a file is missing or damaged
    card = (model / "README.md").read_text(encoding="utf-8")
    license_name = card_attribution(card).get(LICENSE, "").lower()
    if license_name not in LICENSES:
        raise SystemExit(
            f"The license in {model / 'README.md'} is '{license_name}', expected one of "
            f"{', '.join(LICENSES)}."
        )
    module = f"elmo_torch_{name.replace('-', '_')}"
    source = folder / "src" / module
    shutil.copytree(model, source)
    (source / "__init__.py").write_text(f'"""Files of the ELMo model {name}."""\n', "ascii")
    project = project_file(name, module, LICENSES[license_name])
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")


def wheel_bytes(folder: Path) -> int:
    """Return the size of the wheel of a package.

    Args:
        folder: Source of the package.
    """
    with TemporaryDirectory() as temporary:
        (path,) = WheelBuilder(str(folder)).build(directory=temporary)
        return Path(path).stat().st_size


def main() -> None:
    """Write the package and check the size of its wheel."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, help="Model folder.")
    parser.add_argument("folder", type=Path, help="New folder for the package.")
    parser.add_argument("--name", required=True, help="Name of the model, such as base-en.")
    args = parser.parse_args()
    if args.folder.exists():
        raise SystemExit(f"{args.folder} exists. Delete it, or choose another folder.")
    write_package(args.model, args.folder, args.name)
    size = wheel_bytes(args.folder)
    print(f"{args.folder}: wheel of {size / 1e6:.1f} MB")
    if size > MAX_WHEEL_BYTES:
        raise SystemExit(f"The wheel is larger than {MAX_WHEEL_BYTES / 1e6:.0f} MB.")


if __name__ == "__main__":
    main()
