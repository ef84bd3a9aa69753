"""Models that remember and do not learn: a memory of ELMo's vectors in the place of body and head.

They are fitted in one pass, without the loop; evaluated, asked and kept as all models of tasks. The
vector of a word is that of one layer, or the mean of several.

config.json          dials, what it scored, the fingerprint of its ELMo
memory.json          what is remembered, in words
memory.safetensors   the vectors, float16
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from elmo import __version__
from elmo.config import TaskConfig
from elmo.config.serialization import to_dict
from elmo.embed.embedder import ELMo
from elmo.embed.fingerprint import fingerprint
from elmo.errors import ConfigError, FormatError, InputError
from elmo.evaluate.probe_vectors import Encode, Vectors
from elmo.files import write_folder
from elmo.formats.container import one_line
from elmo.formats.model_folder import save_tensors
from elmo.kernels.device import move
from elmo.tasks.build import load_elmo, splitter
from elmo.tasks.examples import Example, examples_signature
from elmo.tasks.fitted_task import (
    BROKEN,
    CONFIG,
    FORMAT,
    VERSION,
    FittedTask,
    found_from_anywhere,
    known_elmo,
    load_fitted_task,
    model_folder,
    read_head,
)
from elmo.tasks.frozen_layers import chosen_layers
from elmo.tasks.load_examples import read_examples, thinned
from elmo.tasks.occurrence_lookup import OccurrenceLookup
from elmo.tasks.readers.raw_text import SplitFunction, TrackedSplit
from elmo.tasks.word_sense_lookup import WordSenseLookup
from elmo.text.token_batches import Sentence
from elmo.train.devices import make_fabric
from elmo.train.run_folder import MODEL, check_same_run, locked, write_config

WORDS, VECTORS = "memory.json", "memory.safetensors"


class LookupIndex(Protocol):
    """What the frame asks of a memory."""

    n_texts: ClassVar[int]
    """Texts that are asked about at a time."""
    target_description: ClassVar[str]
    """What a target is, in words."""
    metric: str
    """Name of the score that counts."""

    @classmethod
    def from_examples(cls, encode: Encode, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Remember examples."""

    @classmethod
    def from_state(cls, plain: Any, vectors: NDArray[np.float16], config: TaskConfig) -> Self:
        """Take what `state` gave."""

    def state(self) -> tuple[Any, NDArray[np.float16]]:
        """Give all that is remembered: plain data, and vectors, (rows, dim)."""

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has a target of this kind."""

    def make_example(self, texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Make an example of texts, raw or split already."""

    def predict(self, encode: Encode, examples: Sequence[Example]) -> list[Any]:
        """Answer for each example."""

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Compare answers with what is right."""

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give an answer as plain data, to be written down."""


MEMORIES: dict[str, type[LookupIndex]] = {
    "word_senses": WordSenseLookup,
    "nearest_occurrences": OccurrenceLookup,
}


@dataclass
class LookupModel:
    """A memory with all it needs to answer.

    Attributes:
        config: it was made by.
        index: the memory itself.
        elmo: gives the vectors.
        facts: what is told of it.
        raw: whether it has read raw text, which a tokeniser had split.
    """

    config: TaskConfig
    index: LookupIndex
    elmo: ELMo
    facts: dict[str, Any] = field(default_factory=dict)
    raw: bool = False

    @property
    def task(self) -> LookupIndex:
        """The index, by the attribute name of `FittedTask`."""
        return self.index

    def predict(self, examples: Sequence[Example]) -> list[Any]:
        """Answer for each example."""
        return self.index.predict(encoder(self.elmo, self.config), examples)

    def scores(self, examples: Sequence[Example]) -> dict[str, float]:
        """Compare answers with what is right."""
        for example in examples:
            if not self.index.has_valid_target(example):
                raise InputError(
                    f"{self.config.task}: the example {' '.join(example.words)[:40]!r} has "
                    f"{example.target!r} for its target, expected {self.index.target_description}"
                )
        return self.index.scores(examples, self.predict(examples))

    def save(self, folder: Path) -> None:
        """Write a folder, all of it or nothing."""
        plain, vectors = self.index.state()
        head = {
            "format": FORMAT,
            "version": VERSION,
            "labels": [],
            "task_settings": {},
            "facts": self.facts,
            "raw": self.raw,
            "fingerprint": fingerprint(self.elmo.to_pretrained()),
            "config": to_dict(found_from_anywhere(self.config)),
        }
        write_folder(
            folder,
            {
                VECTORS: partial(save_tensors, {"vectors": torch.tensor(vectors)}),
                WORDS: partial(Path.write_bytes, data=_json(plain)),
                CONFIG: partial(Path.write_bytes, data=_json(head)),
            },
        )


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def fit_lookup(config: TaskConfig) -> LookupModel:
    """Remember the examples of a config, or find the memory where that was done before."""
    folder = Path(config.out)
    device = str(make_fabric(config.run).device)
    with locked(folder):
        check_same_run(folder, config)
        if not (folder / MODEL / CONFIG).is_file():
            remembered = remember(config, partial(_training_examples, config), device)
            _measure(remembered)
            write_config(folder, config)
            remembered.save(folder / MODEL)
            return load_lookup_model(folder / MODEL, device)
    found = load_lookup_model(folder / MODEL, device)
    examples = _training_examples(config, splitter(config, found.elmo))
    if found.facts.get("examples") != _mark(examples):
        raise ConfigError(
            f"{folder} remembers other examples, or an older program wrote it: another --out"
        )
    return found


