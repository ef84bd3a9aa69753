"""Comparison of column names: files from macOS can contain decomposed characters (NFD)."""

from collections.abc import Collection
from unicodedata import normalize


def matching_name(name: str, names: Collection[str]) -> str:
    """Return the only column that is equal to a name after composing characters (NFC).

    Returns the name itself if it is a column, or if there is no such column.
    """
    if name in names:
        return name
    composed = normalize("NFC", name)
    matches = [other for other in names if normalize("NFC", other) == composed]
    return matches[0] if len(matches) == 1 else name
