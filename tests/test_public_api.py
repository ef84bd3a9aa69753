"""The public face: the names promised are there, come from this package, and load lazily."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import elmo
import elmo.compat.allennlp
import elmo.embed
import elmo.formats

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("package", [elmo, elmo.embed, elmo.formats, elmo.compat.allennlp])
def test_names(package):
    assert list(package.__all__) == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name).__module__.startswith("elmo")


def test_nothing_is_forgotten():
    assert set(elmo._HOMES) == set(elmo.__all__)
    assert set(dir(elmo)) == {*elmo.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'Elmo'"):
        elmo.Elmo  # noqa: B018


def test_import_and_help_load_no_torch():
    code = (
        "import sys, elmo, elmo.cli, elmo.config\n"
        "elmo.cli.application()\n"
        "heavy = {'torch', 'numpy', 'h5py', 'pyarrow', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_module_imports_with_core_dependencies_only():
    """Extras are asked for when they are used, not on import."""
    source = Path(elmo.__file__).parent
    modules = [
        ".".join(["elmo", *path.relative_to(source).with_suffix("").parts])
        for path in source.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    ]
    code = (
        "import sys, importlib\n"
        "for name in ('pyarrow', 'huggingface_hub', 'pytest'): sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_changelog_begins_with_this_version():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    top = next(line for line in lines if line.startswith("## "))
    assert top.split()[1] == elmo.__version__


def test_wheel(tmp_path):
    """The wheel holds all modules and its marker, and runs from where it is unpacked."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "unpacked")
    source = Path(elmo.__file__).parent
    for path in [*source.rglob("*.py"), source / "py.typed"]:
        assert f"elmo/{path.relative_to(source).as_posix()}" in names
    done = subprocess.run(
        [sys.executable, "-c", "import elmo; print(elmo.__file__); elmo.ELMo"],
        env={"PYTHONPATH": str(tmp_path / "unpacked")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path))
