"""A trained model at work: answers for texts, and scores on examples."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from elmo.config import TaskEvaluateConfig, TaskPredictConfig
from elmo.errors import ConfigError, FormatError, InputError, OutputError
from elmo.files import atomic_path
from elmo.kernels.device import default_device
from elmo.tasks.build import splitter
from elmo.tasks.examples import Example
from elmo.tasks.fitted_task import FittedTask
from elmo.tasks.load_examples import read_examples
from elmo.tasks.lookup_model import LookupIndex, LookupModel, load_task
from elmo.tasks.task_types.task import Task
from elmo.text.input_lines import decoded_line, label_of, opened_input

# Texts that are answered together, and their words, where no text has more by itself: a stream of
# any length fits.
TOGETHER = 1024
WORDS_TOGETHER = 2**17


@dataclass(frozen=True)
class TaskFigures:
    """Scores of a model on a file."""

    figures: dict[str, float]
    n_examples: int

    def to_dict(self) -> dict[str, float]:
        """Return the scores and the number of examples as plain data."""
        return {**self.figures, "examples": self.n_examples}

    def __str__(self) -> str:
        """Return one line per score."""
        lines = [f"{name.replace('_', ' '):<16}{value:.4f}" for name, value in self.figures.items()]
        return "\n".join([*lines, f"{'examples':<16}{self.n_examples:,}"])


@dataclass(frozen=True)
class Answered:
    """How many texts were answered, told where the answers are not on standard output."""

    n_texts: int
    out: str

    def __str__(self) -> str:
        """Say it."""
        return "" if self.out == "-" else f"{self.out}: {self.n_texts:,} texts answered"


def evaluate(config: TaskEvaluateConfig) -> TaskFigures:
    """Measure a model on a file like those it was trained on."""
    trained = load_task(Path(config.model), config.device or default_device())
    split = splitter(trained.config, trained.elmo)
    described = trained.config.examples
    if config.reader is not None:
        described = replace(described, reader=config.reader)
    examples = read_examples(described, config.input, split)
    return TaskFigures(trained.scores(examples), len(examples))


def predict(config: TaskPredictConfig) -> Answered:
    """Answer for each line of a file, in its order."""
    trained = load_task(Path(config.model), config.device or default_device())
    is_conll = config.to == "conll" or (config.to == "auto" and _says_conll(config.out))
    if is_conll and trained.config.task != "tagging":
        raise ConfigError(
            f"{config.model} is a model for {trained.config.task}, and columns are a tag for each "
            "word, which models for tagging alone give: write JSON lines (--to jsonl)"
        )
    if config.out != "-" and os.path.realpath(config.out) == os.path.realpath(config.input):
        raise ConfigError(f"{config.out} would be written over the texts it answers")
    n_texts = 0
    with opened_input(config.input) as file, _writing(config.out) as out:
        lines = _lines(file, config.input)
        raw = trained.raw if config.raw is None else config.raw
        for part in _parts(_texts(trained, lines, config.input, raw=raw)):
            n_texts += len(part)
            for example, answer in zip(part, trained.answers(part), strict=True):
                out.write(_written(trained, example, answer, is_conll=is_conll))
            out.flush()
    return Answered(n_texts, config.out)


def _says_conll(output: str) -> bool:
    return Path(output).suffix in (".conll", ".iob", ".bio")


def _texts(
    trained: FittedTask | LookupModel, lines: Iterable[str], name: str, *, raw: bool
) -> Iterator[Example]:
    split = splitter(trained.config, trained.elmo) if raw else str.split
    kind = trained.kind
    for number, line in enumerate(lines, start=1):
        texts = line.split("\t") if kind.n_texts > 1 else [line]
        if len(texts) != kind.n_texts:
            raise InputError(
                f"{label_of(name)}, line {number} holds {len(texts)} texts with tabs between them, "
                f"expected {kind.n_texts}"
            )
        try:
            example = kind.asked(texts, split)
        except (InputError, FormatError) as error:
            raise InputError(f"{label_of(name)}, line {number}: {error}") from None
        if not all(example.texts):
            raise InputError(
                f"{label_of(name)}, line {number} holds {_no_word(kind)}: remove it, so that lines "
                "and answers fit"
            )
        yield replace(example, id=str(number))


def _no_word(kind: Task | LookupIndex) -> str:
    return "no word" if kind.n_texts == 1 else "a text without a word"


def _parts(examples: Iterator[Example]) -> Iterator[Sequence[Example]]:
    """Gather examples; those before one that is refused are answered too."""
    part: list[Example] = []
    n_words = 0
    try:
        for example in examples:
            part.append(example)
            n_words += sum(map(len, example.texts))
            if len(part) == TOGETHER or n_words >= WORDS_TOGETHER:
                yield part
                part, n_words = [], 0
    except InputError:
        if part:
            yield part
        raise
    if part:
        yield part


def _written(
    trained: FittedTask | LookupModel, example: Example, answer: object, *, is_conll: bool
) -> str:
    record = trained.kind.record(example, answer)
    if not is_conll:
        return json.dumps(record, ensure_ascii=False) + "\n"
    pairs = zip(record["words"], record["tags"], strict=True)
    return "".join(f"{word}\t{tag}\n" for word, tag in pairs) + "\n"


def _lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Read lines, broken at newlines only."""
    for number, data in enumerate(file, start=1):
        yield decoded_line(data, name, number)


@contextmanager
def _writing(path: str) -> Iterator[TextIO]:
    if path == "-":
        yield sys.stdout
        return
    try:
        with atomic_path(Path(path)) as partial, partial.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None
