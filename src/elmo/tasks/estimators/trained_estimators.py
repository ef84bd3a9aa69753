"""Estimators with the scikit-learn interface, one class per task."""

import logging
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import ClassVar, Self, SupportsInt, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from elmo.config.serialization import load_config
from elmo.errors import InputError, shortened
from elmo.progress import hidden_progress
from elmo.tasks.classification.classification_task import LabelPrediction
from elmo.tasks.core.example import Example, IndexRange
from elmo.tasks.core.loaded_elmo import elmo_of, load_elmo
from elmo.tasks.core.task import Answer, Text
from elmo.tasks.core.task_model import MixShares
from elmo.tasks.coreference.coreference_task import Clusters
from elmo.tasks.estimators.estimator import Estimator
from elmo.tasks.files.raw_text import PLACEHOLDER, with_placeholder
from elmo.tasks.fitted.build import splitter, warn_about_tokenizer
from elmo.tasks.fitted.fitted_task import LabelType
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.tasks.question_answering.gold_answers import GoldAnswers
from elmo.tasks.question_answering.question_answering_task import SpanAnswer, passage_of
from elmo.tasks.reading.load_examples import split_off_dev, subsample, subsample_dev
from elmo.tasks.registry.task_classes import check_targets, task_class
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.semantic_roles.frame import Frame
from elmo.tasks.semantic_roles.semantic_roles_task import PredictedFrames
from elmo.tasks.tagging.tagging_task import Tags
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
# A label, in the type of the training data.
Label = str | int | float | bool


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
        """The labels that the model can predict."""
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


class Classifier(TrainedEstimator[LabelPrediction]):
    """Classifies texts. A target is a label, either a string or an integer.

    A float without a fraction, such as 1.0, counts as an integer. The most important settings:

        model: ELMo model: a bundled model, a model folder or a hub id. Default: small-en.
        use: "frozen" (default), or "tuned" to train the ELMo model too.
        epochs: Number of passes over the training data. Default: 20.
        patience: Stop after this many evaluations without improvement. Default: 5.
        batch_size: Number of texts per training step. Default: 32, fewer for small training sets.
        learning_rate: Peak learning rate. Default: 0.001.
        hidden: Hidden size of the BiLSTM per direction. Default: 256.
        dropout: Dropout on the output of the BiLSTM. Default: 0.5.
        metric: Score for model selection: "accuracy" (default) or "macro_f1".
        empty: Texts without words: "error" (default); "keep" reads them as the word "."; "skip"
            ignores them in `fit`, `evaluate` and `score`, and `predict` raises an error.
        seed: Random seed. Default: 1.
        verbose: 1 shows the progress of `fit`. Default: 0.
    """

    task: ClassVar[str] = "classification"
    _is_classifier: ClassVar[bool] = True
    _keep_remedy: ClassVar[str] = f", or read them as the word {PLACEHOLDER!r} with empty='keep'"

    @property
    def classes_(self) -> NDArray[np.generic]:
        """The labels in their original type and sorted, as in scikit-learn; undefined before `fit`.

        Labels of a model that was trained on files are strings.
        """
        if self._fitted is None:
            raise AttributeError("classes_")
        if self.fitted.label_type == "str":
            return np.array(self._sorted_labels)
        return np.array(list(map(int, self._sorted_labels))).astype(self.fitted.label_type)

    @property
    def _sorted_labels(self) -> list[str]:
        """The labels of the model in the order of `classes_`."""
        return sorted(self.labels, key=str if self.fitted.label_type == "str" else int)

    def predict(self, texts: Iterable[Input]) -> NDArray[np.generic]:
        """Return the most likely label of each text."""
        label_ids = {name: number for number, name in enumerate(self._sorted_labels)}
        predicted = [label_ids[answer.label or ""] for answer in self._label_predictions(texts)]
        return self.classes_[np.array(predicted, dtype=np.intp)]

    def predict_proba(self, texts: Iterable[Input]) -> NDArray[np.float64]:
        """Return the probability of each label, in the order of `classes_`, (texts, labels)."""
        labels = self._sorted_labels
        answers = self._label_predictions(texts)
        rows = [[answer.probabilities[name] for name in labels] for answer in answers]
        return np.array(rows, dtype=np.float64).reshape(-1, len(labels))

    def _label_predictions(self, texts: Iterable[Input]) -> list[LabelPrediction]:
        """Return the prediction for each text; raise an error if a text has no words."""
        answers = self.answers(texts)
        for number, answer in enumerate(answers):
            if answer.label is None:
                raise InputError(
                    f"Text {number} has no words, so it has no label. Drop it, or read such texts "
                    f"as the word {PLACEHOLDER!r} with empty='keep'."
                )
        return answers

    def _example(self, text: Input, split: SplitFunction, number: int) -> Example[object]:
        example = super()._example(text, split, number)
        return with_placeholder(example) if self._empty == "keep" else example

    def _target(self, example: Example[object], target: object, number: int) -> object:
        # Equal NumPy and Python integers are the same label.
        if _is_integer(target):
            return str(int(target))
        if not isinstance(target, str):
            raise InputError(
                f"Target {number} is {shortened(repr(target), 60)}; expected a label: a string or "
                "an integer."
            )
        return target

    def _label_type(self, targets: Sequence[object]) -> LabelType:
        if not all(map(_is_integer, targets)):
            return "str"
        return "bool" if all(isinstance(target, bool | np.bool_) for target in targets) else "int"


