"""Estimators for the lookup tasks: word senses and nearest occurrences."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from elmo.config import TaskConfig, TaskName
from elmo.config.serialization import load_config, presets
from elmo.errors import ConfigError, InputError
from elmo.kernels.device import default_device
from elmo.tasks.core.build import splitter
from elmo.tasks.core.example import Example
from elmo.tasks.core.loaded_elmo import load_elmo
from elmo.tasks.estimators import check_settings, non_default_settings, settings_repr
from elmo.tasks.load_examples import subsample
from elmo.tasks.lookup_model import LookupModel, build_lookup_model, load_lookup_model
from elmo.tasks.not_fitted import not_fitted_error
from elmo.text.line_splitter import SplitFunction
from elmo.train.devices import run_device


class LookupEstimator:
    """Base class of estimators that build an index in one pass, without training."""

    task: ClassVar[TaskName]
    preset: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        """Store the settings of the estimator.

        Args:
            **settings: Options of `elmo task fit`, except those for input and output files, such as
                model="small-ko", layers="2" or wordnet="wordnet-3.0/index.sense".
        """
        check_settings(settings)
        self.settings = settings
        self._fitted: LookupModel | None = None

    def __repr__(self) -> str:
        """Return the class name and the settings that differ from their defaults."""
        return settings_repr(self, self.settings)

    @property
    def fitted(self) -> LookupModel:
        """The lookup model; raises an error before `fit` or `load`."""
        if self._fitted is None:
            raise not_fitted_error(
                f"This {type(self).__name__} is not fitted. Call fit or load first."
            )
        return self._fitted

    def fit(self, texts: Iterable[Any]) -> Self:
        """Build the index from texts in the format described in the class docstring."""
        settings = {**self.settings, "out": "", "task": self.task}
        config = load_config(TaskConfig, self.preset, settings, presets("tasks"))

        def examples(split: SplitFunction) -> list[Example]:
            all_examples = [self._example(text, split, number) for number, text in enumerate(texts)]
            return subsample(all_examples, config.examples.fraction, config.run.seed)

        self._fitted = build_lookup_model(
            config, load_elmo(config), examples, run_device(config.run)
        )
        return self

    def _example(self, text: Any, split: SplitFunction, number: int) -> Example:
        """Convert an item passed to `fit` to an example."""
        if not isinstance(text, Example):
            raise InputError(
                f"Text {number} must be an Example as returned by elmo.tasks.read "
                f"(got {type(text).__name__})."
            )
        return text

    def predict(self, texts: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the prediction for each text, in the output format of `elmo task predict`."""
        model = self.fitted
        split = splitter(model.config, model.elmo)
        examples = [
            model.task.make_example(self._texts(text, number), split)
            for number, text in enumerate(texts)
        ]
        predictions = model.predict(examples)
        return [model.task.to_record(*pair) for pair in zip(examples, predictions, strict=True)]

    def _texts(self, text: Any, number: int) -> Sequence[Any]:
        """Return the texts of an item passed to `predict`."""
        return (text,)

    def evaluate(self, examples: Iterable[Example]) -> dict[str, float]:
        """Return the scores by name, for examples returned by `elmo.tasks.read`."""
        return self.fitted.scores(list(examples))

    def save(self, folder: str | Path) -> None:
        """Write the model folder."""
        self.fitted.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """Load a model written by `save` or `elmo task fit`.

        Args:
            folder: Model folder, or a training folder that contains one.
            device: Device to load the ELMo model on. Default: a GPU if available.
        """
        model = load_lookup_model(Path(folder), device or default_device())
        if model.config.task != cls.task:
            raise ConfigError(
                f"{folder} contains a model for {model.config.task}, not for {cls.task}."
            )
        loaded = cls(**non_default_settings(model.config))
        loaded._fitted = model
        return loaded


class WordSenseDisambiguator(LookupEstimator):
    """Predicts the WordNet senses of words in sentences.

    Fit it on the examples returned by `elmo.tasks.read("semcor3.0", "word_senses")`. The setting
    `wordnet` is the path of WordNet's index.sense file.
    """

    task: ClassVar[TaskName] = "word_senses"
    preset: ClassVar[str] = "wsd"


class NearestOccurrenceFinder(LookupEstimator):
    """Finds the nearest occurrences of words.

    Fit it on sentences. The input of `predict` is a list of pairs of a word and its sentence.
    """

    task: ClassVar[TaskName] = "nearest_occurrences"
    preset: ClassVar[str] = "nearest"

    def _example(self, text: Any, split: SplitFunction, number: int) -> Example:
        """Convert a sentence to an `Example`; an `Example` is returned unchanged."""
        if isinstance(text, Example):
            return text
        words = tuple(split(text) if isinstance(text, str) else text)
        if not words:
            raise InputError(f"Text {number} has no words.")
        return Example((words,))

    def _texts(self, text: Any, number: int) -> Sequence[Any]:
        """Return the word and its sentence."""
        if isinstance(text, str) or len(parts := tuple(text)) != 2:
            raise InputError(
                f"Text {number} must be a pair of a word and its sentence (got {text!r})."
            )
        return parts
