"""Base class of the estimators that train a task model, with the scikit-learn interface."""

import logging
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self, cast

import numpy as np

from elmo.config.serialization import load_config
from elmo.errors import InputError, shortened
from elmo.progress import hidden_progress
from elmo.tasks.core.example import Example
from elmo.tasks.core.loaded_elmo import elmo_of, load_elmo
from elmo.tasks.core.task import Answer, Text
from elmo.tasks.core.task_model import MixShares
from elmo.tasks.estimators.estimator import Estimator
from elmo.tasks.fitted.build import splitter, warn_about_tokenizer
from elmo.tasks.fitted.fitted_task import LabelType
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.tasks.reading.load_examples import split_off_dev, subsample, subsample_dev
from elmo.tasks.registry.task_classes import check_targets, task_class
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.training.fit import prepare
from elmo.tasks.training.task_trainable import TaskTrainingJob
from elmo.text.line_splitter import SplitFunction
from elmo.text.text_values import check_no_spacy, check_not_missing, is_missing, iterate_sentences
from elmo.train.devices import run_device
from elmo.train.loop import train
from elmo.train.run_folder import MODEL

logger = logging.getLogger(__name__)

# A raw text, a list of words or, for a document, a list of sentences; or a pair of texts.
Input = Text | Sequence[Text]


