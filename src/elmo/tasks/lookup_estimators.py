"""Memories in Python: the senses of words and their nearest occurrences."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from elmo.config import TaskConfig, TaskName
from elmo.config.serialization import load_config, presets
from elmo.errors import ConfigError, InputError
from elmo.kernels.device import default_device
from elmo.tasks.build import splitter
from elmo.tasks.estimators import check_settings, said_of
from elmo.tasks.examples import Example
from elmo.tasks.load_examples import thinned
from elmo.tasks.lookup_model import LookupModel, load_lookup_model, remember
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.train.devices import make_fabric


class LookupEstimator:
    """What is fitted in one pass, without learning: it remembers vectors."""

    task: ClassVar[TaskName]
    preset: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        """Say how it is to be made.

        Args:
            settings: any of `elmo task fit` that is not of files, such as model="small-ko",
                layers="2" or wordnet="wordnet-3.0/index.sense".
        """
        check_settings(settings)
        self.settings = settings
        self._remembered: LookupModel | None = None

    @property
    def remembered(self) -> LookupModel:
        """The memory; it has to be fitted or loaded first."""
        if self._remembered is None:
            raise ConfigError(f"this {type(self).__name__} has not been fitted: call fit or load")
        return self._remembered

    def fit(self, texts: Iterable[Any]) -> Self:
        """Remember texts, as the class says."""
        given = {**self.settings, "out": "", "task": self.task}
        config = load_config(TaskConfig, self.preset, given, presets("tasks"))

        def examples(split: SplitFunction) -> list[Example]:
            found = [self._example(text, split, number) for number, text in enumerate(texts)]
            return thinned(found, config.examples.fraction, config.run.seed)

        self._remembered = remember(config, examples, str(make_fabric(config.run).device))
        return self

    def _example(self, text: Any, split: SplitFunction, number: int) -> Example:
        """Give what is remembered of a text."""
        if not isinstance(text, Example):
            raise InputError(f"text {number} is no example such as elmo.tasks.read gives")
        return text

    def predict(self, texts: Iterable[Any]) -> list[dict[str, Any]]:
        """Answer for each text, as `elmo task predict` writes it."""
        found = self.remembered
        split = splitter(found.config, found.elmo)
        examples = [
            found.task.make_example(self._asked(text, number), split)
            for number, text in enumerate(texts)
        ]
        answers = found.predict(examples)
        return [found.task.to_record(*pair) for pair in zip(examples, answers, strict=True)]

    def _asked(self, text: Any, number: int) -> Sequence[Any]:
        """Give the parts of what is asked."""
        return (text,)

    def evaluate(self, examples: Iterable[Example]) -> dict[str, float]:
        """Score the answers for examples of `elmo.tasks.read`, by the names of the scores."""
        return self.remembered.scores(list(examples))

    def save(self, folder: str | Path) -> None:
        """Write the memory."""
        self.remembered.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """Read a memory that `save` or `elmo task fit` wrote.

        Args:
            folder: of the memory, or a training folder with one in it.
            device: where it computes; a GPU where there is one.
        """
        found = load_lookup_model(Path(folder), device or default_device())
        if found.config.task != cls.task:
            raise ConfigError(f"{folder} holds a model for {found.config.task}, not {cls.task}")
        loaded = cls(**said_of(found.config))
        loaded._remembered = found
        return loaded


class WordSenseDisambiguator(LookupEstimator):
    """The senses of words: remembers those of examples, and answers for sentences.

    Examples are what `elmo.tasks.read("semcor3.0", "word_senses")` gives; wordnet= names WordNet's
    index.sense.
    """

    task: ClassVar[TaskName] = "word_senses"
    preset: ClassVar[str] = "wsd"


class NearestOccurrenceFinder(LookupEstimator):
    """The nearest occurrences of words: remembers sentences, and answers for (word, sentence)."""

    task: ClassVar[TaskName] = "nearest_occurrences"
    preset: ClassVar[str] = "nearest"

    def _example(self, text: Any, split: SplitFunction, number: int) -> Example:
        """Give a sentence with all its words; of an example the one that it names."""
        if isinstance(text, Example):
            return text
        words = tuple(split(text) if isinstance(text, str) else text)
        if not words:
            raise InputError(f"text {number} has no word")
        return Example((words,))

    def _asked(self, text: Any, number: int) -> Sequence[Any]:
        """Give a word and its sentence."""
        if isinstance(text, str) or len(parts := tuple(text)) != 2:
            raise InputError(f"text {number} is {text!r}; expected a word and its sentence")
        return parts
