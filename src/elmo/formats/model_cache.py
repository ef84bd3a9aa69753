"""Downloaded models in the user's cache folder."""

import json
from pathlib import Path

from elmo.cache_folder import cache_folder
from elmo.formats.published_models import MODELS

FORMAT = "elmo-torch download"
RECORD = "source.json"
"""File in the folder of a complete download: name, language, license and checksums."""


def model_folder_of(name: str) -> Path:
    """Return the folder in the cache for a published model, which may not exist."""
    return cache_folder() / "models" / name


def model_path(folder: Path, name: str) -> Path:
    """Return the path to load: the folder of the model, or the archive in it."""
    files = MODELS[name].files
    return folder / files[0].name if len(files) == 1 else folder


def downloaded(name: str) -> Path | None:
    """Return the path of a published model in the cache; None if it was not downloaded."""
    folder = model_folder_of(name)
    return model_path(folder, name) if (folder / RECORD).is_file() else None


def download_record(path: Path) -> dict[str, object]:
    """Return the record of a downloaded model, given its folder or archive; empty if none."""
    record = (path.parent if path.is_file() else path) / RECORD
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_ours = isinstance(content, dict) and content.get("format") == FORMAT
    return content if is_ours else {}
