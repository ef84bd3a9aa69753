"""Writes packages of models as an installer would."""

from conftest import random_model

from elmo.formats import model_folder


def add_package(site, model, *, distribution="elmo-torch-tiny", module="elmo_tiny", note="tiny"):
    """Write an installed package with a model and return its folder."""
    metadata = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[elmo_models]\n{model} = {module}\n")
    folder = site / module
    model_folder.write(random_model(notes=(note,)), folder)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    return folder
