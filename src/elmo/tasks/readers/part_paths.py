"""Paths that name a part of a file or directory: `NAME/train`, `NAME/dev`, `NAME/test`."""

from pathlib import Path

PARTS = ("train", "dev", "test")


def split_part(path: Path) -> tuple[Path, str | None]:
    """Split the name of a part off a path that does not exist itself.

    Args:
        path: Path of a data set, possibly followed by the name of a part.

    Returns:
        Path of the file or directory, and the name of the part; None for the whole data set.
    """
    if path.name in PARTS and not path.exists() and path.parent.exists():
        return path.parent, path.name
    return path, None