class SentencePairClassifier(Classifier):
    """Classifies pairs of texts. A target is a label. The settings are those of `Classifier`."""

    task: ClassVar[str] = "sentence_pairs"


class Tagger(TrainedEstimator[Tags]):
    """Tags the words of texts. A target is a list with one tag per word.

    The settings are those of `Classifier`, and:

        scheme: Tagging scheme of spans: "IOB1", "IOB2", "BIOES", "BILOU", or "none" if tags do not
            mark spans. Default: "auto", detected from the tags.
        crf: Use a conditional random field. Default: True.

    The prediction for a text without words is an empty list; in `fit` and `evaluate`, `empty` can
    be "error" or "skip".
    """

    task: ClassVar[str] = "tagging"

    def _target(self, example: Example[object], target: object, number: int) -> object:
        if not isinstance(target, Iterable) or isinstance(target, str):
            return target
        tags = tuple(target)
        if len(tags) != len(example.words):
            raise InputError(f"Text {number} has {len(example.words)} words but {len(tags)} tags.")
        for index, tag in enumerate(tags):
            if not isinstance(tag, str):
                raise InputError(
                    f"Target {number} has the tag {tag!r} at word {index}; expected a string."
                )
        return tags

    def predict(self, texts: Iterable[Input]) -> list[list[str]]:
        """Return the tags of each text."""
        return [list(answer) for answer in self.answers(texts)]


class QuestionAnswerer(TrainedEstimator[SpanAnswer]):
    """Finds the span of a passage that answers a question. Texts are pairs (question, passage).

    A target is the answer or a list of all correct answers; it is empty if the passage does not
    contain an answer. An answer is a string or, if the string occurs more than once, a pair of the
    string and the index of its first character in the passage.

    The settings are those of `Classifier`, and:

        max_answer_words: Maximum length of an answer in words. Default: 30.
        window: Maximum number of words read at a time; longer passages are split. Default: 400.
        f1_unit: Unit of the F1 score: "words" (default) or "characters".
    """

    task: ClassVar[str] = "question_answering"

    def predict(self, texts: Iterable[Input]) -> list[str]:
        """Return the answer to each question; an empty string if there is no answer."""
        return [answer.text for answer in self.answers(texts)]

    def _target(self, example: Example[object], target: object, number: int) -> object:
        if isinstance(target, str):
            target = [target] if target else []
        if not isinstance(target, Iterable):
            return target
        answers = [
            (answer, None) if isinstance(answer, str) else tuple(answer) for answer in target
        ]
        if not answers:
            return GoldAnswers()
        word_range = passage_of(example).find_words(*answers[0])
        if word_range is None:
            raise InputError(
                f"Text {number}: the passage does not contain the answer {answers[0][0]!r}."
            )
        return GoldAnswers(tuple(text for text, _ in answers), word_range)


class SemanticRoleLabeler(TrainedEstimator[PredictedFrames]):
    """Finds the predicates in sentences and their arguments.

    A target is a list of frames. A frame is a pair of the predicate's word index and a list with
    one tag per word, in which the predicate itself is tagged V. The settings are those of `Tagger`.
    """

    task: ClassVar[str] = "semantic_roles"

    def predict(self, texts: Iterable[Input]) -> list[list[Frame]]:
        """Return the frames of all predicates found in each sentence."""
        return [list(answer.frames) for answer in self.answers(texts)]

    def _with_target(
        self, example: Example[object], target: object, number: int
    ) -> Example[object]:
        pairs = cast(Iterable[tuple[int, Iterable[str]]], target)
        try:
            frames = tuple(Frame(predicate, tuple(tags)) for predicate, tags in pairs)
        except (TypeError, ValueError):
            raise InputError(
                f"Text {number}: the frames must be pairs of a word index and tags "
                f"(got {target!r})."
            ) from None
        predicates = tuple(frame.predicate for frame in frames)
        return replace(example, target=frames, extra=predicates)


class CoreferenceResolver(TrainedEstimator[Clusters]):
    """Finds clusters of coreferent mentions in documents.

    A document is a string, a list of words or a list of sentences. A target is a list of clusters,
    and a cluster is a list of mentions. A mention is a pair (start, end) of word indices in the
    document; the end is exclusive.

    The settings are those of `Classifier`, and:

        max_mention_words: Maximum length of a mention in words. Default: 20.
        max_antecedents: Maximum number of candidate antecedents per mention. Default: 150.
        max_document_words: Longer documents are split between sentences. Default: 4000.
    """

    task: ClassVar[str] = "coreference"

    def predict(self, texts: Iterable[Input]) -> list[list[list[IndexRange]]]:
        """Return the clusters of each document."""
        return [[list(cluster) for cluster in answer] for answer in self.answers(texts)]

    def _target(self, example: Example[object], target: object, number: int) -> object:
        clusters = cast(Iterable[Iterable[IndexRange]], target)
        try:
            return tuple(
                sorted(
                    tuple(sorted((start, end) for start, end in cluster)) for cluster in clusters
                )
            )
        except (TypeError, ValueError):
            raise InputError(
                f"Text {number}: the clusters must be lists of pairs of word indices "
                f"(got {target!r})."
            ) from None


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


def _is_integer(label: object) -> TypeGuard[SupportsInt]:
    """Whether a label is an integer, or a float without a fraction."""
    if isinstance(label, Integral | np.bool_):
        return True
    return isinstance(label, Real) and float(label).is_integer()
