"""A file or a folder that holds all parts of a set: `NAME/train`, `NAME/dev`, `NAME/test`."""

from pathlib import Path

PARTS = ("train", "dev", "test")


def part_of(path: Path) -> tuple[Path, str | None]:
    """Take the name of a part off a path, where nothing of the whole path is there.

    Returns:
        The file or folder, and the part; None for all of it.
    """
    if path.name in PARTS and not path.exists() and path.parent.exists():
        return path.parent, path.name
    return path, None
