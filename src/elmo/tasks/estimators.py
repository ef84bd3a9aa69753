"""Tasks in Python, with the verbs of scikit-learn: a class for each kind of task."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from elmo.config import TaskConfig, TaskName
from elmo.config.serialization import leaves, load_config
from elmo.errors import ConfigError, InputError
from elmo.kernels.device import default_device
from elmo.tasks.build import load_elmo, splitter
from elmo.tasks.examples import Example, Frame, GoldAnswers, IndexRange
from elmo.tasks.fit import prepare
from elmo.tasks.fitted_task import FittedTask, LabelType, load_fitted_task
from elmo.tasks.load_examples import held_out, thinned
from elmo.tasks.readers.raw_text import SplitFunction, TrackedSplit
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.tasks.task_types.task_registry import TASKS, check_targets
from elmo.train.loop import train
from elmo.train.run_folder import MODEL

# Settings of `elmo task fit` that mean nothing where examples are given: what files are like, and
# what is done with several seeds.
OF_FILES = frozenset(
    {
        *("task", "train", "dev", "test", "reader", "text", "label", "phrases", "empty"),
        *("encoding", "seeds", "parallel_seeds", "dry_run"),
    }
)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that there are not, or that mean nothing here."""
    known = {leaf.name for leaf in leaves(TaskConfig)} - OF_FILES - {"out"}
    if unknown := settings.keys() - known:
        raise ConfigError(f"unknown setting {', '.join(sorted(unknown))}; known: {_list(known)}")


