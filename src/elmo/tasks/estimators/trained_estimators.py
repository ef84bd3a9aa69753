"""Estimators with the scikit-learn interface, one class per task."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar, SupportsInt, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from elmo.errors import InputError, shortened
from elmo.tasks.classification.classification_task import LabelPrediction
from elmo.tasks.core.example import Example, IndexRange
from elmo.tasks.coreference.coreference_task import Clusters
from elmo.tasks.estimators.trained_estimator import Input, TrainedEstimator
from elmo.tasks.files.raw_text import PLACEHOLDER, with_placeholder
from elmo.tasks.fitted.fitted_task import LabelType
from elmo.tasks.question_answering.gold_answers import GoldAnswers
from elmo.tasks.question_answering.question_answering_task import SpanAnswer, passage_of
from elmo.tasks.semantic_roles.frame import Frame
from elmo.tasks.semantic_roles.semantic_roles_task import PredictedFrames
from elmo.tasks.tagging.tagging_task import Tags
from elmo.text.line_splitter import SplitFunction

# A label, in the type of the training data.
Label = str | int | float | bool


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


def _is_integer(label: object) -> TypeGuard[SupportsInt]:
    """Whether a label is an integer, or a float without a fraction."""
    if isinstance(label, Integral | np.bool_):
        return True
    return isinstance(label, Real) and float(label).is_integer()
