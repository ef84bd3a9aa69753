"""Implements `elmo task predict` and `elmo task evaluate`."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from elmo.config import TaskEvaluateConfig, TaskPredictConfig
from elmo.errors import ConfigError, FormatError, InputError, OutputError
from elmo.files import atomic_path
from elmo.kernels.device import default_device
from elmo.progress import format_count
from elmo.tasks.build import splitter, task_tokenizer
from elmo.tasks.examples import Example
from elmo.tasks.fitted_task import FittedTask
from elmo.tasks.load_examples import read_examples
from elmo.tasks.lookup_model import LookupIndex, LookupModel, load_task
from elmo.tasks.prediction_tables import CONLL_SUFFIXES, conll_examples, table_lines
from elmo.tasks.scores.label_report import LabelReport
from elmo.tasks.task_types.task import Task
from elmo.text.input_lines import decoded_line, label_of, opened_input
from elmo.text.line_splitter import TextCheck

# Maximum number of texts and words per prediction batch, which bounds memory for inputs of any
# length. A longer text is predicted alone.
MAX_TEXTS = 1024
MAX_WORDS = 2**17
FIT_REMEDY = "Set --tokenizer in elmo task fit"


@dataclass(frozen=True)
class TaskEvaluateResult:
    """Scores of a model on a file.

    Attributes:
        scores: Scores by name.
        n_examples: Number of examples.
        report: Scores by label and confusion matrix; None if the task has no labels.
    """

    scores: dict[str, float]
    n_examples: int
    report: LabelReport | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON-serializable dictionary."""
        report = {} if self.report is None else self.report.to_dict()
        return {**self.scores, "examples": self.n_examples, **report}

    def __str__(self) -> str:
        """Return one line per score, followed by the report."""
        lines = [f"{name.replace('_', ' '):<16}{value:.4f}" for name, value in self.scores.items()]
        lines.append(f"{'examples':<16}{self.n_examples:,}")
        if self.report is not None:
            lines += ["", str(self.report)]
        return "\n".join(lines)


@dataclass(frozen=True)
class TaskPredictResult:
    """Result of `elmo task predict`.

    Attributes:
        n_texts: Number of texts.
        out: Output file; "-" is standard output.
    """

    n_texts: int
    out: str

    def __str__(self) -> str:
        """Return a summary; an empty string if the predictions were written to standard output."""
        if self.out == "-":
            return ""
        return f"{self.out}: predictions for {format_count(self.n_texts, 'text')}"


def evaluate(config: TaskEvaluateConfig) -> TaskEvaluateResult:
    """Score a model on a file in the format of its training data."""
    fitted = load_task(Path(config.model), config.device or default_device())
    split = splitter(fitted.config, fitted.elmo)
    examples_config = fitted.config.examples
    changes = {
        name: value
        for name in ("reader", "text_column", "label_column")
        if (value := getattr(config, name)) is not None
    }
    examples_config = replace(examples_config, **changes)
    examples = read_examples(examples_config, config.input, split, task=fitted.config.task)
    if isinstance(fitted, FittedTask):
        fitted.show_progress = True
    scores, report = fitted.scores_and_report(examples)
    return TaskEvaluateResult(scores, len(examples), report)


def predict(config: TaskPredictConfig) -> TaskPredictResult:
    """Write a prediction for each line of the input file, in order."""
    fitted = load_task(Path(config.model), config.device or default_device())
    is_conll = config.to == "conll" or (config.to == "auto" and _has_conll_suffix(config.out))
    if is_conll and fitted.config.task != "tagging":
        raise ConfigError(
            f"{config.model} is a model for {fitted.config.task}. CoNLL output is only supported "
            "for tagging. Use --to jsonl."
        )
    if config.out != "-" and os.path.realpath(config.out) == os.path.realpath(config.input):
        raise ConfigError(f"The output file {config.out} would overwrite the input file.")
    n_texts = 0
    with opened_input(config.input) as file, _opened_output(config.out) as out:
        examples: Iterable[Example] | None = conll_examples(config, fitted.config)
        if examples is None:
            lines = table_lines(config, fitted.config) or _lines(file, config.input)
            examples = _examples(fitted, lines, config)
        for batch in _batches(examples):
            n_texts += len(batch)
            for example, prediction in zip(batch, fitted.predict(batch), strict=True):
                out.write(_format(fitted, example, prediction, is_conll=is_conll))
            out.flush()
    return TaskPredictResult(n_texts, config.out)


def _has_conll_suffix(path: str) -> bool:
    return Path(path).suffix in CONLL_SUFFIXES


def _examples(
    fitted: FittedTask | LookupModel, lines: Iterable[str], config: TaskPredictConfig
) -> Iterator[Example]:
    """Yield an example for each line.

    Args:
        fitted: The model.
        lines: Input lines. If the task has several texts per example, they are separated by tabs.
        config: Options of the command.
    """
    name, pretokenized = config.input, config.pretokenized
    split = splitter(fitted.config, fitted.elmo, pretokenized=pretokenized)
    tokenizer = task_tokenizer(fitted.config, fitted.elmo)
    check = TextCheck(tokenizer, pretokenized=pretokenized, remedy=FIT_REMEDY)
    task = fitted.task
    for number, line in enumerate(lines, start=1):
        check.add(line)
        texts = line.split("\t") if task.n_texts > 1 else [line]
        if len(texts) != task.n_texts:
            raise InputError(
                f"{label_of(name)}, line {number} has {len(texts)} texts separated by tabs "
                f"(expected {task.n_texts})."
            )
        try:
            example = task.make_example(texts, split)
        except (InputError, FormatError) as error:
            raise InputError(f"{label_of(name)}, line {number}: {error}") from None
        if not all(example.texts):
            raise InputError(
                f"{label_of(name)}, line {number} {_empty_problem(task)}. Remove the line; there "
                f"is exactly one prediction per line.{_conll_advice(fitted)}"
            )
        yield replace(example, id=str(number))
    check.finish()


def _empty_problem(task: Task | LookupIndex) -> str:
    return "has no words" if task.n_texts == 1 else "has a text without words"


def _conll_advice(fitted: FittedTask | LookupModel) -> str:
    if fitted.config.task != "tagging":
        return ""
    return " A file of words in columns needs the extension .conll."


def _batches(examples: Iterable[Example]) -> Iterator[Sequence[Example]]:
    """Yield batches of examples; if an example is invalid, first yield those before it."""
    batch: list[Example] = []
    n_words = 0
    try:
        for example in examples:
            batch.append(example)
            n_words += sum(map(len, example.texts))
            if len(batch) == MAX_TEXTS or n_words >= MAX_WORDS:
                yield batch
                batch, n_words = [], 0
    except InputError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _format(
    fitted: FittedTask | LookupModel, example: Example, prediction: object, *, is_conll: bool
) -> str:
    """Format a prediction as a JSON line or as CoNLL columns."""
    record = fitted.task.to_record(example, prediction)
    if not is_conll:
        return json.dumps(record, ensure_ascii=False) + "\n"
    pairs = zip(record["words"], record["tags"], strict=True)
    return "".join(f"{word}\t{tag}\n" for word, tag in pairs) + "\n"


def _lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of a file, split only at newline characters."""
    for number, data in enumerate(file, start=1):
        yield decoded_line(data, name, number)


@contextmanager
def _opened_output(path: str) -> Iterator[TextIO]:
    if path == "-":
        yield sys.stdout
        return
    try:
        with atomic_path(Path(path)) as partial, partial.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise OutputError(f"Cannot write {path}: {error.strerror}.") from None
