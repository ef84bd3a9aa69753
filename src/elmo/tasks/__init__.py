"""Supervised tasks on top of ELMo: training, prediction and evaluation of task models."""

from typing import TYPE_CHECKING

from elmo.lazy import fetch

if TYPE_CHECKING:
    from elmo.tasks.core.example import Example
    from elmo.tasks.estimators.lookup_estimators import (
        NearestOccurrenceFinder,
        WordSenseDisambiguator,
    )
    from elmo.tasks.estimators.trained_estimators import (
        Classifier,
        CoreferenceResolver,
        QuestionAnswerer,
        SemanticRoleLabeler,
        SentencePairClassifier,
        Tagger,
    )
    from elmo.tasks.reading.readers import read
    from elmo.tasks.registry.task_config import TaskConfig
    from elmo.tasks.semantic_roles.frame import Frame

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
    "Classifier": "elmo.tasks.estimators.trained_estimators",
    "CoreferenceResolver": "elmo.tasks.estimators.trained_estimators",
    "Example": "elmo.tasks.core.example",
    "Frame": "elmo.tasks.semantic_roles.frame",
    "NearestOccurrenceFinder": "elmo.tasks.estimators.lookup_estimators",
    "QuestionAnswerer": "elmo.tasks.estimators.trained_estimators",
    "SemanticRoleLabeler": "elmo.tasks.estimators.trained_estimators",
    "SentencePairClassifier": "elmo.tasks.estimators.trained_estimators",
    "Tagger": "elmo.tasks.estimators.trained_estimators",
    "TaskConfig": "elmo.tasks.registry.task_config",
    "WordSenseDisambiguator": "elmo.tasks.estimators.lookup_estimators",
    "read": "elmo.tasks.reading.readers",
}


def __getattr__(name: str) -> object:
    return fetch(name, _MODULES, __name__)
