"""Paths that select a part of a data set: `NAME/train`, `NAME/dev`, `NAME/test`."""

from pathlib import Path

PARTS = ("train", "dev", "test")


def split_part(path: Path) -> tuple[Path, str | None]:
    """Split a path such as `NAME/train` into the data set and the part, unless the path exists.

    The part is None for the whole data set.
    """
    if path.name in PARTS and not path.exists() and path.parent.exists():
        return path.parent, path.name
    return path, None
