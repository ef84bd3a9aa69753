"""Supervised tasks on top of ELMo: training, prediction and evaluation of task models."""

from typing import TYPE_CHECKING, Any

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.tasks.core.example import Example
    from elmo.tasks.estimators import (
        Classifier,
        CoreferenceResolver,
        QuestionAnswerer,
        SemanticRoleLabeler,
        SentencePairClassifier,
        Tagger,
    )
    from elmo.tasks.lookup_estimators import NearestOccurrenceFinder, WordSenseDisambiguator
    from elmo.tasks.reading import read
    from elmo.tasks.semantic_roles.frame import Frame
    from elmo.tasks.task_config import TaskConfig

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
    "TaskConfig",
    "WordSenseDisambiguator",
    "read",
]

_MODULES = {
    "Classifier": "elmo.tasks.estimators",
    "CoreferenceResolver": "elmo.tasks.estimators",
    "Example": "elmo.tasks.core.example",
    "Frame": "elmo.tasks.semantic_roles.frame",
    "NearestOccurrenceFinder": "elmo.tasks.lookup_estimators",
    "QuestionAnswerer": "elmo.tasks.estimators",
    "SemanticRoleLabeler": "elmo.tasks.estimators",
    "SentencePairClassifier": "elmo.tasks.estimators",
    "Tagger": "elmo.tasks.estimators",
    "TaskConfig": "elmo.tasks.task_config",
    "WordSenseDisambiguator": "elmo.tasks.lookup_estimators",
    "read": "elmo.tasks.reading",
}


def __getattr__(name: str) -> Any:
    return fetch(name, _MODULES, __name__)
