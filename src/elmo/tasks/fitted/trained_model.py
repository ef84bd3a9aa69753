"""A trained task model: prediction and the model folder.

The model folder contains:

config.json         options, labels, task settings, scores
model.safetensors   model weights, including word vectors
static.txt          words that have word vectors, those with trainable vectors first; only if used
elmo/               the fine-tuned ELMo model; for a frozen one, config.json contains its name and
                    fingerprint instead
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

import torch
from safetensors.torch import load_file
from torch import Tensor

from elmo.errors import FormatError, listing
from elmo.files import write_folder
from elmo.formats.container import one_line
from elmo.formats.model_folder import save_tensors
from elmo.kernels.device import move
from elmo.progress import Progress
from elmo.tasks.core.example import Example, Words
from elmo.tasks.core.input_features import TokenBatch
from elmo.tasks.core.loaded_elmo import LoadedELMo
from elmo.tasks.core.renamed_records import upgrade_weights
from elmo.tasks.core.task import TrainedTask
from elmo.tasks.core.task_batches import split_batch, text_lengths, token_batches
from elmo.tasks.files.word_vectors import WordVectors
from elmo.tasks.fitted.build import BuiltModel, build
from elmo.tasks.fitted.fitted_task import (
    CONFIG,
    DAMAGED_FILE_ERRORS,
    TUNED,
    Facts,
    FittedTask,
    LabelType,
    ModelRecord,
    load_matching_elmo,
)
from elmo.tasks.registry.task_classes import make_task
from elmo.tasks.registry.task_config import TaskConfig

WEIGHTS, WORDS = "model.safetensors", "static.txt"
# Prefix of the weight names of a fine-tuned ELMo, which is saved in its own folder.
NETWORK = "features.network."
# Name of the frozen word vectors in the weights file.
FROZEN_WORD_VECTORS = "static.others"
# Maximum number of examples in a prediction batch.
MAX_BATCH_EXAMPLES = 64


class TrainedModel(FittedTask[TrainedTask[object, object, object]]):
    """A task model with a head; labels are strings, `label_type` is their original type."""

    def __init__(
        self,
        config: TaskConfig,
        task: TrainedTask[object, object, object],
        labels: list[str],
        built: BuiltModel,
        facts: Facts | None = None,
        label_type: LabelType = "str",
    ) -> None:
        super().__init__(config, task, built.elmo, facts)
        self.labels = labels
        self.built = built
        self.label_type = label_type

    def answers(self, examples: Sequence[Example[object]]) -> list[object]:
        """Return the answer for each example; every text has words."""
        task, labels = self.task, self.labels
        parts = [task.split_example(example) for example in examples]
        outputs = self._outputs(parts)
        more_parts = [
            task.follow_up_examples(example, of_parts, labels)
            for example, of_parts in zip(examples, outputs, strict=True)
        ]
        more_outputs = self._outputs(more_parts)
        rows = zip(examples, parts, outputs, more_parts, more_outputs, strict=True)
        return [
            task.answer(example, [*first, *second], [*of_first, *of_second], labels)
            for example, first, of_first, second, of_second in rows
        ]

    def _outputs(self, parts: Sequence[Sequence[Example[object]]]) -> list[list[object]]:
        """Return the outputs of the head for the parts of each example, as nested lists."""
        outputs = iter(self._outputs_of_parts([part for group in parts for part in group]))
        return [[next(outputs) for _ in group] for group in parts]

    def _outputs_of_parts(self, parts: Sequence[Example[object]]) -> list[object]:
        model = self.built.model
        device = next(model.parameters()).device
        was_training = model.training
        model.eval()
        # Group parts of similar length; outputs do not depend on the batch. Sort by the longest
        # text, so that questions about the same passage are in the same batch.
        lengths = list(map(text_lengths, parts))
        order = sorted(range(len(parts)), key=lambda index: max(lengths[index]))
        outputs: dict[int, object] = {}
        max_words = self.config.batch_words
        max_examples = self.task.max_batch_examples or MAX_BATCH_EXAMPLES
        progress = Progress("predict", len(parts), "examples", self.show_progress)
        with torch.no_grad(), progress:
            for chosen in split_batch(
                order, lengths, max_words=max_words, max_examples=max_examples
            ):
                batch = [parts[index] for index in chosen]
                groups = token_batches(self.task, self.built.indexer, batch, max_words)
                batch_outputs = model.predict([group.to(device) for group in groups])
                outputs.update(zip(chosen, batch_outputs, strict=True))
                progress.advance(len(chosen))
        model.train(was_training)
        return [outputs[index] for index in range(len(parts))]

    def encoder_input(self, texts: Sequence[Words]) -> TokenBatch:
        """Return the input of the encoder for texts without annotations, on its device."""
        indicators = None
        if self.task.n_indicators:
            (group,) = self.task.text_groups([Example((words,)) for words in texts])
            indicators = group.indicators
        device = next(self.built.model.parameters()).device
        return self.built.indexer.batch(texts, indicators).to(device)

    def save(self, folder: Path) -> None:
        """Save the fine-tuned ELMo, if any, then write the other files of the folder atomically.

        If the process is killed in between, loading detects the mismatch by the fingerprint.
        """
        loaded = self.loaded
        if loaded is not None and self.config.elmo.use == "tuned":
            loaded = LoadedELMo(loaded.elmo)  # training has changed the weights
            loaded.elmo.save_pretrained(folder / TUNED)
        weights = {
            name: value.detach().cpu().contiguous()
            for name, value in self.built.model.state_dict().items()
            if not name.startswith(NETWORK)
        }
        record = ModelRecord(
            config=self.config,
            labels=self.labels,
            task_settings=self.task.to_settings(),
            facts=self.facts,
            fingerprint=None if loaded is None else loaded.fingerprint,
            label_type=self.label_type,
        )
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
                CONFIG: partial(Path.write_bytes, data=record.to_json()),
            },
        )

    @classmethod
    def load(
        cls, folder: Path, record: ModelRecord, device: str | None, elmo: LoadedELMo | None
    ) -> Self:
        """Load a model written by `save`, by default on the CPU, with a frozen ELMo if given."""
        config, elmo = record.config, load_matching_elmo(folder, record, elmo)
        try:
            weights = upgrade_weights(load_file(folder / WEIGHTS))
            word_vectors = _pop_word_vectors(folder, weights)
            task = make_task(config.task, record.task_settings)
            built = build(config, task, record.labels, elmo, word_vectors=word_vectors)
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
        return cls(config, task, record.labels, built, record.facts, record.label_type)


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
