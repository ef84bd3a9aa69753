"""Lookup models, which use an index of ELMo vectors instead of a task encoder and a head.

They are built in one pass without training. Evaluation, prediction and saving work as for other
task models. The vector of a word is an ELMo layer or the mean of several layers.

The model folder contains:

config.json          options, scores, fingerprint of the ELMo model
memory.json          words and senses in the index
memory.safetensors   vectors in the index, as float16
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
from elmo.errors import ConfigError, FormatError, InputError, shortened
from elmo.evaluate.probe_vectors import Encode, Vectors
from elmo.files import write_folder
from elmo.formats.container import one_line
from elmo.formats.model_folder import save_tensors
from elmo.kernels.device import move
from elmo.tasks.core.build import splitter
from elmo.tasks.core.example import Example, examples_signature
from elmo.tasks.core.frozen_layers import chosen_layers
from elmo.tasks.core.loaded_elmo import LoadedELMo
from elmo.tasks.fitted_task import (
    CONFIG,
    DAMAGED_FILE_ERRORS,
    FORMAT,
    VERSION,
    FittedTask,
    load_fitted_task,
    load_matching_elmo,
    model_folder,
    predict_texts_with_words,
    read_model_config,
    with_absolute_elmo_path,
)
from elmo.tasks.load_examples import read_examples, subsample
from elmo.tasks.nearest_occurrences.occurrence_lookup import OccurrenceLookup
from elmo.tasks.word_senses.word_sense_lookup import WordSenseLookup
from elmo.text.line_splitter import SplitFunction
from elmo.text.token_batches import Sentence
from elmo.train.devices import run_device
from elmo.train.run_folder import MODEL, check_same_run, locked, write_config

INDEX, VECTORS = "memory.json", "memory.safetensors"


class LookupIndex(Protocol):
    """Interface of a lookup task, which is implemented by an index of ELMo vectors."""

    n_texts: ClassVar[int]
    """Number of texts of an example."""
    target_description: ClassVar[str]
    """Description of a valid target, for error messages."""
    empty_prediction: ClassVar[Any]
    """Prediction for a text without words."""
    metric: str
    """Name of the main score."""

    @classmethod
    def from_examples(cls, encode: Encode, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Build the index from examples."""

    @classmethod
    def from_state(cls, content: Any, vectors: NDArray[np.float16], config: TaskConfig) -> Self:
        """Restore an index from the values returned by `state`."""

    def state(self) -> tuple[Any, NDArray[np.float16]]:
        """Return the index as JSON-serializable data and vectors, (rows, dim)."""

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Whether an example has a valid target for this task."""

    def make_example(self, texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Create an example without a target from raw texts or lists of words."""

    def predict(self, encode: Encode, examples: Sequence[Example]) -> list[Any]:
        """Return the prediction for each example."""

    def scores(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Return the scores of the predictions by name."""

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return a prediction as a JSON-serializable dictionary."""


LOOKUP_TASKS: dict[str, type[LookupIndex]] = {
    "word_senses": WordSenseLookup,
    "nearest_occurrences": OccurrenceLookup,
}


@dataclass
class LookupModel:
    """A lookup index and everything that is needed for prediction.

    Attributes:
        config: Options used to build the index.
        task: The lookup index; it takes the place of the task of a `FittedTask`.
        loaded: The ELMo model.
        facts: Information about the index: signature of the examples, development scores.
    """

    config: TaskConfig
    task: LookupIndex
    loaded: LoadedELMo
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def elmo(self) -> ELMo:
        """The ELMo model itself."""
        return self.loaded.elmo

    def predict(self, examples: Sequence[Example]) -> list[Any]:
        """Return the prediction for each example, also if it has no words."""
        encode = word_encoder(self.elmo, self.config)
        predict = partial(self.task.predict, encode)
        return predict_texts_with_words(predict, examples, self.task.empty_prediction)

    def scores(self, examples: Sequence[Example]) -> dict[str, float]:
        """Return the scores of the predictions for examples with targets."""
        for example in examples:
            if not self.task.has_valid_target(example):
                raise InputError(
                    f"Task {self.config.task}: the example "
                    f"{shortened(' '.join(example.words), 40)!r} has the target "
                    f"{example.target!r}; expected {self.task.target_description}."
                )
        return self.task.scores(examples, self.predict(examples))

    def scores_and_report(self, examples: Sequence[Example]) -> tuple[dict[str, float], None]:
        """Return the scores; a lookup task has no labels to report on."""
        return self.scores(examples), None

    def save(self, folder: Path) -> None:
        """Write the model folder atomically."""
        content, vectors = self.task.state()
        record = {
            "format": FORMAT,
            "version": VERSION,
            "labels": [],
            "task_settings": {},
            "facts": self.facts,
            "fingerprint": self.loaded.fingerprint,
            "config": to_dict(with_absolute_elmo_path(self.config)),
        }
        write_folder(
            folder,
            {
                VECTORS: partial(save_tensors, {"vectors": torch.tensor(vectors)}),
                INDEX: partial(Path.write_bytes, data=_json(content)),
                CONFIG: partial(Path.write_bytes, data=_json(record)),
            },
        )


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def fit_lookup(config: TaskConfig, elmo: LoadedELMo | None) -> LookupModel:
    """Build and save the lookup model of a config, or load it if it already exists.

    Args:
        config: Task options.
        elmo: The ELMo model; None if the config names none, which is an error.
    """
    folder = Path(config.out)
    device = run_device(config.run)
    with locked(folder):
        check_same_run(folder, config)
        if not (folder / MODEL / CONFIG).is_file():
            model = build_lookup_model(config, elmo, partial(_training_examples, config), device)
            _score_dev(model)
            write_config(folder, config)
            model.save(folder / MODEL)
            return load_lookup_model(folder / MODEL, device, elmo)
    model = load_lookup_model(folder / MODEL, device, elmo)
    examples = _training_examples(config, splitter(config, model.elmo))
    if model.facts.get("examples") != _signature(examples):
        raise ConfigError(
            f"The lookup model in {folder} was built from other examples or by an earlier "
            "version. Use another --out."
        )
    return model


def _signature(examples: Sequence[Example]) -> list[int]:
    """Return a signature of the examples, including their extra input."""
    return examples_signature(
        [replace(example, target=(example.target, example.extra)) for example in examples]
    )


def _training_examples(config: TaskConfig, split: SplitFunction) -> list[Example]:
    examples = config.examples
    if examples.train is None:
        raise ConfigError("There are no examples for the index. Set a file with --train.")
    train = read_examples(examples, examples.train, split, task=config.task, is_training=True)
    return subsample(train, examples.fraction, config.run.seed)


def build_lookup_model(
    config: TaskConfig,
    loaded: LoadedELMo | None,
    load_examples: Callable[[SplitFunction], Sequence[Example]],
    device: str,
) -> LookupModel:
    """Build a lookup model from examples.

    Args:
        config: Task options.
        loaded: The ELMo model; None if the config names none, which is an error.
        load_examples: Function that returns the examples, given a function that splits raw text
            into words.
        device: Device to run the ELMo model on.
    """
    if loaded is None or config.elmo.use == "tuned":
        raise ConfigError(f"{config.task} requires a frozen ELMo. Set --model and --use frozen.")
    elmo = loaded.elmo
    examples = load_examples(splitter(config, elmo))
    if not examples:
        raise InputError("There are no texts.")
    move(elmo, device)
    index = LOOKUP_TASKS[config.task].from_examples(word_encoder(elmo, config), examples, config)
    facts: dict[str, Any] = {
        "program": f"elmo-torch {__version__}",
        "development": None,
        "mixes": {},
        "examples": _signature(examples),
    }
    return LookupModel(config, index, loaded, facts)


def _score_dev(model: LookupModel) -> None:
    """Evaluate the model on the development set, if there is one, and store the scores."""
    config = model.config
    if config.examples.dev is not None:
        split = splitter(config, model.elmo)
        dev = read_examples(config.examples, config.examples.dev, split, task=config.task)
        model.facts["development"] = model.scores(dev)


def load_task(folder: Path, device: str | None = None) -> FittedTask | LookupModel:
    """Load a task model of any kind, including lookup models.

    Args:
        folder: Model folder, or a training folder that contains one.
        device: Device to load the model on. Default: the CPU.
    """
    folder = model_folder(folder)
    is_lookup = read_model_config(folder)[1].task in LOOKUP_TASKS
    load = load_lookup_model if is_lookup else load_fitted_task
    return load(folder, device)


def load_lookup_model(
    folder: Path, device: str | None = None, elmo: LoadedELMo | None = None
) -> LookupModel:
    """Load a model written by `LookupModel.save`.

    Args:
        folder: Model folder, or a training folder that contains one.
        device: Device to load the ELMo model on. Default: the CPU.
        elmo: The ELMo model, if it is already loaded.
    """
    folder = model_folder(folder)
    record, config = read_model_config(folder)
    if config.task not in LOOKUP_TASKS:
        raise ConfigError(
            f"{folder} contains a model for {config.task}, which is not a lookup task. Lookup "
            f"tasks are: {', '.join(LOOKUP_TASKS)}."
        )
    elmo = load_matching_elmo(folder, config, record["fingerprint"], elmo)
    try:
        content = json.loads((folder / INDEX).read_bytes())
        vectors = load_file(folder / VECTORS)["vectors"]
        index = LOOKUP_TASKS[config.task].from_state(content, vectors, config)
    except DAMAGED_FILE_ERRORS as error:
        raise FormatError(
            f"{folder} is not a complete fitted task model: {one_line(error)}"
        ) from None
    assert elmo is not None
    if device is not None:
        move(elmo.elmo, device)
    return LookupModel(config, index, elmo, record["facts"])


def word_encoder(elmo: ELMo, config: TaskConfig) -> Encode:
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
