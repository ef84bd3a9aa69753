"""Loads the examples named in a config: reading, development split, subsampling."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from elmo.config import ExamplesConfig
from elmo.corpus.compressed_files import plain_name
from elmo.errors import ConfigError, InputError
from elmo.tasks.core.example import Example
from elmo.tasks.files.delimited_tables import column_names
from elmo.tasks.files.json_records import field_names
from elmo.tasks.files.text_lines import read_text
from elmo.tasks.reading.readers import detect_reader, read
from elmo.tasks.registry.task_rows import task_row
from elmo.text.line_splitter import SplitFunction

# Seed for splitting off the development set; it does not depend on the seed of the run.
DEV_SEED = 0
# With fewer examples, the selection of the best model would be noise.
MIN_DEV_EXAMPLES = 200
# Readers that support --text-column, and readers that support --label-column.
TEXT_COLUMN_READERS = ("table", "jsonl", "sentence_pairs", "squad", "tag_table")
LABEL_COLUMN_READERS = (*TEXT_COLUMN_READERS, "conll", "conllu")
# Fields of tags in JSON records, if none is given.
TAG_FIELDS = ("tags", "labels", "ner_tags", "label")


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
    # A model can be evaluated on files in another format, to which the column options do not apply.
    if is_training:
        _check_columns(config, reader)
    options: dict[str, object] = {}
    text, label = _column_names(config.text_column), config.label_column
    if reader in ("table", "jsonl"):
        if reader == "jsonl" and _has_tags(task) and None in (text, label):
            fields = field_names(Path(path), read_text(Path(path), config.encoding))
            text, label = text or _word_column(fields, task), label or _tag_column(fields)
        options |= {"text": text or "text", "label": label or "label", "empty": config.empty}
    elif reader == "tag_table":
        names = column_names(Path(path), read_text(Path(path), config.encoding))
        options |= {"text": text or _word_column(names, task), "label": label or _tag_column(names)}
    elif reader == "sentence_pairs":
        options |= {"text": text, "label": label, "empty": config.empty}
    elif reader == "squad":
        options |= {"text": text, "label": label}
    elif reader == "conllu":
        options["tags"] = label or "upos"
    elif reader == "conll" and label is not None:
        try:
            options["tags"] = int(label)
        except ValueError:
            raise ConfigError(
                f"--label-column must be a column number, counted from 0, for CoNLL files "
                f"(got {label!r})."
            ) from None
    if reader in ("sst2", "sst5"):
        options["phrases"] = config.phrases and is_training
    elif config.phrases and is_training:
        raise ConfigError(
            f"{path}: --phrases is only supported for the tree readers sst2 and sst5, but the "
            f"reader is {reader}. Remove --phrases."
        )
    return read(path, reader, split=split, encoding=config.encoding, **options)


def _has_tags(task: str | None) -> bool:
    """Whether the target of a task is one tag per word, which JSON records have as a list."""
    return task is not None and "conll" in task_row(task).readers


def _choose_reader(config: ExamplesConfig, path: Path, task: str | None) -> str:
    if config.reader != "auto":
        return config.reader
    reader = detect_reader(path, config.encoding, task)
    return "tag_table" if reader == "conll" and _is_tag_table(config, path, task) else reader


def _word_column(names: Collection[str], task: str | None) -> str:
    """Return the column or field of the words, if none is given."""
    return default_columns(str(task), names)[0]


def _tag_column(names: Collection[str]) -> str:
    """Return the column or field of the tags, if none is given."""
    return next((name for name in TAG_FIELDS if name in names), "tags")


def _is_tag_table(config: ExamplesConfig, path: Path, task: str | None) -> bool:
    """Whether a file for tagging is a table with named columns of words and tags."""
    if Path(plain_name(path.name)).suffix.lower() not in (".csv", ".tsv"):
        return False
    label = config.label_column
    if config.text_column is not None or (label is not None and not label.isdecimal()):
        return True
    names = column_names(path, read_text(path, config.encoding))
    return _word_column(names, task) in names and _tag_column(names) in names


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


def _check_columns(config: ExamplesConfig, reader: str) -> None:
    """Raise an error if a column is set but the reader does not support column selection."""
    for flag, column, readers in (
        ("--text-column", config.text_column, TEXT_COLUMN_READERS),
        ("--label-column", config.label_column, LABEL_COLUMN_READERS),
    ):
        if column is not None and reader not in readers:
            raise ConfigError(
                f"{flag} selects a column, but the reader {reader} has no selectable columns. "
                f"Remove {flag}, or use another --reader: {', '.join(readers)}."
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
