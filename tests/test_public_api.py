"""Tests of the public API: names, lazy imports, and the contents of the wheel."""

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import typer
from hatchling.builders.wheel import WheelBuilder

import elmo
import elmo.compat.allennlp
import elmo.embed
import elmo.export
import elmo.formats
import elmo.integrations
import elmo.lab

ROOT = Path(__file__).parents[1]
# All dependencies that the help needs; some releases of typer need fewer.
TYPER_AND_ITS_DEPENDENCIES = (
    "annotated_doc",
    "click",
    "shellingham",
    "typer",
    "typing_extensions.py",
)


@pytest.mark.parametrize(
    "package",
    [
        elmo,
        elmo.embed,
        elmo.export,
        elmo.formats,
        elmo.compat.allennlp,
        elmo.integrations,
        elmo.lab,
    ],
)
def test_public_names_are_sorted_and_defined_in_the_package(package):
    assert list(package.__all__) == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name).__module__.startswith("elmo")


def test_lazily_imported_names_match_dunder_all():
    assert set(elmo._HOMES) == set(elmo.__all__)
    assert set(dir(elmo)) == {*elmo.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'Elmo'"):
        elmo.Elmo  # noqa: B018


def test_import_and_help_do_not_import_torch():
    code = (
        "import sys, elmo, elmo.cli, elmo.config\n"
        "elmo.cli.application()\n"
        "heavy = {'torch', 'numpy', 'h5py', 'pyarrow', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_module_can_be_imported_without_optional_dependencies():
    """Modules import optional dependencies only when they need them.

    Except for `triton_*` and the packages that consist of classes of an optional dependency.
    """
    source = Path(elmo.__file__).parent
    modules = [
        ".".join(["elmo", *path.relative_to(source).with_suffix("").parts])
        for path in source.rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
        and not path.name.startswith("triton_")
        and path.relative_to(source).parts[0] not in ("integrations", "serve")
    ]
    code = (
        "import sys, importlib\n"
        "extras = 'pyarrow huggingface_hub pytest triton onnx onnxruntime'.split()\n"
        "for name in extras: sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_changelog_starts_with_the_current_version():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    top = next(line for line in lines if line.startswith("## "))
    assert top.split()[1] == elmo.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel and return its path."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """Return a new environment that contains only the wheel, typer and typer's dependencies."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    site_packages = Path(typer.__file__).parents[1]
    for name in TYPER_AND_ITS_DEPENDENCIES:
        if (site_packages / name).exists():
            (site / name).symlink_to(site_packages / name)
    return folder


def test_wheel_includes_all_files_of_bundled_models(tmp_path):
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src" / "elmo"
    names = ["config.json", "model.safetensors", "vocab.txt", "characters.json", "README.md"]
    (package / "models" / "small-en").mkdir(parents=True)
    shutil.copy(elmo.__file__, package)
    for name in names:
        (package / "models" / "small-en" / name).touch()
    included = {
        file.distribution_path for file in WheelBuilder(str(tmp_path)).recurse_included_files()
    }
    assert included == {"elmo/__init__.py", *(f"elmo/models/small-en/{name}" for name in names)}


def test_wheel_contains_all_modules_presets_and_models(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = Path(elmo.__file__).parent
    data = [*source.rglob("*.yaml"), *source.glob("models/*/*"), source / "py.typed"]
    for path in [*source.rglob("*.py"), *data]:
        assert f"elmo/{path.relative_to(source).as_posix()}" in names


def test_installed_wheel_imports_and_prints_help_without_torch(bare):
    code = "import sys, elmo; print(elmo.__file__); print(*sys.modules); import torch"
    python = [str(bare / "bin" / "python"), "-c", code]
    # An empty environment, so that no variable adds a path.
    done = subprocess.run(python, env={}, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("No module named 'torch'\n")
    home, modules = done.stdout.splitlines()
    assert home.startswith(str(bare))
    loaded = {name for name in modules.split() if name.startswith("elmo")}
    assert loaded == {"elmo", "elmo.lazy"}
    command = [str(bare / "bin" / "elmo"), "--help"]
    shown = subprocess.run(command, env={}, capture_output=True, text=True, check=True)
    assert "embed" in shown.stdout


def test_installed_wheel_imports_elmo_class_with_its_dependencies(bare):
    (site,) = bare.glob("lib/python*/site-packages")
    done = subprocess.run(
        [sys.executable, "-c", "import elmo; print(elmo.ELMo, elmo.__file__)"],
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(bare) in done.stdout
