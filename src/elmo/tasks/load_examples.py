"""The examples a config names: read, split into parts, thinned out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo.config import ExamplesConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks.examples import Example
from elmo.tasks.readers import read
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.readers.reader_registry import detect_reader

# Decides which examples a model is chosen by, whatever the seed of the run.
DEV_SEED = 0
# Readers of files whose columns can be named.
NAMED_TEXTS = ("table", "jsonl", "sentence_pairs")
NAMED_LABELS = (*NAMED_TEXTS, "conll", "conllu")


def read_examples(
    config: ExamplesConfig, path: str, split: SplitFunction, *, is_training: bool = False
) -> list[Example]:
    """Read a file as a config says.

    Args:
        config: what the files of a task are like.
        path: the file.
        split: makes words of raw text.
        is_training: whether examples are learned from, which may be phrases then.
    """
    kind = config.reader
    if kind == "auto":
        kind = detect_reader(Path(path), config.encoding)  # type: ignore[assignment]
    # A model may be measured on files of another kind, where its columns mean nothing.
    if is_training:
        _check_names(config, kind)
    options: dict[str, Any] = {"encoding": config.encoding}
    if kind in ("table", "jsonl"):
        label = config.label or "label"
        options |= {"text": _names(config.text), "label": label, "empty": config.empty}
    elif kind == "sentence_pairs":
        own = _names(config.text) if _has_own_text(config) else None
        options |= {"text": own, "label": config.label, "empty": config.empty}
    elif kind == "conllu":
        options["tags"] = config.label or "upos"
    elif kind == "conll" and config.label is not None:
        try:
            options["tags"] = int(config.label)
        except ValueError:
            raise ConfigError(
                f"label is {config.label!r}; CoNLL columns have numbers, from 0"
            ) from None
    if kind in ("sst2", "sst5"):
        options["phrases"] = config.phrases and is_training
    elif config.phrases and is_training:
        raise ConfigError(f"{path}: phrases are of trees, and this is {kind}: leave them out")
    return read(path, kind, split=split, **options)


def _has_own_text(config: ExamplesConfig) -> bool:
    return config.text != ExamplesConfig.text


def _names(text: str) -> str | tuple[str, ...]:
    """Give the column of the texts, or those of `premise,hypothesis`."""
    return tuple(name.strip() for name in text.split(",")) if "," in text else text


def _check_names(config: ExamplesConfig, kind: str) -> None:
    """Refuse names of columns where a file has none."""
    for flag, is_given, kinds in (
        ("--text", _has_own_text(config), NAMED_TEXTS),
        ("--label", config.label is not None, NAMED_LABELS),
    ):
        if is_given and kind not in kinds:
            raise ConfigError(
                f"{flag} names a column, and files of the reader {kind} have none to name: leave "
                f"it out, or take another --reader: {', '.join(kinds)}"
            )


def training_examples(
    config: ExamplesConfig, split: SplitFunction, seed: int
) -> tuple[list[Example], list[Example]]:
    """Read the examples to learn from and those to choose by.

    Args:
        config: where they are.
        split: makes words of raw text.
        seed: decides which examples a fraction keeps.
    """
    if config.train is None:
        raise ConfigError("--train is not given: there is nothing to learn from")
    train = read_examples(config, config.train, split, is_training=True)
    if config.dev is not None:
        dev = read_examples(config, config.dev, split)
    elif config.phrases:
        # Of a sentence to choose by no phrase is learned.
        _, dev = held_out(read_examples(config, config.train, split), config.dev_share)
        taken = {example.id for example in dev}
        train = [example for example in train if example.id not in taken]
    else:
        train, dev = held_out(train, config.dev_share)
    return thinned(train, config.fraction, seed), dev


def held_out(examples: Sequence[Example], share: float) -> tuple[list[Example], list[Example]]:
    """Take a share of the examples out, always the same."""
    order = np.random.default_rng(DEV_SEED).permutation(len(examples))
    n_out = max(1, round(share * len(examples)))
    out = set(order[:n_out].tolist())
    kept = [example for number, example in enumerate(examples) if number not in out]
    if not kept:
        raise InputError(f"{len(examples)} examples are too few to hold some out: name a --dev")
    return kept, [example for number, example in enumerate(examples) if number in out]


def thinned(examples: Sequence[Example], fraction: float, seed: int) -> list[Example]:
    """Keep a share of the examples, in their order."""
    if fraction == 1:
        return list(examples)
    n = max(1, round(fraction * len(examples)))
    chosen = np.random.default_rng([seed, 1]).permutation(len(examples))[:n]
    return [examples[number] for number in sorted(chosen.tolist())]
