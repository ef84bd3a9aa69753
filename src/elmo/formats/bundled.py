"""Names and folders of the models that ship with the package."""

from pathlib import Path

# Names of all bundled models. An installation may lack some of their folders.
NAMES = ("small-en", "small-ko")
FOLDER = Path(__file__).parents[1] / "models"


def installed() -> dict[str, Path]:
    """Return the folders of the installed bundled models by model name."""
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob("*/config.json"))}


def listing() -> str:
    """Return the names of the installed bundled models as text for a message."""
    return ", ".join(installed()) or "none"
