"""Operations of the server: what a batch computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from elmo.config.serve import N_BOUNDARIES
from elmo.semantics.substitutes import Substitute, SubstituteQuery, find_substitutes
from elmo.semantics.word_scorer import WordScores
from elmo.serve.loaded_model import LoadedModel
from elmo.serve.loaded_task import LoadedTask
from elmo.serve.queued_request import Item, Operation, Result
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import Record

# Memory of a `Substitute`, with its probability.
SUBSTITUTE_BYTES = 128


@dataclass(frozen=True)
class ModelOperation(Operation[Item, Result]):
    """An operation of a model."""

    model: LoadedModel

    @property
    def subject(self) -> str:
        """Name of the model."""
        return self.model.name


@dataclass(frozen=True)
class EmbedWords(ModelOperation[Sequence[str], NDArray[np.float32]]):
    """Word vectors of sentences, (words, dim) or (layers, words, dim) each."""

    name: ClassVar[str] = "embed"
    layers: str = "average"

    def n_positions(self, item: Sequence[str]) -> int:
        """Return the number of positions of a sentence."""
        return len(item) + N_BOUNDARIES

    def run(self, items: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """Return the vectors of each sentence."""
        return self.model.encode(items, self.layers)


@dataclass(frozen=True)
class SoftmaxOperation(ModelOperation[Item, Result]):
    """An operation that computes probabilities of words at each position."""

    @property
    def position_cost(self) -> int:
        """Cost of a position with its probabilities."""
        return self.model.softmax_cost


@dataclass(frozen=True)
class ScoreWords(SoftmaxOperation[Sequence[str], WordScores]):
    """Log-probabilities of the words of sentences."""

    name: ClassVar[str] = "score"

    def n_positions(self, item: Sequence[str]) -> int:
        """Return the number of positions of a sentence."""
        return len(item) + N_BOUNDARIES

    def run(self, items: Sequence[Sequence[str]]) -> list[WordScores]:
        """Return the scores of each sentence."""
        return self.model.scorer.score(items)


@dataclass(frozen=True)
class FindSubstitutes(SoftmaxOperation[SubstituteQuery, list[list[Substitute]]]):
    """Substitutes at positions of sentences."""

    name: ClassVar[str] = "substitutes"

    def n_positions(self, item: SubstituteQuery) -> int:
        """Return the number of positions of the sentence."""
        return len(item.words) + N_BOUNDARIES

    def n_result_bytes(self, item: SubstituteQuery) -> int:
        """Return the memory of the substitutes of a sentence."""
        return len(item.positions) * item.n * SUBSTITUTE_BYTES

    def run(self, items: Sequence[SubstituteQuery]) -> list[list[list[Substitute]]]:
        """Return the substitutes at each position of each sentence."""
        return find_substitutes(self.model.scorer, items)


@dataclass(frozen=True)
class PredictTask(Operation[Example[object], Record]):
    """Predictions of a task model."""

    name: ClassVar[str] = "task"
    task: LoadedTask

    @property
    def subject(self) -> str:
        """Name of the task."""
        return self.task.name

    def n_positions(self, item: Example[object]) -> int:
        """Return the number of positions of all texts of an example."""
        return sum(len(words) + N_BOUNDARIES for words in item.texts)

    def run(self, items: Sequence[Example[object]]) -> list[Record]:
        """Return the answer for each example as JSON data."""
        return self.task.predict(items)
