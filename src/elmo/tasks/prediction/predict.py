"""Implements `elmo task predict` and `elmo task evaluate`."""

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from elmo.config import TaskEvaluateConfig, TaskPredictConfig
from elmo.errors import ConfigError, FormatError, InputError, OutputError
from elmo.files import atomic_path
from elmo.kernels.device import default_device
from elmo.progress import format_count
from elmo.tasks.classification.classification_task import Classification
from elmo.tasks.core.example import Example
from elmo.tasks.core.label_report import LabelReport
from elmo.tasks.files.raw_text import with_placeholder
from elmo.tasks.files.text_lines import first_lines
from elmo.tasks.fitted.build import splitter, task_tokenizer
from elmo.tasks.fitted.load_fitted import Fitted, load_fitted_task
from elmo.tasks.fitted.trained_model import TrainedModel
from elmo.tasks.prediction.prediction_output import PredictionOutput
from elmo.tasks.prediction.prediction_tables import InputRow, conll_examples, input_table
from elmo.tasks.reading.load_examples import read_examples
from elmo.tasks.registry.task_rows import task_row
from elmo.tasks.tagging.column_files import has_columns
from elmo.text.input_lines import STDIN, decoded_lines, label_of, opened_input
from elmo.text.line_splitter import TextCheck

logger = logging.getLogger(__name__)

RowExample = tuple[InputRow, Example[object]]
# Maximum number of texts and words per prediction batch, which bounds memory for inputs of any
# length. A longer text is predicted alone.
MAX_TEXTS = 1024
MAX_WORDS = 2**17
FIT_REMEDY = "Set --tokenizer in elmo task fit"


