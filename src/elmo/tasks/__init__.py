"""Tasks on top of ELMo: labelled texts in, answers and scores out."""

from typing import TYPE_CHECKING, Any

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.tasks.estimator import Answerer, Classifier, PairClassifier, Tagger
    from elmo.tasks.examples import Example
    from elmo.tasks.readers.registry import read

__all__ = ["Answerer", "Classifier", "Example", "PairClassifier", "Tagger", "read"]

_HOMES = {
    "Answerer": "elmo.tasks.estimator",
    "Classifier": "elmo.tasks.estimator",
    "Example": "elmo.tasks.examples",
    "PairClassifier": "elmo.tasks.estimator",
    "Tagger": "elmo.tasks.estimator",
    "read": "elmo.tasks.readers.registry",
}


def __getattr__(name: str) -> Any:
    return fetch(name, _HOMES, __name__)
