"""A task model of the server."""

from collections.abc import Sequence
from pathlib import Path

from elmo.tasks.core.example import Example
from elmo.tasks.core.task import Record, Text
from elmo.tasks.fitted.build import splitter, task_tokenizer
from elmo.tasks.fitted.load_fitted import Fitted, load_fitted_task
from elmo.tasks.prediction.predict import kept_examples
from elmo.text.tokenizer import WhitespaceTokenizer


class LoadedTask:
    """A fitted task that the server uses under a name."""

    def __init__(self, name: str, fitted: Fitted) -> None:
        """Keep the task and its tokenizer, which is loaded on first use."""
        self.name, self.fitted = name, fitted
        self._split = splitter(fitted.config, fitted.elmo, pretokenized=False)

    @classmethod
    def load(cls, name: str, folder: str, device: str | None = None) -> "LoadedTask":
        """Load a task model from its folder."""
        return cls(name, load_fitted_task(Path(folder), device))

    @property
    def task_name(self) -> str:
        """Name of the supervised task, such as classification."""
        return self.fitted.config.task

    @property
    def tokenizer(self) -> str:
        """Name of the tokenizer."""
        name = task_tokenizer(self.fitted.config, self.fitted.elmo)
        return name or WhitespaceTokenizer.name

    @property
    def n_inputs(self) -> int:
        """Number of texts of an example."""
        return self.fitted.task.n_inputs

    @property
    def is_document(self) -> bool:
        """Whether an example is a document, whose sentences can be given as lists of words."""
        return self.fitted.task.n_texts is None

    def make_example(self, texts: Sequence[Text]) -> Example[object]:
        """Return an example; texts that are strings are split by the tokenizer of the task."""
        return self.fitted.task.make_example(texts, self._split)

    def predict(self, examples: Sequence[Example[object]]) -> list[Record]:
        """Return the answer for each example as JSON data."""
        answers = self.fitted.predict(kept_examples(self.fitted, examples))
        return [
            self.fitted.task.to_record(example, answer)
            for example, answer in zip(examples, answers, strict=True)
        ]
