"""The user's folder for downloaded models and compiled kernels."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: ELMO_HOME, or elmo-torch in XDG_CACHE_HOME or in ~/.cache."""
    own = os.environ.get("ELMO_HOME")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmo-torch"