class TrainedEstimator(Estimator[Answer]):
    """Base class of the estimators that train a task model."""

    _own_settings: ClassVar[tuple[str, ...]] = ("out", "verbose")

    def __init__(
        self, *, out: str | Path | None = None, verbose: int = 0, **settings: object
    ) -> None:
        """Store the settings of the estimator.

        Args:
            out: Training folder. If it contains an interrupted run, `fit` resumes it. Default: a
                temporary folder, as cross-validation needs.
            verbose: 0: `fit` prints only warnings. 1: it shows the progress of training.
            **settings: Options of `elmo task fit`, such as model="small-ko", epochs=5, seed=1 or
                batch_size=64. The docstring of `Classifier` lists the most important ones, and
                `get_params` returns all of them.
        """
        self.out = out
        super().__init__(verbose=verbose, **settings)

    @property
    def fitted(self) -> TrainedModel:
        """The trained model; raises an error before `fit` or `load`."""
        fitted = super().fitted
        assert isinstance(fitted, TrainedModel)
        return fitted

    @property
    def labels(self) -> list[str]:
        """The labels of the model; tags of spans in BIOES, the scheme in which they are trained."""
        return self.fitted.labels

    def fit(
        self,
        texts: Iterable[Input],
        targets: Iterable[object],
        dev: tuple[Iterable[Input], Iterable[object]] | None = None,
    ) -> Self:
        """Train a model and select the weights with the best score on the development set.

        Args:
            texts: Raw strings, which are tokenized, or lists of words. For sentence pairs: pairs of
                texts. For question answering: pairs of a question and its passage. For coreference:
                also lists of sentences.
            targets: Gold annotations in the format described in the class docstring.
            dev: Texts and targets of the development set, dev=(texts, targets). Default: a tenth
                of the training set.
        """
        with tempfile.TemporaryDirectory() as temporary, hidden_progress(self.verbose < 1):
            out = str(self.out or temporary)
            settings = {**self.settings, "out": out, "task": self.task}
            config = load_config(TaskConfig, None, settings)
            elmo = load_elmo(config.elmo)
            warn_about_tokenizer(config, elmo_of(elmo))
            split = splitter(config, elmo_of(elmo))
            targets = list(iterate_sentences(targets, "targets"))
            examples = self._examples(texts, targets, split)
            if dev is None:
                examples, dev_examples = split_off_dev(examples, config.examples.dev_share)
                dev_examples = subsample_dev(dev_examples, config.examples)
            else:
                dev_targets = list(iterate_sentences(dev[1], "targets"))
                dev_examples = self._examples(dev[0], dev_targets, split)
                targets += dev_targets
            examples = subsample(examples, config.examples.fraction, config.run.seed)
            untrained = prepare(config, elmo, examples, dev_examples)
            untrained.label_type = self._label_type(targets)
            train(TaskTrainingJob(untrained, examples, dev_examples))
            self._fitted = load_fitted_task(Path(out) / MODEL, run_device(config.run), elmo)
        return self

    def answers(self, texts: Iterable[Input]) -> list[Answer]:
        """Return the complete prediction for each text.

        Classifier, SentencePairClassifier: the label, and the probability of each label.
        Tagger: a tuple of tags, without scores.
        QuestionAnswerer: the answer, its position in the passage, and its score.
        SemanticRoleLabeler: the word indices of the predicates, and their frames.
        CoreferenceResolver: a tuple of clusters.

        The prediction for a text without words is empty: no label, no tags, no answer.
        """
        fitted = self.fitted
        split = splitter(fitted.config, fitted.elmo)
        examples = [
            self._example(text, split, number) for number, text in enumerate(_to_list(texts))
        ]
        return cast(list[Answer], fitted.predict(examples))

    def evaluate(self, texts: Iterable[Input], targets: Iterable[object]) -> dict[str, float]:
        """Predict the texts and return the scores by name."""
        fitted = self.fitted
        split = splitter(fitted.config, fitted.elmo)
        return fitted.scores(self._examples(texts, targets, split))

    def _examples(
        self, texts: Iterable[Input], targets: Iterable[object], split: SplitFunction
    ) -> list[Example[object]]:
        """Convert texts and targets to examples; error messages include the index of the text."""
        texts, targets = _to_list(texts), list(iterate_sentences(targets, "targets"))
        if len(texts) != len(targets):
            raise InputError(f"There are {len(texts)} texts but {len(targets)} targets.")
        examples = []
        n_empty = 0
        for number, (text, target) in enumerate(zip(texts, targets, strict=True)):
            example = self._example(text, split, number)
            if not all(example.texts) and self._empty == "skip":
                n_empty += 1
                continue
            if not all(example.texts):
                raise InputError(
                    f"Text {number} has no words. Drop it, or skip such texts with "
                    f"empty='skip'{self._keep_remedy}."
                )
            if is_missing(target):
                raise InputError(
                    f"Target {number} is a missing value ({target}). Drop it and its text."
                )
            example = self._with_target(example, target, number)
            examples.append(replace(example, id=str(number)))
        if n_empty:
            logger.warning("Skipped %d of %d texts: they have no words.", n_empty, len(texts))
        if not examples:
            raise InputError("There are no texts.")
        check_targets(self.task, examples)
        return examples

    @property
    def _empty(self) -> str:
        """How to handle a text without words: error, keep or skip."""
        return str(self.settings.get("empty", "error"))

    # End of the error message for a text without words.
    _keep_remedy: ClassVar[str] = ""

    def _example(self, text: Input, split: SplitFunction, number: int) -> Example[object]:
        """Convert a text to an example without a target."""
        check_no_spacy(text, f"Text {number}")
        task = task_class(self.task)
        texts = cast(tuple[Text, ...], (text,) if task.n_inputs == 1 else tuple(text))
        if len(texts) != task.n_inputs:
            raise InputError(f"Item {number} has {len(texts)} texts (expected {task.n_inputs}).")
        if self._empty != "error":  # a missing text has no words
            texts = tuple("" if is_missing(value) else value for value in texts)
        for value in texts:
            check_not_missing(
                value,
                f"Text {number}",
                'Drop missing texts (with pandas, table.dropna(subset=["text"]))'
                f"{self._keep_remedy}.",
            )
            check_no_spacy(value, f"Text {number}")
        if not all(map(_is_text, texts)):
            raise InputError(
                f"Text {number} must be a string or a list of words (got type "
                f"{type(text).__name__}: {shortened(repr(text), 60)})."
            )
        return task.make_example(texts, split)

    def _with_target(
        self, example: Example[object], target: object, number: int
    ) -> Example[object]:
        """Return the example with its target and the extra input derived from the target."""
        return replace(example, target=self._target(example, target, number))

    def _target(self, example: Example[object], target: object, number: int) -> object:
        """Convert a target to the format used in `Example`."""
        return target

    def _label_type(self, targets: Sequence[object]) -> LabelType:
        """Return the name of the labels' Python type."""
        return "str"

    def score(self, texts: Iterable[Input], targets: Iterable[object]) -> float:
        """Return the score used for model selection."""
        return self.evaluate(texts, targets)[self.fitted.task.metric]

    def mixes(self) -> dict[str, MixShares]:
        """Return the layer shares and scale of each layer mix, by placement (input or output)."""
        return self.fitted.built.model.shares()


def _to_list(texts: Iterable[Input]) -> list[Input]:
    """Return the texts as a list; raise an error if they are a single string."""
    if isinstance(texts, str):
        raise InputError(
            f"Expected a list of texts, but got a single text: {shortened(repr(texts), 60)}."
        )
    return list(iterate_sentences(texts, "texts"))


def _is_text(value: object) -> bool:
    """Whether a value is a string, a list of words or a list of sentences."""
    return isinstance(value, str) or (
        isinstance(value, Sequence | np.ndarray) and all(map(_is_text, value))
    )
