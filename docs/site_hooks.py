"""Hook of mkdocs: CONTRIBUTING.md of the repository becomes a page of the site."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

SOURCE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def on_files(files: Files, *, config: Any) -> Files:
    """Add the page; its links are relative to the repository, those of the site to docs."""
    text = SOURCE.read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "contributing.md", content=text))
    return files
