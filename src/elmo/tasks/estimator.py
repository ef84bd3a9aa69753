"""Tasks in Python, with the verbs of scikit-learn: `Classifier` and `Tagger`."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from elmo.config import TaskConfig, TaskKind
from elmo.errors import ConfigError, InputError
from elmo.kernels.device import default_device
from elmo.plain import leaves, load_config
from elmo.tasks.build import load_elmo, splitter
from elmo.tasks.data import held_out
from elmo.tasks.examples import Example
from elmo.tasks.fit import prepare
from elmo.tasks.kinds import check_targets
from elmo.tasks.readers.words import Split
from elmo.tasks.trained import Trained, load_trained
from elmo.tasks.work import TaskJob
from elmo.train.folder import MODEL
from elmo.train.loop import train

Text = str | Sequence[str]


class Estimator:
    """What all tasks have in common: a model that is fitted, asked, measured and kept."""

    task: ClassVar[TaskKind]

    def __init__(self, *, out: str | Path | None = None, **settings: Any) -> None:
        """Say how the model is to be made.

        Args:
            out: training folder, in which a run goes on that was interrupted; a temporary one
                where None.
            settings: any field of `TaskConfig` at any depth, such as model="small-ko", epochs=5,
                seed=1 or batch_size=64.
        """
        known = {leaf.name for leaf in leaves(TaskConfig)} - {"out", "task", "seeds"}
        if unknown := settings.keys() - known:
            raise ConfigError(
                f"unknown setting {', '.join(sorted(unknown))}; known: {_list(known)}"
            )
        self.out = None if out is None else Path(out)
        self.settings = settings
        self._trained: Trained | None = None

    @property
    def trained(self) -> Trained:
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
        texts: Iterable[Text],
        targets: Iterable[Any],
        dev: tuple[Iterable[Text], Iterable[Any]] | None = None,
    ) -> Self:
        """Train a model; the one that does best on the development part is kept.

        Args:
            texts: strings, which the model's tokeniser splits, or lists of words.
            targets: a label for each text, or a tag for each of its words.
            dev: texts and targets to choose by; a tenth of the others where None.
        """
        with tempfile.TemporaryDirectory() as temporary:
            out = str(self.out or temporary)
            given = {**self.settings, "out": out, "task": self.task}
            config = load_config(TaskConfig, None, given)
            elmo = load_elmo(config)
            split = splitter(config, elmo)
            examples = self._examples(texts, targets, split)
            if dev is None:
                examples, chosen_by = held_out(examples, config.examples.dev_share)
            else:
                chosen_by = self._examples(*dev, split)
            train(TaskJob(prepare(config, elmo, examples, chosen_by), examples, chosen_by))
            self._trained = load_trained(Path(out) / MODEL, default_device())
        return self

    def answers(self, texts: Iterable[Text]) -> list[Any]:
        """Give for each text all that the model says of it."""
        trained = self.trained
        split = splitter(trained.config, trained.built.elmo)
        return trained.answers([_words(text, split, at) for at, text in enumerate(texts)])

    def evaluate(self, texts: Iterable[Text], targets: Iterable[Any]) -> dict[str, float]:
        """Score the answers for texts, by the names of the scores."""
        trained = self.trained
        split = splitter(trained.config, trained.built.elmo)
        return trained.scores(self._examples(texts, targets, split))

    def _examples(
        self, texts: Iterable[Text], targets: Iterable[Any], split: Split
    ) -> list[Example]:
        """Put texts and targets together; what does not fit is refused with its number."""
        texts, targets = list(texts), list(targets)
        if len(texts) != len(targets):
            raise InputError(f"{len(texts)} texts, but {len(targets)} targets")
        examples = []
        for number, (text, target) in enumerate(zip(texts, targets, strict=True)):
            words = _words(text, split, number)
            if self.task == "tagging" and _is_list(target):
                target = tuple(target)
                if len(target) != len(words):
                    raise InputError(
                        f"text {number} has {len(words)} words, but {len(target)} tags"
                    )
            examples.append(Example((words,), target, str(number)))
        if not examples:
            raise InputError("there are no texts")
        check_targets(self.task, examples)
        return examples

    def score(self, texts: Iterable[Text], targets: Iterable[Any]) -> float:
        """Give the score that models are chosen by."""
        return self.evaluate(texts, targets)[self.trained.kind.measure]

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
        trained = load_trained(Path(folder), device or default_device())
        if trained.config.task != cls.task:
            raise ConfigError(f"{folder} holds a model for {trained.config.task}, not {cls.task}")
        loaded = cls()
        loaded._trained = trained
        return loaded


class Classifier(Estimator):
    """One label for a text."""

    task: ClassVar[TaskKind] = "classification"

    def predict(self, texts: Iterable[Text]) -> list[str]:
        """Give the likeliest label of each text."""
        return [answer.label for answer in self.answers(texts)]

    def predict_proba(self, texts: Iterable[Text]) -> list[list[float]]:
        """Give the probability of each label, in the order of `labels`, for each text."""
        return [
            [answer.probabilities[name] for name in self.labels] for answer in self.answers(texts)
        ]


class Tagger(Estimator):
    """A tag for each word of a text."""

    task: ClassVar[TaskKind] = "tagging"

    def predict(self, texts: Iterable[Text]) -> list[list[str]]:
        """Give the tags of each text."""
        return [list(answer) for answer in self.answers(texts)]


def _words(text: Text, split: Split, number: int) -> tuple[str, ...]:
    words = tuple(split(text) if isinstance(text, str) else text)
    if not words:
        raise InputError(f"text {number} has no word")
    return words


def _is_list(target: Any) -> bool:
    return isinstance(target, Iterable) and not isinstance(target, str)


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))
