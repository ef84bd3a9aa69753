"""A fitted task model: prediction, scoring, and saving to a model folder.

The model folder contains:

config.json         options, labels, task settings, scores
model.safetensors   model weights, including word vectors
static.txt          words that have word vectors, those with trainable vectors first; only if used
elmo/               the fine-tuned ELMo model; for a frozen one, config.json contains its name and
                    fingerprint instead
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import safetensors
import torch
from safetensors.torch import load_file
from torch import Tensor

from elmo.config import TaskConfig
from elmo.config.serialization import from_dict, to_dict
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError, InputError, listing
from elmo.files import write_folder
from elmo.formats.container import one_line
from elmo.formats.model_folder import save_tensors
from elmo.kernels.device import move
from elmo.progress import Progress
from elmo.tasks.core.build import BuiltModel, build
from elmo.tasks.core.example import Example
from elmo.tasks.core.label_report import LabelReport
from elmo.tasks.core.loaded_elmo import LoadedELMo, elmo_of, load_elmo
from elmo.tasks.core.renamed_records import upgrade_record, upgrade_weights
from elmo.tasks.core.task import Task
from elmo.tasks.core.task_batches import split_batch, text_lengths, token_batches
from elmo.tasks.core.word_vectors import WordVectors
from elmo.tasks.registry import check_targets, make_task
from elmo.train.run_folder import MODEL

LabelType = Literal["str", "int", "bool"]

FORMAT = "elmo-torch-task"
VERSION = 1
CONFIG, WEIGHTS, WORDS, TUNED = "config.json", "model.safetensors", "static.txt", "elmo"
# Prefix of the weight names of a fine-tuned ELMo, which is saved in its own folder.
NETWORK = "features.network."
# Name of the frozen word vectors in the weights file.
FROZEN_WORD_VECTORS = "static.others"
# Maximum number of examples in a prediction batch.
MAX_BATCH_EXAMPLES = 64
# Types of the required entries in config.json, other than format and version.
_ENTRY_TYPES = {
    "labels": list,
    "task_settings": dict,
    "facts": dict,
    "fingerprint": str | None,
    "config": dict,
}
# Errors that reading damaged files can raise.
DAMAGED_FILE_ERRORS = (
    OSError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,
    ConfigError,
    InputError,
    safetensors.SafetensorError,
)


@dataclass
class FittedTask:
    """A task model and everything that is needed for prediction.

    Attributes:
        config: Options used for training.
        task: The task.
        labels: Labels ordered by id.
        built: The model and its token indexer.
        facts: Information about the training run: steps, development scores, layer mixes.
        label_type: Python type of the labels in the training data; `labels` are always strings.
        show_progress: Whether `predict` shows its progress.
    """

    config: TaskConfig
    task: Task
    labels: list[str]
    built: BuiltModel
    facts: dict[str, Any] = field(default_factory=dict)
    label_type: LabelType = "str"
    show_progress: bool = False

    @property
    def elmo(self) -> ELMo | None:
        """The ELMo model; None if ELMo is not used."""
        return elmo_of(self.built.elmo)

    def predict(self, examples: Sequence[Example]) -> list[Any]:
        """Return the prediction for each example, also if it has no words; ignore the targets."""
        return predict_texts_with_words(self._predict, examples, self.task.empty_prediction)

    def _predict(self, examples: Sequence[Example]) -> list[Any]:
        """Return the prediction for each example; every text has words."""
        parts = [self.task.split_example(example) for example in examples]
        predictions = self._predict_nested(parts)
        more_parts = [
            list(self.task.follow_up_examples(example, example_predictions))
            for example, example_predictions in zip(examples, predictions, strict=True)
        ]
        more_predictions = self._predict_nested(more_parts)
        rows = zip(examples, parts, predictions, more_parts, more_predictions, strict=True)
        return [
            self.task.merge_predictions(example, [*first, *second], [*of_first, *of_second])
            for example, first, of_first, second, of_second in rows
        ]

    def _predict_nested(self, parts: Sequence[Sequence[Example]]) -> list[list[Any]]:
        """Return the predictions for the parts of each example, as nested lists."""
        predictions = iter(self._predict_parts([part for group in parts for part in group]))
        return [[next(predictions) for _ in group] for group in parts]

    def _predict_parts(self, examples: Sequence[Example]) -> list[Any]:
        """Return the predictions for examples that do not need to be split."""
        model = self.built.model
        device = next(model.parameters()).device
        was_training = model.training
        model.eval()
        # Group examples of similar length; predictions do not depend on the batch. Sort by the
        # longest text, so that questions about the same passage are in the same batch.
        lengths = list(map(text_lengths, examples))
        order = sorted(range(len(examples)), key=lambda index: max(lengths[index]))
        outputs: dict[int, Any] = {}
        max_words = self.config.batch_words
        max_examples = self.task.max_batch_examples or MAX_BATCH_EXAMPLES
        progress = Progress("predict", len(examples), "examples", self.show_progress)
        with torch.no_grad(), progress:
            for chosen in split_batch(
                order, lengths, max_words=max_words, max_examples=max_examples
            ):
                batch = [examples[index] for index in chosen]
                groups = token_batches(self.task, self.built.indexer, batch, max_words)
                batch_outputs = model.predict([group.to(device) for group in groups])
                outputs.update(zip(chosen, batch_outputs, strict=True))
                progress.advance(len(chosen))
        model.train(was_training)
        ordered = [outputs[index] for index in range(len(examples))]
        return self.task.decode_predictions(ordered, self.labels)

    def scores(self, examples: Sequence[Example]) -> dict[str, float]:
        """Return the scores of the predictions for examples with targets."""
        return self.scores_and_report(examples)[0]

    def scores_and_report(
        self, examples: Sequence[Example]
    ) -> tuple[dict[str, float], LabelReport | None]:
        """Return the scores, and those by label if the task predicts labels."""
        check_targets(self.config.task, examples)
        predictions = self.predict(examples)
        return self.task.scores(examples, predictions), self.task.report(examples, predictions)

    def save(self, folder: Path) -> None:
        """Save the fine-tuned ELMo, if any, then write the other files of the folder atomically.

        If the process is killed in between, loading detects the mismatch by the fingerprint.
        """
        loaded = self.built.elmo
        if loaded is not None and self.config.elmo.use == "tuned":
            loaded = LoadedELMo(loaded.elmo)  # training has changed the weights
            loaded.elmo.save_pretrained(folder / TUNED)
        weights = {
            name: value.detach().cpu().contiguous()
            for name, value in self.built.model.state_dict().items()
            if not name.startswith(NETWORK)
        }
        record = {
            "format": FORMAT,
            "version": VERSION,
            "labels": self.labels,
            "task_settings": self.task.to_settings(),
            "facts": self.facts,
            "label_type": self.label_type,
            "fingerprint": None if loaded is None else loaded.fingerprint,
            "config": to_dict(with_absolute_elmo_path(self.config)),
        }
        words = ""
        if word_vectors := self.built.word_vectors:
            words = "".join(f"{word}\n" for word in [*word_vectors.words, *word_vectors.others])
            if word_vectors.others:
                weights[FROZEN_WORD_VECTORS] = word_vectors.other_vectors
        write_folder(
            folder,
            {
                WEIGHTS: partial(save_tensors, weights),
                WORDS: partial(Path.write_bytes, data=words.encode()) if words else None,
                CONFIG: partial(Path.write_bytes, data=_json(record).encode()),
            },
        )


def predict_texts_with_words(
    predict: Callable[[Sequence[Example]], list[Any]], examples: Sequence[Example], empty: Any
) -> list[Any]:
    """Return the prediction for each example.

    Args:
        predict: Function that returns the predictions for examples with words.
        examples: Examples to predict.
        empty: Prediction for an example that has a text without words.
    """
    predictions = iter(predict([example for example in examples if all(example.texts)]))
    return [next(predictions) if all(example.texts) else empty for example in examples]


def with_absolute_elmo_path(config: TaskConfig) -> TaskConfig:
    """Make the path of the ELMo model absolute, if the config contains a path."""
    model = config.elmo.model
    if model is None or not Path(model).exists():
        return config
    return replace(config, elmo=replace(config.elmo, model=os.path.abspath(model)))


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def load_fitted_task(
    folder: Path, device: str | None = None, elmo: LoadedELMo | None = None
) -> FittedTask:
    """Load a model written by `FittedTask.save`.

    Args:
        folder: Model folder, or a training folder that contains one.
        device: Device to load the model on. Default: the CPU.
        elmo: The frozen ELMo model, if it is already loaded; not used if ELMo is fine-tuned.
    """
    folder = model_folder(folder)
    record, config = read_model_config(folder)
    elmo = load_matching_elmo(folder, config, record["fingerprint"], elmo)
    try:
        weights = upgrade_weights(load_file(folder / WEIGHTS))
        word_vectors = _pop_word_vectors(folder, weights)
        task = make_task(config.task, record["task_settings"])
        built = build(config, task, record["labels"], elmo, word_vectors=word_vectors)
        keys = built.model.load_state_dict(weights, strict=False)
    except DAMAGED_FILE_ERRORS as error:
        raise FormatError(
            f"{folder} is not a complete fitted task model: {one_line(error)}"
        ) from None
    missing = [name for name in keys.missing_keys if not name.startswith(NETWORK)]
    if missing or keys.unexpected_keys:
        raise FormatError(
            f"{folder / WEIGHTS} does not match its config. Missing weights: "
            f"{listing(missing)}; unexpected weights: {listing(keys.unexpected_keys)}."
        )
    if device is not None:
        move(built.model, device)
        if elmo is not None:
            move(elmo.elmo, device)
    built.model.eval()
    label_type = record.get("label_type", "str")
    return FittedTask(config, task, record["labels"], built, record["facts"], label_type)


def model_folder(folder: Path) -> Path:
    """Return the model folder; `folder` can be that folder or the training folder around it."""
    is_inside = not (folder / CONFIG).is_file() and (folder / MODEL / CONFIG).is_file()
    return folder / MODEL if is_inside else folder


def read_model_config(folder: Path) -> tuple[dict[str, Any], TaskConfig]:
    """Read config.json in a model folder; return its content and the task options in it."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise FormatError(f"There is no folder {folder}. Name a folder written by `elmo task fit`.")
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        if seeds := sorted(folder.glob(f"*/{MODEL}/{CONFIG}")):
            raise FormatError(
                f"{folder} contains several models, one per seed. Choose one, for example "
                f"{seeds[0].parents[1]}."
            ) from None
        raise FormatError(f"{folder} is not a fitted task model: {one_line(error)}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise FormatError(
            f"{folder} is not a fitted task model: the format in its {CONFIG} is not {FORMAT!r}."
        )
    record = upgrade_record(record)
    if record.get("version") != VERSION:
        raise FormatError(
            f"{folder} has format version {record.get('version')!r}; only version {VERSION} is "
            "supported."
        )
    for name, entry_type in _ENTRY_TYPES.items():
        if not isinstance(record.get(name, ...), entry_type):
            raise FormatError(f"{path} is damaged: {name} is missing or has the wrong type.")
    if record.get("label_type", "str") not in get_args(LabelType):
        raise FormatError(f"{path} is damaged: label_type is {record['label_type']!r}.")
    try:
        return record, from_dict(TaskConfig, record["config"], f"{path}: config")
    except ConfigError as error:
        raise FormatError(str(error)) from None


