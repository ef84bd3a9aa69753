"""Models in packages of their own, which are found by name once they are installed.

Such a package has an entry point in the group `elmo_models`: the name of the model, and the Python
package whose folder is the model folder. This project has such packages for its larger models.
"""

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from elmo.errors import FormatError
from elmo.formats import bundled
from elmo.formats.published_models import MODELS
from elmo.installation import package_command

# Names of the models of this project in packages of their own.
PROJECT_MODELS = ("base-en",)
GROUP = "elmo_models"
CONFIG = "config.json"


def package_names() -> list[str]:
    """Return the names of the models of installed packages."""
    return sorted({point.name for point in _entry_points()})


def distribution_name(name: str) -> str:
    """Return the name under which the package of a model of this project is installed."""
    return f"elmo-torch-{name}"


def missing_models() -> list[str]:
    """Return the names of the models of this project whose packages are not installed."""
    installed = package_names()
    return [name for name in PROJECT_MODELS if name not in installed]


def missing_package_message(name: str) -> str:
    """Return the message, with the install command, for a name of `missing_models`."""
    command = package_command(distribution_name(name), f"models/{name}")
    return (
        f"{name} is in a package that is not installed. Run: {command} (in a clone of elmo-torch: "
        "make models)"
    )


def package_folder(name: str) -> Path | None:
    """Return the folder of a model of an installed package; None if there is no such package.

    Args:
        name: Name of the model.

    Raises:
        FormatError: Several packages contain a model of that name, or the package has no model.
    """
    points = [point for point in _entry_points() if point.name == name]
    if not points:
        return None
    packages = sorted({_distribution(point) for point in points})
    if len(packages) > 1:
        raise FormatError(
            f"Several installed packages contain a model {name}: {', '.join(packages)}. Uninstall "
            "all but one."
        )
    folder = _folder(points[0])
    if folder is None or not (folder / CONFIG).is_file():
        raise FormatError(
            f"The package {packages[0]} does not contain the model {name}. Reinstall it."
        )
    return folder


def installed_folder(name: str) -> Path | None:
    """Return the folder of a bundled model or of a model of an installed package, by name.

    Bundled models take precedence.
    """
    return bundled.installed().get(name) or package_folder(name)


def name_of(folder: Path) -> str | None:
    """Return the name of the bundled or packaged model in a folder; None if it is another one."""
    resolved = folder.resolve()
    folders = bundled.installed()
    folders |= {point.name: path for point in _entry_points() if (path := _folder(point))}
    return next((name for name, path in folders.items() if path.resolve() == resolved), None)


def is_model_name(name: str) -> bool:
    """Return whether a name is that of a known model, which need not be installed or downloaded."""
    return name in (*bundled.NAMES, *PROJECT_MODELS, *MODELS) or name in package_names()


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _folder(point: EntryPoint) -> Path | None:
    """Return the folder of the Python package of an entry point, without importing the package."""
    if not point.value.isidentifier():  # find_spec would import the package around a module
        return None
    spec = find_spec(point.value)
    locations = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(locations))) if locations else None
