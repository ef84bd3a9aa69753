"""Supervised tasks on top of ELMo: training, prediction and evaluation of task models."""

from typing import TYPE_CHECKING, Any

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.tasks.estimators import (
        Classifier,
        CoreferenceResolver,
        QuestionAnswerer,
        SemanticRoleLabeler,
        SentencePairClassifier,
        Tagger,
    )
    from elmo.tasks.examples import Example, Frame
    from elmo.tasks.lookup_estimators import NearestOccurrenceFinder, WordSenseDisambiguator
    from elmo.tasks.readers.reader_registry import read

__all__ = [
    "Classifier",
    "CoreferenceResolver",
    "Example",
    "Frame",
    "NearestOccurrenceFinder",
    "QuestionAnswerer",
    "SemanticRoleLabeler",
    "SentencePairClassifier",
    "Tagger",
    "WordSenseDisambiguator",
    "read",
]

_MODULES = {
    "Classifier": "elmo.tasks.estimators",
    "CoreferenceResolver": "elmo.tasks.estimators",
    "Example": "elmo.tasks.examples",
    "Frame": "elmo.tasks.examples",
    "NearestOccurrenceFinder": "elmo.tasks.lookup_estimators",
    "QuestionAnswerer": "elmo.tasks.estimators",
    "SemanticRoleLabeler": "elmo.tasks.estimators",
    "SentencePairClassifier": "elmo.tasks.estimators",
    "Tagger": "elmo.tasks.estimators",
    "WordSenseDisambiguator": "elmo.tasks.lookup_estimators",
    "read": "elmo.tasks.readers.reader_registry",
}


def __getattr__(name: str) -> Any:
    return fetch(name, _MODULES, __name__)
