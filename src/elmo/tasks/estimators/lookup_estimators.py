"""Estimators for the lookup tasks: word senses and nearest occurrences."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self, cast

from elmo.config.serialization import load_config
from elmo.errors import InputError
from elmo.progress import hidden_progress
from elmo.tasks.core.example import Example
from elmo.tasks.core.loaded_elmo import elmo_of, load_elmo
from elmo.tasks.core.task import Answer, Record, Text, to_words
from elmo.tasks.estimators.estimator import Estimator
from elmo.tasks.fitted.build import splitter, warn_about_tokenizer
from elmo.tasks.fitted.lookup_model import LookupModel
from elmo.tasks.nearest_occurrences.occurrence_lookup import NearestOccurrences
from elmo.tasks.reading.load_examples import subsample
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_presets import task_presets
from elmo.tasks.word_senses.word_sense_lookup import PredictedSense
from elmo.text.line_splitter import SplitFunction

# A sentence to store, or an example with its sense.
Stored = Text | Example[object]


class LookupEstimator(Estimator[Answer]):
    """Base class of estimators that build an index in one pass, without training."""

    def fit(self, texts: Iterable[Stored]) -> Self:
        """Build the index from texts in the format described in the class docstring."""
        settings = {**self.settings, "out": "", "task": self.task}
        config = load_config(TaskConfig, self.task, settings, task_presets())
        with hidden_progress(self.verbose < 1):
            elmo = load_elmo(config.elmo)
            warn_about_tokenizer(config, elmo_of(elmo))
            split = splitter(config, elmo_of(elmo))
            examples = [self._example(text, split, number) for number, text in enumerate(texts)]
            examples = subsample(examples, config.examples.fraction, config.run.seed)
            self._fitted = LookupModel.from_examples(config, elmo, examples)
        return self

    def _example(self, text: Stored, split: SplitFunction, number: int) -> Example[object]:
        """Convert an item passed to `fit` to an example."""
        if not isinstance(text, Example):
            raise InputError(
                f"Text {number} must be an Example as returned by elmo.tasks.read "
                f"(got {type(text).__name__})."
            )
        return text

    def predict(self, texts: Iterable[Text | tuple[Text, Text]]) -> list[Record]:
        """Return the answer for each text, in the output format of `elmo task predict`."""
        fitted = self.fitted
        split = splitter(fitted.config, fitted.elmo)
        examples = [
            fitted.task.make_example(self._texts(text, number), split)
            for number, text in enumerate(texts)
        ]
        answers = fitted.predict(examples)
        return [fitted.task.to_record(*pair) for pair in zip(examples, answers, strict=True)]

    def _texts(self, text: Text | tuple[Text, Text], number: int) -> Sequence[Text]:
        """Return the texts of an item passed to `predict`."""
        return [cast(Text, text)]

    def evaluate(self, examples: Iterable[Example[object]]) -> dict[str, float]:
        """Return the scores by name, for examples returned by `elmo.tasks.read`."""
        return self.fitted.scores(list(examples))


class WordSenseDisambiguator(LookupEstimator[tuple[PredictedSense, ...]]):
    """Predicts the WordNet senses of words in sentences.

    Fit it on the examples returned by `elmo.tasks.read("semcor3.0", "word_senses")`. The setting
    `wordnet` is the path of WordNet's index.sense file.
    """

    task: ClassVar[str] = "word_senses"


class NearestOccurrenceFinder(LookupEstimator[tuple[NearestOccurrences, ...]]):
    """Finds the nearest occurrences of words.

    Fit it on sentences. The input of `predict` is a list of pairs of a word and its sentence.
    """

    task: ClassVar[str] = "nearest_occurrences"

    def _example(self, text: Stored, split: SplitFunction, number: int) -> Example[object]:
        """Convert a sentence to an `Example`; an `Example` is returned unchanged."""
        if isinstance(text, Example):
            return text
        words = to_words(text, split)
        if not words:
            raise InputError(f"Text {number} has no words.")
        return Example((words,))

    def _texts(self, text: Text | tuple[Text, Text], number: int) -> Sequence[Text]:
        """Return the word and its sentence."""
        if isinstance(text, str) or len(parts := tuple(text)) != 2:
            raise InputError(
                f"Text {number} must be a pair of a word and its sentence (got {text!r})."
            )
        return parts
