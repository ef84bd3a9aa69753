"""Models that are installed with the package: one model folder per name."""

from pathlib import Path

# All bundled models; an installation may lack their weights.
NAMES = ("small-en", "small-ko")
FOLDER = Path(__file__).parents[1] / "models"


def installed() -> dict[str, Path]:
    """Return the folder of each bundled model in this installation, by name."""
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob("*/config.json"))}


def listing() -> str:
    """Return the names of the installed bundled models for a message."""
    return ", ".join(installed()) or "none"
