"""The way this package was installed, and commands that add an extra or another package."""

import json
import re
import shutil
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = "elmo-torch"
_CLONE = Path(__file__).parents[2]
_EXTRA = re.compile(r"""\s*(?:and\s+)?extra\s*==\s*['"]([\w.-]+)['"]""")


def install_command(extra: str) -> str:
    """Return a command that adds an extra to this installation.

    A package index is only named if the package came from one: otherwise the name can be missing
    there or belong to another version.
    """
    try:
        package = distribution(NAME)
    except PackageNotFoundError:
        # The sources are on the Python path without an installation.
        is_clone = (_CLONE / "pyproject.toml").is_file()
        return f"{_pip('')} -e '{_CLONE}[{extra}]'" if is_clone else f"{_pip('')} '{NAME}[{extra}]'"
    installer = _installer(package)
    return f"{_pip(installer)} {_target(package, installer, extra)}"


def package_command(name: str, folder: str) -> str:
    """Return a command that installs another package of this project.

    Args:
        name: Name of the package, which is used if there is no clone with its folder.
        folder: Folder of the package in a clone.
    """
    clone: Path | None = _CLONE
    try:
        package = distribution(NAME)
    except PackageNotFoundError:
        installer = ""
    else:
        installer = _installer(package)
        clone = _clone_of(json.loads(package.read_text("direct_url.json") or "{}"))
    if clone is not None and (clone / folder / "pyproject.toml").is_file():
        return f"{_pip(installer)} '{clone / folder}'"
    return f"{_pip(installer)} {name}"


def _installer(package: Distribution) -> str:
    return (package.read_text("INSTALLER") or "").strip()


def _clone_of(origin: dict[str, Any]) -> Path | None:
    """Return the clone that a package was installed from; None if it was not, or is gone."""
    folder = Path(unquote(urlsplit(str(origin.get("url", ""))).path))
    return folder if "dir_info" in origin and (folder / "pyproject.toml").is_file() else None


def _target(package: Distribution, installer: str, extra: str) -> str:
    """Return the arguments of `pip install`, depending on the origin of the package (PEP 610)."""
    record = package.read_text("direct_url.json")
    if record is None and installer != "conda":
        return f"'{NAME}[{extra}]'"
    origin = json.loads(record or "{}")
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        revision = f"@{vcs['requested_revision']}" if vcs.get("requested_revision") else ""
        return f"'{NAME}[{extra}] @ {vcs['vcs']}+{url}{revision}'"
    clone = _clone_of(origin)
    if clone is not None:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"{editable}'{clone}[{extra}]'"
    # The wheel or the folder may be gone; the packages of the extra are enough.
    return " ".join(map(_quoted, requirements(package.requires or [], extra)))


def requirements(lines: list[str], extra: str) -> list[str]:
    """Return the packages of an extra, and of its extras, listed as `Requires-Dist`."""
    packages: list[str] = []
    for line in lines:
        package, _, marker = (part.strip() for part in line.partition(";"))
        if extra not in _EXTRA.findall(marker):
            continue
        own = re.fullmatch(rf"{NAME}\[(.+)\]", package)
        if own is not None:
            for inner in own[1].split(","):
                packages += requirements(lines, inner.strip())
        else:
            # pip evaluates the rest of the marker, such as sys_platform.
            condition = _EXTRA.sub("", marker)
            packages.append(f"{package}; {condition}" if condition else package)
    return list(dict.fromkeys(packages))


def _quoted(requirement: str) -> str:
    return f'"{requirement}"' if "'" in requirement else f"'{requirement}'"


def _pip(installer: str) -> str:
    """Return the install command for the Python that is running."""
    if installer == "uv":  # environments of uv have no pip
        return f"uv pip install --python {sys.executable}"
    pip = shutil.which("pip")
    is_active = pip is not None and Path(pip).parent == Path(sys.executable).parent
    return "pip install" if is_active else f"{sys.executable} -m pip install"