def _mark(examples: Sequence[Example]) -> list[int]:
    """Give what examples are known by; which words are meant is given with them."""
    return examples_signature([replace(one, target=(one.target, one.extra)) for one in examples])


def _training_examples(config: TaskConfig, split: SplitFunction) -> list[Example]:
    examples = config.examples
    if examples.train is None:
        raise ConfigError("--train is not given: there is nothing to remember")
    train = read_examples(examples, examples.train, split, is_training=True)
    return thinned(train, examples.fraction, config.run.seed)


def remember(
    config: TaskConfig, examples_of: Callable[[SplitFunction], Sequence[Example]], device: str
) -> LookupModel:
    """Remember examples.

    Args:
        config: of the task.
        examples_of: gives them, told how raw text is split.
        device: where it computes.
    """
    elmo = load_elmo(config)
    if elmo is None or config.elmo.use == "tuned":
        raise ConfigError(f"{config.task}: what is remembered are vectors of a frozen ELMo")
    split = TrackedSplit(splitter(config, elmo))
    examples = examples_of(split)
    if not examples:
        raise InputError("there are no texts")
    move(elmo, device)
    kind = MEMORIES[config.task].from_examples(encoder(elmo, config), examples, config)
    facts: dict[str, Any] = {
        "program": f"elmo-torch {__version__}",
        "development": None,
        "mixes": {},
        "examples": _mark(examples),
    }
    return LookupModel(config, kind, elmo, facts, raw=split.was_used)


def _measure(remembered: LookupModel) -> None:
    """Measure a memory on the development part, where one is named."""
    config = remembered.config
    if config.examples.dev is not None:
        split = splitter(config, remembered.elmo)
        dev = read_examples(config.examples, config.examples.dev, split)
        remembered.facts["development"] = remembered.scores(dev)


def load_task(folder: Path, device: str | None = None) -> FittedTask | LookupModel:
    """Read a model of any task.

    Args:
        folder: of the model, or a training folder with one in it.
        device: where it computes; the CPU where None.
    """
    folder = model_folder(folder)
    load = load_lookup_model if read_head(folder)[1].task in MEMORIES else load_fitted_task
    return load(folder, device)


def load_lookup_model(folder: Path, device: str | None = None) -> LookupModel:
    """Read a folder that `Remembered.save` wrote.

    Args:
        folder: of the model, or a training folder with one in it.
        device: where it computes; the CPU where None.
    """
    folder = model_folder(folder)
    head, config = read_head(folder)
    if config.task not in MEMORIES:
        raise ConfigError(f"{folder} holds a model for {config.task}, which remembers nothing")
    elmo = known_elmo(folder, config, head["fingerprint"])
    try:
        plain = json.loads((folder / WORDS).read_bytes())
        vectors = load_file(folder / VECTORS)["vectors"]
        kind = MEMORIES[config.task].from_state(plain, vectors, config)
    except BROKEN as error:
        raise FormatError(f"{folder} is no whole model of a task: {one_line(error)}") from None
    assert elmo is not None
    if device is not None:
        move(elmo, device)
    return LookupModel(config, kind, elmo, head["facts"], head.get("raw", False))


def encoder(elmo: ELMo, config: TaskConfig) -> Encode:
    """Give what makes one vector for each word, (1, words, dim) for each sentence."""
    chosen = chosen_layers(elmo, config.elmo.layers)

    def encode(sentences: Sequence[Sentence]) -> list[Vectors]:
        found: list[Vectors] = elmo.encode(
            list(map(list, sentences)), layers="all", precision="auto"
        )
        return [vectors[chosen].mean(axis=0, keepdims=True, dtype=np.float32) for vectors in found]

    return encode
