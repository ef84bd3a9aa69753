"""The models that come with the package: a folder of ours for each name."""

from pathlib import Path

# Names that are promised; an installation may lack their weights.
NAMES = ("small-en", "small-ko")
FOLDER = Path(__file__).parents[1] / "models"


def installed() -> dict[str, Path]:
    """Give the bundled models of this installation, by name."""
    return {path.parent.name: path.parent for path in sorted(FOLDER.glob("*/config.json"))}


def listing() -> str:
    """List the bundled models of this installation, for a message."""
    return ", ".join(installed()) or "none"