def load_matching_elmo(
    folder: Path,
    config: TaskConfig,
    expected_fingerprint: str | None,
    loaded: LoadedELMo | None = None,
) -> LoadedELMo | None:
    """Return the ELMo model of a task model and check that it has the expected fingerprint.

    Args:
        folder: Model folder.
        config: Options of the task model.
        expected_fingerprint: Fingerprint in the model folder.
        loaded: The frozen ELMo model, if it is already loaded.
    """
    tuned = config.elmo.model is not None and config.elmo.use == "tuned"
    if tuned and not (folder / TUNED).is_dir():
        raise FormatError(
            f"{folder} is not a complete fitted task model: the folder {TUNED} is missing."
        )
    if tuned:
        loaded = LoadedELMo(ELMo.from_pretrained(folder / TUNED))
    elif loaded is None:
        loaded = load_elmo(config)
    if loaded is None or loaded.fingerprint == expected_fingerprint:
        return loaded
    if tuned:
        raise FormatError(
            f"{folder} is not a complete fitted task model: the ELMo in {TUNED} belongs to another "
            "task model."
        )
    raise ConfigError(
        f"{folder} was trained with a different ELMo model than the current {config.elmo.model}. "
        "Fit the task again, or restore the previous ELMo model."
    )


def _pop_word_vectors(folder: Path, weights: dict[str, Tensor]) -> WordVectors | None:
    """Return the word vectors in a model folder, and remove the frozen ones from `weights`."""
    if not (folder / WORDS).is_file():
        return None
    # Not splitlines(): a word can contain line break characters other than a newline.
    words = (folder / WORDS).read_bytes().decode("utf-8").split("\n")[:-1]
    vectors = weights["features.word_vectors.weight"][1:]
    others = weights.pop(FROZEN_WORD_VECTORS, vectors[:0].half())
    if len(words) != len(vectors) + len(others):
        raise ValueError(
            f"{WORDS} has {len(words):,} words but there are {len(vectors) + len(others):,} "
            "vectors."
        )
    return WordVectors(words[: len(vectors)], vectors, words[len(vectors) :], others)
