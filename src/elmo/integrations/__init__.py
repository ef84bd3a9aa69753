"""ELMo inside other libraries. Names are imported on first use, with the library they need."""

from typing import TYPE_CHECKING

from elmo.errors import MissingExtra
from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.integrations.sklearn_vectorizer import ElmoVectorizer

__all__ = ["ElmoVectorizer"]

_MODULES = {
    "ElmoVectorizer": "elmo.integrations.sklearn_vectorizer",
}
# Library of each name, and the extra that installs it.
_LIBRARIES = {
    "ElmoVectorizer": ("sklearn", "sklearn"),
}


def __getattr__(name: str) -> object:
    try:
        return fetch(name, _MODULES, __name__)
    except ModuleNotFoundError as error:
        library, extra = _LIBRARIES[name]
        if (error.name or "").partition(".")[0] != library:
            raise
        raise MissingExtra(f"elmo.integrations.{name}", extra) from None


def __dir__() -> list[str]:
    return __all__
