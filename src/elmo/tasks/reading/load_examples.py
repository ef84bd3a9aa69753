"""Loads the examples named in a config: reading, development split, subsampling."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from elmo.config import ExamplesConfig
from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError, InputError
from elmo.tasks.core.example import Example
from elmo.tasks.files.text_lines import read_text
from elmo.tasks.reading.readers import detect_reader, read
from elmo.tasks.registry.reader_row import ReaderRow
from elmo.tasks.registry.task_rows import AUTO, all_readers, imported, reader_row, task_row
from elmo.text.line_splitter import SplitFunction

# Seed for splitting off the development set; it does not depend on the seed of the run.
DEV_SEED = 0
# With fewer examples, the selection of the best model would be noise.
MIN_DEV_EXAMPLES = 200


def read_examples(
    config: ExamplesConfig,
    path: str,
    split: SplitFunction,
    *,
    task: str | None = None,
    is_training: bool = False,
) -> list[Example[object]]:
    """Read the examples in a file.

    Args:
        config: File format options.
        path: Path of the file.
        split: Splits raw text into words.
        task: The task, which decides on the format and the default columns.
        is_training: Whether this is the training set. Only the training set can include phrases.
    """
    reader = _choose_reader(config, Path(path), task)
    row = reader_row(reader, task)
    # A model can be evaluated on files in another format, to which these options do not apply.
    if is_training:
        _check_options(config, path, reader, row)
    values = {"empty": config.empty, "phrases": config.phrases and is_training}
    options: dict[str, object] = {name: values[name] for name in row.options}
    text, label = _column_names(config.text_column), config.label_column
    if row.names is not None and task is not None and None in (text, label):
        names = _names_in(Path(path), row, config.encoding)
        text, label = text or default_columns(task, names)[0], label or _label_column(row, names)
    if row.text is not None and text is not None:
        options[row.text] = text
    if row.label is not None and label is not None:
        options[row.label] = label
    return read(path, reader, split=split, encoding=config.encoding, **options)


def _choose_reader(config: ExamplesConfig, path: Path, task: str | None) -> str:
    if config.reader != AUTO:
        return config.reader
    reader = detect_reader(path, config.encoding, task)
    named = reader_row(reader, task).named
    if named is None or task is None:
        return reader
    return named if _has_named_columns(config, path, reader_row(named, task), task) else reader


def _has_named_columns(config: ExamplesConfig, path: Path, row: ReaderRow, task: str) -> bool:
    """Whether a file is a table with named columns of texts and labels."""
    if Path(plain_name(path.name)).suffix.lower() not in (".csv", ".tsv"):
        return False
    label = config.label_column
    if config.text_column is not None or (label is not None and not label.isdecimal()):
        return True
    names = _names_in(path, row, config.encoding)
    return default_columns(task, names)[0] in names and _label_column(row, names) in names


def _names_in(path: Path, row: ReaderRow, encoding: str | None) -> list[str]:
    """Return the columns or fields of a file."""
    assert row.names is not None
    names = imported(row.names)(path, read_text(path, encoding))
    assert isinstance(names, list)
    return names


def _label_column(row: ReaderRow, names: Collection[str]) -> str:
    """Return the label column, if none is given."""
    return next((name for name in row.labels if name in names), row.labels[0])


def default_columns(task: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the text columns of a task.

    Args:
        task: Name of the task.
        names: Columns of the table or fields of the records; empty for plain text.
    """
    choices = task_row(task).text_columns
    return next((columns for columns in choices if set(columns) <= set(names)), choices[0])


def _column_names(text: str | None) -> str | tuple[str, ...] | None:
    """Return the name of the text column, or the names of several."""
    return text if text is None or "," not in text else column_list(text)


