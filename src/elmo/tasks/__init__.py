"""Tasks on top of ELMo: labelled texts in, answers and scores out."""

from typing import TYPE_CHECKING, Any

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.tasks.estimator import (
        Answerer,
        Classifier,
        CoreferenceResolver,
        PairClassifier,
        RoleLabeller,
        Tagger,
    )
    from elmo.tasks.examples import Example, Frame
    from elmo.tasks.finders import NeighbourFinder, SenseFinder
    from elmo.tasks.readers.registry import read

__all__ = [
    "Answerer",
    "Classifier",
    "CoreferenceResolver",
    "Example",
    "Frame",
    "NeighbourFinder",
    "PairClassifier",
    "RoleLabeller",
    "SenseFinder",
    "Tagger",
    "read",
]

_HOMES = {
    "Answerer": "elmo.tasks.estimator",
    "Classifier": "elmo.tasks.estimator",
    "CoreferenceResolver": "elmo.tasks.estimator",
    "Example": "elmo.tasks.examples",
    "Frame": "elmo.tasks.examples",
    "NeighbourFinder": "elmo.tasks.finders",
    "PairClassifier": "elmo.tasks.estimator",
    "RoleLabeller": "elmo.tasks.estimator",
    "SenseFinder": "elmo.tasks.finders",
    "Tagger": "elmo.tasks.estimator",
    "read": "elmo.tasks.readers.registry",
}


def __getattr__(name: str) -> Any:
    return fetch(name, _HOMES, __name__)
