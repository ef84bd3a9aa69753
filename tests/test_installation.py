"""Tests of the install command in messages about missing extras."""

import json
import sys
from importlib.metadata import PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from elmo import installation
from elmo.errors import MissingExtra
from elmo.installation import install_command, package_command

METADATA = """Metadata-Version: 2.4
Name: elmo-torch
Version: 0.1.0
Requires-Dist: torch>=2.6
Requires-Dist: pyarrow>=15; extra == 'parquet'
Requires-Dist: elmo-torch[parquet]; extra == 'scale'
Requires-Dist: ray[data]>=2.40; extra == 'scale'
Requires-Dist: triton>=3.5; (sys_platform == 'linux') and extra == 'kernels'
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that simulates an installation with the given direct_url.json."""

    def simulate(origin, installer="pip"):
        folder = tmp_path / "elmo_torch-0.1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(METADATA, encoding="utf-8")
        (folder / "INSTALLER").write_text(f"{installer}\n", encoding="utf-8")
        if origin is not None:
            (folder / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
        monkeypatch.setattr(installation, "distribution", lambda name: PathDistribution(folder))

    own_pip = str(Path(sys.executable).with_name("pip"))
    monkeypatch.setattr(installation.shutil, "which", lambda name: own_pip)
    return simulate


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "a clone"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


def test_index_installation_names_the_package(install):
    install(None)
    assert install_command("scale") == "pip install 'elmo-torch[scale]'"


@pytest.mark.parametrize(("editable", "flag"), [(True, "-e "), (False, "")])
def test_installation_from_a_clone_names_its_folder(install, clone, editable, flag):
    install({"url": clone.as_uri(), "dir_info": {"editable": editable}})
    assert install_command("scale") == f"pip install {flag}'{clone}[scale]'"


@pytest.mark.parametrize(
    ("extra", "packages"),
    [
        ("scale", "'pyarrow>=15' 'ray[data]>=2.40'"),
        ("parquet", "'pyarrow>=15'"),
        ("kernels", """\"triton>=3.5; (sys_platform == 'linux')\""""),
    ],
)
def test_wheel_installation_names_the_packages_of_the_extra(install, extra, packages):
    install({"url": "file:///gone/elmo_torch-0.1.0-py3-none-any.whl", "archive_info": {}})
    assert install_command(extra) == f"pip install {packages}"


def test_installation_from_a_removed_clone_names_the_packages_of_the_extra(install, tmp_path):
    install({"url": (tmp_path / "removed").as_uri(), "dir_info": {}})
    assert install_command("parquet") == "pip install 'pyarrow>=15'"


def test_uv_environment_names_uv_and_its_python(install):
    install(None, "uv")
    expected = f"uv pip install --python {sys.executable} 'elmo-torch[hub]'"
    assert install_command("hub") == expected


def test_conda_installation_names_the_packages_of_the_extra(install):
    install(None, "conda")
    assert install_command("parquet") == "pip install 'pyarrow>=15'"


def test_git_installation_names_the_repository_and_revision(install):
    vcs = {"vcs": "git", "requested_revision": "v1", "commit_id": "0" * 40}
    install({"url": "https://example.org/elmo.git", "vcs_info": vcs})
    expected = "pip install 'elmo-torch[hub] @ git+https://example.org/elmo.git@v1'"
    assert install_command("hub") == expected


def test_sources_without_installation_name_their_clone(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", missing)
    root = Path(installation.__file__).parents[2]
    assert f"-e '{root}[hub]'" in install_command("hub")
    assert package_command("elmo-torch-x", "src").endswith("pip install elmo-torch-x")
    assert package_command("elmo-torch-x", ".").endswith(f"pip install '{root}'")


@pytest.mark.parametrize(
    ("installer", "expected"),
    [("pip", "pip install"), ("uv", f"uv pip install --python {sys.executable}")],
)
def test_package_command_names_the_installer_and_the_folder_in_the_clone(
    install, clone, installer, expected
):
    install({"url": clone.as_uri(), "dir_info": {"editable": False}}, installer)
    assert package_command("elmo-torch-x", "x") == f"{expected} elmo-torch-x"
    (clone / "x").mkdir()
    (clone / "x" / "pyproject.toml").touch()
    assert package_command("elmo-torch-x", "x") == f"{expected} '{clone / 'x'}'"


def test_package_command_without_a_clone_names_the_package(install):
    install(None)
    assert package_command("elmo-torch-x", "x") == "pip install elmo-torch-x"


@pytest.mark.parametrize("pip", [None, "/usr/bin/pip"])
def test_another_pip_on_the_path_is_not_named(install, monkeypatch, pip):
    install(None)
    monkeypatch.setattr(installation.shutil, "which", lambda name: pip)
    expected = f"{sys.executable} -m pip install 'elmo-torch[hub]'"
    assert install_command("hub") == expected
    assert str(MissingExtra("this", "hub")) == f"this requires an optional package: {expected}"