def column_list(text: str) -> tuple[str, ...]:
    """Return the names of the text columns, which are separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def _check_options(config: ExamplesConfig, path: str, reader: str, row: ReaderRow) -> None:
    """Raise an error if an option is set that the reader does not have."""
    for flag, column, name in (
        ("--text-column", config.text_column, "text"),
        ("--label-column", config.label_column, "label"),
    ):
        if column is not None and getattr(row, name) is None:
            others = [other for other, each in all_readers().items() if getattr(each, name)]
            raise ConfigError(
                f"{flag} selects a column, but the reader {reader} has no selectable columns. "
                f"Remove {flag}, or use another --reader: {', '.join(others)}."
            )
    if config.phrases and "phrases" not in row.options:
        others = [other for other, each in all_readers().items() if "phrases" in each.options]
        raise ConfigError(
            f"{path}: --phrases is only supported for the tree readers {' and '.join(others)}, but "
            f"the reader is {reader}. Remove --phrases."
        )


def training_examples(
    config: ExamplesConfig, split: SplitFunction, seed: int, task: str | None = None
) -> tuple[list[Example[object]], list[Example[object]]]:
    """Read the training set and the development set.

    Args:
        config: File paths and format options.
        split: Splits raw text into words.
        seed: Random seed for subsampling, if `fraction` is set.
        task: The task, which decides on the format and the default columns.
    """
    if config.train is None:
        raise ConfigError("There are no training examples. Set the training file with --train.")
    train = read_examples(config, config.train, split, task=task, is_training=True)
    if config.dev is not None:
        dev = read_examples(config, config.dev, split, task=task)
    elif config.phrases:
        # Phrases of the development sentences must not be in the training set.
        _, dev = split_off_dev(
            read_examples(config, config.train, split, task=task), config.dev_share
        )
        dev_ids = {example.id for example in dev}
        train = [example for example in train if example.id not in dev_ids]
    else:
        train, dev = split_off_dev(train, config.dev_share)
    if config.dev is None:
        dev = subsample_dev(dev, config)
    return subsample(train, config.fraction, seed), dev


def indexed_examples(
    config: ExamplesConfig, split: SplitFunction, seed: int, task: str
) -> list[Example[object]]:
    """Read the examples of a lookup task; the arguments are those of `training_examples`."""
    if config.train is None:
        raise ConfigError("There are no examples for the index. Set a file with --train.")
    train = read_examples(config, config.train, split, task=task, is_training=True)
    return subsample(train, config.fraction, seed)


def split_off_dev(
    examples: Sequence[Example[object]], share: float
) -> tuple[list[Example[object]], list[Example[object]]]:
    """Split examples into a training set and a development set; the split is deterministic.

    A development set without any span could not select a model: all would have the F1 score 0. An
    example with a span then takes the place of the last one.
    """
    order = np.random.default_rng(DEV_SEED).permutation(len(examples)).tolist()
    n_dev = max(1, round(share * len(examples)))
    with_spans = (number for number in order if _has_annotation(examples[number]))
    first = next(with_spans, None)
    if first is not None and order.index(first) >= n_dev:
        order.insert(n_dev - 1, first)
    dev = set(order[:n_dev])
    train = [example for index, example in enumerate(examples) if index not in dev]
    if not train:
        raise InputError(
            f"Too few examples ({len(examples)}) to split off a development set. Provide one "
            "(--dev, or dev= in Python)."
        )
    return train, [example for index, example in enumerate(examples) if index in dev]


def _has_annotation(example: Example[object]) -> bool:
    """Whether an example has a label, or a tag other than O, a frame or a cluster."""
    target = example.target
    return not isinstance(target, tuple) or any(item != "O" for item in target)


def subsample_dev(dev: Sequence[Example[object]], config: ExamplesConfig) -> list[Example[object]]:
    """Return the part of a split-off development set that is used, the same for all seeds."""
    if config.keep_steps:
        return list(dev)
    share = max(config.fraction, min(1.0, MIN_DEV_EXAMPLES / len(dev)))
    return subsample(dev, share, DEV_SEED)


def subsample(
    examples: Sequence[Example[object]], fraction: float, seed: int
) -> list[Example[object]]:
    """Return a random fraction of the examples, in their original order."""
    if fraction == 1:
        return list(examples)
    n = max(1, round(fraction * len(examples)))
    chosen = np.random.default_rng([seed, 1]).permutation(len(examples))[:n]
    return [examples[index] for index in sorted(chosen.tolist())]