@dataclass(frozen=True)
class TaskEvaluateResult:
    """Scores of a model on a file; the report is None if the task has no labels."""

    scores: dict[str, float]
    n_examples: int
    report: LabelReport | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the result as a JSON-serializable dictionary."""
        report = {} if self.report is None else self.report.to_dict()
        return {**self.scores, "examples": self.n_examples, **report}

    def __str__(self) -> str:
        lines = [f"{name.replace('_', ' '):<16}{value:.4f}" for name, value in self.scores.items()]
        lines.append(f"{'examples':<16}{self.n_examples:,}")
        if self.report is not None:
            lines += ["", str(self.report)]
        return "\n".join(lines)


@dataclass(frozen=True)
class TaskPredictResult:
    """Result of `elmo task predict`; `n_empty` rows have a text without words."""

    n_texts: int
    out: str
    n_empty: int = 0

    def __str__(self) -> str:
        """Return a summary; an empty string if the predictions were written to standard output."""
        if self.out == "-":
            return ""
        empty = f", {self.n_empty:,} of them without words" if self.n_empty else ""
        return f"{self.out}: predictions for {format_count(self.n_texts, 'text')}{empty}"


def evaluate(config: TaskEvaluateConfig) -> TaskEvaluateResult:
    """Score a model on a file in the format of its training data."""
    fitted = load_fitted_task(config.model, config.device or default_device())
    split = splitter(fitted.config, fitted.elmo)
    examples_config = fitted.config.examples
    changes = {
        name: value
        for name in ("reader", "text_column", "label_column", "empty")
        if (value := getattr(config, name)) is not None
    }
    # The encoding belongs to the file, not to the model.
    examples_config = replace(examples_config, encoding=config.encoding, **changes)
    examples = read_examples(examples_config, config.input, split, task=fitted.config.task)
    fitted.show_progress = True
    scores, report = fitted.scores_and_report(examples)
    return TaskEvaluateResult(scores, len(examples), report)


def predict(config: TaskPredictConfig) -> TaskPredictResult:
    """Write a prediction for each row of the input file, in order."""
    fitted = load_fitted_task(config.model, config.device or default_device())
    output = PredictionOutput(config, fitted.config.task)
    if config.out != "-" and os.path.realpath(config.out) == os.path.realpath(config.input):
        raise ConfigError(f"The output file {config.out} would overwrite the input file.")
    n_texts = n_empty = 0
    with opened_input(config.input) as file, _opened_output(config.out) as out:
        table = None
        pairs: Iterable[RowExample] | None = conll_examples(config, fitted.config, _labels(fitted))
        if pairs is None:
            table = input_table(config, fitted.config)
            lines = decoded_lines(file, config.input, config.encoding)
            rows = table.rows if table else _rows(lines, config.input, fitted.task.n_inputs)
            pairs = _examples(fitted, rows, config, has_check=not _may_be_conll(config, fitted))
        out.write(output.header(table.columns if table else None))
        for batch in _batches(pairs):
            examples = [example for _, example in batch]
            predictions = fitted.predict(kept_examples(fitted, examples))
            n_texts += len(batch)
            n_empty += sum(not all(example.texts) for example in examples)
            for (row, example), prediction in zip(batch, predictions, strict=True):
                out.write(output.format(row, fitted.task.to_record(example, prediction)))
            out.flush()
    has_tags = task_row(fitted.config.task).has_word_tags
    if n_empty and (config.out == "-" or has_tags):
        _warn_about_empty(n_texts, n_empty, has_tags)
    return TaskPredictResult(n_texts, config.out, n_empty)


def _may_be_conll(config: TaskPredictConfig, fitted: Fitted) -> bool:
    """Whether the lines of a file can be words: then advice about tokenized text would be wrong."""
    is_file = task_row(fitted.config.task).has_word_tags and config.input != STDIN
    return is_file and has_columns(first_lines(config.input, config.encoding))


def _labels(fitted: Fitted) -> Sequence[str]:
    return fitted.labels if isinstance(fitted, TrainedModel) else ()


def _warn_about_empty(n_texts: int, n_empty: int, has_tags: bool) -> None:
    advice = ""
    if has_tags:
        advice = " If the file has one word per line, its name must end in .conll."
    logger.warning(
        "%s of %s texts without words: their predictions are empty.%s",
        f"{n_empty:,}",
        f"{n_texts:,}",
        advice,
    )


def kept_examples(fitted: Fitted, examples: Sequence[Example[object]]) -> Sequence[Example[object]]:
    """Replace texts without words by a placeholder if the labels of such texts were trained."""
    is_kept = fitted.config.examples.empty == "keep" and isinstance(fitted.task, Classification)
    return [with_placeholder(example) for example in examples] if is_kept else examples


def _rows(lines: Iterable[str], name: str, n_texts: int) -> Iterator[InputRow]:
    """Yield the lines of plain text, split only at newlines; tabs separate `n_texts` texts."""
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\n").removesuffix("\r")
        location = f"{label_of(name)}, line {number}"
        texts = line.split("\t") if n_texts > 1 else [line]
        if not line.strip():
            texts = [""] * n_texts
        if len(texts) != n_texts:
            raise InputError(
                f"{location} has {len(texts)} texts separated by tabs (expected {n_texts})."
            )
        yield InputRow(location, tuple(texts))


def _examples(
    fitted: Fitted, rows: Iterable[InputRow], config: TaskPredictConfig, *, has_check: bool
) -> Iterator[RowExample]:
    """Yield each row and its example; `has_check` warns if texts look raw or tokenized."""
    pretokenized = config.pretokenized
    split = splitter(fitted.config, fitted.elmo, pretokenized=pretokenized)
    tokenizer = task_tokenizer(fitted.config, fitted.elmo)
    check = TextCheck(tokenizer, pretokenized=pretokenized, remedy=FIT_REMEDY)
    for number, row in enumerate(rows, start=1):
        for text in row.texts:
            if has_check and isinstance(text, str):
                check.add(text)
        try:
            example = fitted.task.make_example(row.texts, split)
        except (InputError, FormatError) as error:
            if any(map(_has_words, row.texts)):
                raise InputError(f"{row.location}: {error}") from None
            example = Example(((),))
        yield row, replace(example, id=str(number))
    check.finish()


def _has_words(text: str | Sequence[str]) -> bool:
    return bool(text.strip() if isinstance(text, str) else text)


def _batches(pairs: Iterable[RowExample]) -> Iterator[Sequence[RowExample]]:
    """Yield batches of rows and examples; if one is invalid, first yield those before it."""
    batch: list[RowExample] = []
    n_words = 0
    try:
        for row, example in pairs:
            batch.append((row, example))
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