class Estimator:
    """What all tasks have in common: a model that is fitted, asked, measured and kept."""

    task: ClassVar[TaskName]

    def __init__(self, *, out: str | Path | None = None, **settings: Any) -> None:
        """Say how the model is to be made.

        Args:
            out: training folder, in which a run goes on that was interrupted; a temporary one
                where None.
            settings: any field of `TaskConfig` at any depth, such as model="small-ko", epochs=5,
                seed=1 or batch_size=64.
        """
        self.out = out
        self.settings: dict[str, Any] = {}
        self._trained: FittedTask | None = None
        self.set_params(**settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give all that was said of the model, as scikit-learn's tools ask for it."""
        return {"out": self.out, **self.settings}

    def set_params(self, **settings: Any) -> Self:
        """Say further how the model is to be made, from the next `fit` on."""
        self.out = settings.pop("out", self.out)
        check_settings(settings)
        self.settings |= settings
        return self

    def __sklearn_tags__(self) -> Any:
        """Say what this is, to scikit-learn's tools, which alone ask."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        is_classifier = isinstance(self, Classifier)
        return Tags(
            estimator_type="classifier" if is_classifier else None,
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if is_classifier else None,
            input_tags=InputTags(two_d_array=False, string=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there is a model."""
        return self._trained is not None

    @property
    def trained(self) -> FittedTask:
        """The model; it has to be fitted or loaded first."""
        if self._trained is None:
            raise ConfigError(f"this {type(self).__name__} has not been fitted: call fit or load")
        return self._trained

    @property
    def labels(self) -> list[str]:
        """What the model chooses from."""
        return self.trained.labels

    def fit(
        self,
        texts: Iterable[Any],
        targets: Iterable[Any],
        dev: tuple[Iterable[Any], Iterable[Any]] | None = None,
    ) -> Self:
        """Train a model; the one that does best on the development part is kept.

        Args:
            texts: strings, which the model's tokeniser splits, or lists of words; two of them each
                for pairs, a question and its passage for answers; documents may be lists of
                sentences.
            targets: what is to be found, as the class says.
            dev: texts and targets to choose by; a tenth of the others where None.
        """
        with tempfile.TemporaryDirectory() as temporary:
            out = str(self.out or temporary)
            given = {**self.settings, "out": out, "task": self.task}
            config = load_config(TaskConfig, None, given)
            elmo = load_elmo(config)
            split = TrackedSplit(splitter(config, elmo))
            targets = list(targets)
            examples = self._examples(texts, targets, split)
            if dev is None:
                examples, chosen_by = held_out(examples, config.examples.dev_share)
            else:
                further = list(dev[1])
                chosen_by = self._examples(dev[0], further, split)
                targets += further
            examples = thinned(examples, config.examples.fraction, config.run.seed)
            trained = prepare(config, elmo, examples, chosen_by)
            trained.raw = split.was_used
            trained.label_type = self._label_type(targets)
            train(TaskTrainingJob(trained, examples, chosen_by))
            self._trained = load_fitted_task(Path(out) / MODEL, default_device())
        return self

    def answers(self, texts: Iterable[Any]) -> list[Any]:
        """Give for each text all that the model says of it."""
        trained = self.trained
        split = splitter(trained.config, trained.built.elmo)
        asked = [self._asked(text, split, at) for at, text in enumerate(_listed(texts))]
        return trained.predict(asked)

    def evaluate(self, texts: Iterable[Any], targets: Iterable[Any]) -> dict[str, float]:
        """Score the answers for texts, by the names of the scores."""
        trained = self.trained
        split = splitter(trained.config, trained.built.elmo)
        return trained.scores(self._examples(texts, targets, split))

    def _examples(
        self, texts: Iterable[Any], targets: Iterable[Any], split: SplitFunction
    ) -> list[Example]:
        """Put texts and targets together; what does not fit is refused with its number."""
        texts, targets = _listed(texts), list(targets)
        if len(texts) != len(targets):
            raise InputError(f"{len(texts)} texts, but {len(targets)} targets")
        examples = []
        for number, (text, target) in enumerate(zip(texts, targets, strict=True)):
            example = self._asked(text, split, number)
            example = self._with_target(example, target, number)
            examples.append(replace(example, id=str(number)))
        if not examples:
            raise InputError("there are no texts")
        check_targets(self.task, examples)
        return examples

    def _asked(self, text: Any, split: SplitFunction, number: int) -> Example:
        """Make an example of what is asked."""
        kind = TASKS[self.task]
        texts = (text,) if kind.n_texts == 1 else tuple(text)
        if len(texts) != kind.n_texts:
            raise InputError(f"text {number} is {len(texts)} texts, expected {kind.n_texts}")
        if not all(map(_is_text, texts)):
            raise InputError(f"text {number} is {text!r:.60}; expected a string or words")
        example = kind.make_example(texts, split)
        if not all(example.texts):
            raise InputError(f"text {number} has no word")
        return example

    def _with_target(self, example: Example, target: Any, number: int) -> Example:
        """Add what is to be found, and what is given with it."""
        return replace(example, target=self._target(example, target, number))

    def _target(self, example: Example, target: Any, number: int) -> Any:
        """Give a target as examples have it."""
        return target

    def _label_type(self, targets: Sequence[Any]) -> LabelType:
        """Say what labels are given as."""
        return "str"

    def score(self, texts: Iterable[Any], targets: Iterable[Any]) -> float:
        """Give the score that models are chosen by."""
        return self.evaluate(texts, targets)[self.trained.task.metric]

    def mixes(self) -> dict[str, dict[str, Any]]:
        """Give what each mix of ELMo's layers has learned, by its place."""
        return self.trained.built.model.shares()

    def save(self, folder: str | Path) -> None:
        """Write the model."""
        self.trained.save(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str | None = None) -> Self:
        """Read a model that `save` or `elmo task fit` wrote.

        Args:
            folder: of the model.
            device: where it computes; a GPU where there is one.
        """
        trained = load_fitted_task(Path(folder), device or default_device())
        if trained.config.task != cls.task:
            raise ConfigError(f"{folder} holds a model for {trained.config.task}, not {cls.task}")
        loaded = cls(**said_of(trained.config))
        loaded._trained = trained
        return loaded


def said_of(config: TaskConfig) -> dict[str, Any]:
    """Give the settings of a config that are not what they are where nothing is said."""
    usual = {leaf.name: leaf.default for leaf in leaves(TaskConfig)}
    own = {leaf.name: leaf.default for leaf in leaves(TaskConfig, base=config)}
    names = own.keys() - OF_FILES - {"out"}
    return {name: own[name] for name in sorted(names) if own[name] != usual[name]}


class Classifier(Estimator):
    """One label for a text: a string or a whole number."""

    task: ClassVar[TaskName] = "classification"

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels as they were given, in the order of `labels`; none before there is a model."""
        if self._trained is None:
            raise AttributeError("classes_")
        if self._trained.label_type == "str":
            return np.array(self.labels)
        return np.array(list(map(int, self.labels))).astype(self._trained.label_type)

    def predict(self, texts: Iterable[Any]) -> NDArray[Any]:
        """Give the likeliest label of each text."""
        numbers = {name: number for number, name in enumerate(self.labels)}
        found = [numbers[answer.label] for answer in self.answers(texts)]
        return self.classes_[np.array(found, dtype=np.intp)]

    def predict_proba(self, texts: Iterable[Any]) -> NDArray[np.float64]:
        """Give the probability of each label, in the order of `labels`: (texts, labels)."""
        labels = self.labels
        rows = [[one.probabilities[name] for name in labels] for one in self.answers(texts)]
        return np.array(rows, dtype=np.float64).reshape(-1, len(labels))

    def _target(self, example: Example, target: Any, number: int) -> Any:
        # Spelt as any other number that is equal to it: 1 of NumPy and of Python.
        return str(int(target)) if _is_number(target) else target

    def _label_type(self, targets: Sequence[Any]) -> LabelType:
        if not all(map(_is_number, targets)):
            return "str"
        return "bool" if all(isinstance(one, bool | np.bool_) for one in targets) else "int"


class SentencePairClassifier(Classifier):
    """One label for two texts; what is asked are pairs of them."""

    task: ClassVar[TaskName] = "sentence_pairs"


class Tagger(Estimator):
    """A tag for each word of a text."""

    task: ClassVar[TaskName] = "tagging"

    def _target(self, example: Example, target: Any, number: int) -> Any:
        if not isinstance(target, Iterable) or isinstance(target, str):
            return target
        tags = tuple(target)
        if len(tags) != len(example.words):
            raise InputError(f"text {number} has {len(example.words)} words, but {len(tags)} tags")
        return tags

    def predict(self, texts: Iterable[Any]) -> list[list[str]]:
        """Give the tags of each text."""
        return [list(answer) for answer in self.answers(texts)]


class QuestionAnswerer(Estimator):
    """A piece of a passage that answers a question; what is asked are pairs of the two.

    A target is the answer, or a list of all that are right; empty where the passage has none. An
    answer is a string, or a string and its first character where it stands there more than once.
    """

    task: ClassVar[TaskName] = "question_answering"

    def predict(self, texts: Iterable[Any]) -> list[str]:
        """Give the answers, empty ones where there are none."""
        return [answer.text for answer in self.answers(texts)]

    def _target(self, example: Example, target: Any, number: int) -> Any:
        if isinstance(target, str):
            target = [target] if target else []
        if not isinstance(target, Iterable):
            return target
        answers = [(one, None) if isinstance(one, str) else tuple(one) for one in target]
        if not answers:
            return GoldAnswers()
        place = example.extra.find_words(*answers[0])
        if place is None:
            raise InputError(f"text {number}: its passage does not hold {answers[0][0]!r}")
        return GoldAnswers(tuple(text for text, _ in answers), place)


class SemanticRoleLabeler(Estimator):
    """Predicates of a sentence and their arguments.

    A target is a list of frames, each the number of its predicate and a tag for each word, V for
    the predicate itself.
    """

    task: ClassVar[TaskName] = "semantic_roles"

    def predict(self, texts: Iterable[Any]) -> list[list[Frame]]:
        """Give the frames of each sentence, of all predicates that are found."""
        return [list(answer.frames) for answer in self.answers(texts)]

    def _with_target(self, example: Example, target: Any, number: int) -> Example:
        try:
            frames = tuple(Frame(predicate, tuple(tags)) for predicate, tags in target)
        except (TypeError, ValueError):
            raise InputError(
                f"text {number} has {target!r} for its frames; expected pairs of the number of a "
                "word and tags"
            ) from None
        given = tuple(frame.predicate for frame in frames)
        return replace(example, target=frames, extra=given)


class CoreferenceResolver(Estimator):
    """Clusters of the mentions of a document.

    A document is a string, a list of words or a list of sentences. A target is a list of clusters,
    each a list of mentions; a mention is its first word and the word after its last, counted over
    the whole document.
    """

    task: ClassVar[TaskName] = "coreference"

    def predict(self, texts: Iterable[Any]) -> list[list[list[IndexRange]]]:
        """Give the clusters of each document."""
        return [[list(cluster) for cluster in answer] for answer in self.answers(texts)]

    def _target(self, example: Example, target: Any, number: int) -> Any:
        try:
            return tuple(sorted(tuple(sorted((a, b) for a, b in one)) for one in target))
        except (TypeError, ValueError):
            raise InputError(
                f"text {number} has {target!r} for its clusters; expected lists of pairs of the "
                "numbers of words"
            ) from None


def _listed(texts: Iterable[Any]) -> list[Any]:
    """Take several texts; one alone would be read letter by letter."""
    if isinstance(texts, str):
        raise InputError(f"expected a list of texts, not one text alone: {texts!r:.60}")
    return list(texts)


def _is_text(given: Any) -> bool:
    """Tell whether something is a string, or words, or sentences of words."""
    return isinstance(given, str) or (
        isinstance(given, Sequence | np.ndarray) and all(map(_is_text, given))
    )


def _is_number(label: Any) -> bool:
    return isinstance(label, Integral | np.bool_)


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))
