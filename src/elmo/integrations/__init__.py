"""ELMo inside other libraries. Names are imported on first use, with the library they need."""

from typing import TYPE_CHECKING

from elmo.errors import MissingExtra
from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.integrations.datasets_encoder import ElmoEncoder
    from elmo.integrations.sentence_transformers_module import ElmoModule
    from elmo.integrations.sklearn_vectorizer import ElmoVectorizer
    from elmo.integrations.spacy_hooks import add_hooks

__all__ = ["ElmoEncoder", "ElmoModule", "ElmoVectorizer", "add_hooks"]

_MODULES = {
    "ElmoEncoder": "elmo.integrations.datasets_encoder",
    "ElmoModule": "elmo.integrations.sentence_transformers_module",
    "ElmoVectorizer": "elmo.integrations.sklearn_vectorizer",
    "add_hooks": "elmo.integrations.spacy_hooks",
}
# Package that each name needs, and the extra that installs it.
_PACKAGES = {
    "ElmoEncoder": ("datasets", "datasets"),
    "ElmoModule": ("sentence_transformers", "sentence-transformers"),
    "ElmoVectorizer": ("sklearn", "sklearn"),
    "add_hooks": ("spacy", "spacy"),
}


def __getattr__(name: str) -> object:
    try:
        return fetch(name, _MODULES, __name__)
    except ModuleNotFoundError as error:
        package, extra = _PACKAGES[name]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(f"elmo.integrations.{name}", extra) from None


def __dir__() -> list[str]:
    return __all__
