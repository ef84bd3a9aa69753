"""Lookup models, which use an index of ELMo vectors instead of a task encoder and a head.

They are built in one pass without training. The vector of a word is an ELMo layer or the mean of
several layers.

The model folder contains:

config.json          options, scores, fingerprint of the ELMo model
memory.json          words and senses in the index
memory.safetensors   vectors in the index, as float16
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from safetensors.numpy import load_file

from elmo import __version__
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, InputError
from elmo.evaluate.probe_vectors import Encode, Vectors
from elmo.files import write_folder
from elmo.formats.container import one_line
from elmo.formats.model_folder import save_tensors
from elmo.kernels.device import move
from elmo.tasks.core.example import Example, examples_signature
from elmo.tasks.core.frozen_layers import chosen_layers
from elmo.tasks.core.loaded_elmo import LoadedELMo
from elmo.tasks.core.task import LookupTask
from elmo.tasks.fitted.fitted_task import (
    CONFIG,
    DAMAGED_FILE_ERRORS,
    Facts,
    FittedTask,
    ModelRecord,
    load_matching_elmo,
)
from elmo.tasks.registry.task_classes import lookup_class
from elmo.tasks.registry.task_config import TaskConfig
from elmo.text.token_batches import Sentence
from elmo.train.devices import run_device

INDEX, VECTORS = "memory.json", "memory.safetensors"


class LookupModel(FittedTask[LookupTask[object, object]]):
    """A lookup index and its ELMo model."""

    @classmethod
    def from_examples(
        cls, config: TaskConfig, loaded: LoadedELMo | None, examples: Sequence[Example[object]]
    ) -> Self:
        """Build the index of examples; a config without an ELMo model is an error."""
        if loaded is None or config.elmo.use == "tuned":
            raise ConfigError(
                f"{config.task} requires a frozen ELMo. Set --model and --use frozen."
            )
        if not examples:
            raise InputError("There are no texts.")
        move(loaded.elmo, run_device(config.run))
        encode = _word_encoder(loaded.elmo, config)
        cls_of_task, train = lookup_class(config.task), config.examples.train
        index = cls_of_task.from_examples(encode, examples, config.task_options, train)
        facts: Facts = {
            "program": f"elmo-torch {__version__}",
            "development": None,
            "mixes": {},
            "examples": lookup_signature(examples),
        }
        return cls(config, index, loaded, facts)

    def answers(self, examples: Sequence[Example[object]]) -> list[object]:
        """Return the answer for each example; every text has words."""
        assert self.elmo is not None
        return self.task.look_up(_word_encoder(self.elmo, self.config), examples)

    def save(self, folder: Path) -> None:
        """Write the model folder atomically."""
        assert self.loaded is not None
        content, vectors = self.task.state()
        index = (json.dumps(content, ensure_ascii=False) + "\n").encode()
        record = ModelRecord(self.config, [], {}, self.facts, self.loaded.fingerprint)
        write_folder(
            folder,
            {
                VECTORS: partial(save_tensors, {"vectors": torch.tensor(vectors)}),
                INDEX: partial(Path.write_bytes, data=index),
                CONFIG: partial(Path.write_bytes, data=record.to_json()),
            },
        )

    @classmethod
    def load(
        cls, folder: Path, record: ModelRecord, device: str | None, elmo: LoadedELMo | None
    ) -> Self:
        """Load a model written by `save`, on the CPU by default."""
        elmo = load_matching_elmo(folder, record, elmo)
        try:
            content = json.loads((folder / INDEX).read_bytes())
            vectors = load_file(folder / VECTORS)["vectors"]
            index = lookup_class(record.config.task).from_state(
                content, vectors, record.config.task_options
            )
        except DAMAGED_FILE_ERRORS as error:
            raise FormatError(
                f"{folder} is not a complete fitted task model: {one_line(error)}"
            ) from None
        if device is not None and elmo is not None:
            move(elmo.elmo, device)
        return cls(record.config, index, elmo, record.facts)


def lookup_signature(examples: Sequence[Example[object]]) -> list[int]:
    """Return a signature of examples, including their extra input."""
    return examples_signature(
        [replace(example, target=(example.target, example.extra)) for example in examples]
    )


def _word_encoder(elmo: ELMo, config: TaskConfig) -> Encode:
    """Return a function that computes the word vectors of each sentence, (1, words, dim)."""
    chosen = chosen_layers(elmo, config.elmo.layers)

    def encode(sentences: Sequence[Sentence]) -> list[Vectors]:
        all_layers: list[Vectors] = elmo.encode(
            list(map(list, sentences)), layers="all", precision="auto"
        )
        return [
            layers[chosen].mean(axis=0, keepdims=True, dtype=np.float32) for layers in all_layers
        ]

    return encode
