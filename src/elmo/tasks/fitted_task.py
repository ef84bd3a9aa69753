"""A model of a task that is ready for use: words in, answers out; and its folder.

config.json         dials, labels, the kind of task, what it scored
model.safetensors   weights of the model's own, static vectors included
static.txt          words of the static vectors, where there are some: those that learned first
elmo/               the ELMo, where it was tuned; a frozen one is named; known by its fingerprint
"""

import json
import os
from collections.abc import Mapping, Sequence
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
from elmo.embed.fingerprint import fingerprint
from elmo.errors import ConfigError, FormatError, InputError
from elmo.files import write_folder
from elmo.formats.container import one_line
from elmo.formats.model_folder import save_tensors
from elmo.kernels.device import move
from elmo.tasks.build import Built, build, load_elmo
from elmo.tasks.examples import Example
from elmo.tasks.renamed_records import upgrade_record, upgrade_weights
from elmo.tasks.task_batches import grouped, in_parts, sizes_of
from elmo.tasks.task_types.task import Task
from elmo.tasks.task_types.task_registry import check_targets, make_task
from elmo.tasks.word_vectors import WordVectors
from elmo.train.run_folder import MODEL

LabelType = Literal["str", "int", "bool"]

FORMAT = "elmo-torch-task"
VERSION = 1
CONFIG, WEIGHTS, STATIC, TUNED = "config.json", "model.safetensors", "static.txt", "elmo"
# Of a tuned ELMo, which has a folder of its own.
NETWORK = "features.network."
# Static vectors that do not learn, in the file of the weights.
OTHERS = "static.others"
# Examples answered together, where they are short.
TOGETHER = 64
# What the config says beside its format.
_PARTS = {
    "labels": list,
    "task_settings": dict,
    "facts": dict,
    "fingerprint": str | None,
    "config": dict,
}
# What torn files make their readers raise.
BROKEN = (
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
    """A model with all it needs to answer.

    Attributes:
        config: it was made by.
        task: of task.
        labels: it chooses from, by their numbers.
        built: the model itself.
        facts: what is told of it: scores, shares of the layers, steps.
        raw: whether it was trained on raw text, which a tokeniser had split.
        label_type: what its labels were given as, in Python; it knows them by their names.
    """

    config: TaskConfig
    task: Task
    labels: list[str]
    built: Built
    facts: dict[str, Any] = field(default_factory=dict)
    raw: bool = False
    label_type: LabelType = "str"

    @property
    def elmo(self) -> ELMo | None:
        """Whose layers it reads; None without."""
        return self.built.elmo

    def predict(self, examples: Sequence[Example]) -> list[Any]:
        """Answer for each example, in the words of the kind of task; targets are not looked at."""
        pieces = [self.task.split_example(example) for example in examples]
        answers = self._each(pieces)
        more = [
            list(self.task.follow_up_examples(example, own))
            for example, own in zip(examples, answers, strict=True)
        ]
        rows = zip(examples, pieces, answers, more, self._each(more), strict=True)
        return [
            self.task.merge_predictions(example, [*some, *others], [*own, *further])
            for example, some, own, others, further in rows
        ]

    def _each(self, pieces: Sequence[Sequence[Example]]) -> list[list[Any]]:
        """Answer for the pieces of each example."""
        found = iter(self._found([piece for some in pieces for piece in some]))
        return [[next(found) for _ in some] for some in pieces]

    def _found(self, examples: Sequence[Example]) -> list[Any]:
        """Answer for examples that are not too long."""
        model = self.built.model
        device = next(model.parameters()).device
        was_training = model.training
        model.eval()
        # Of like length together; what is found for one does not depend on the others. Questions on
        # one passage meet where the longest text decides.
        sizes = list(map(sizes_of, examples))
        order = sorted(range(len(examples)), key=lambda number: max(sizes[number]))
        found: dict[int, Any] = {}
        words, most = self.config.batch_words, self.task.max_batch_examples or TOGETHER
        with torch.no_grad():
            for chosen in in_parts(order, sizes, words=words, most=most):
                some = [examples[number] for number in chosen]
                groups = grouped(self.task, self.built.indexer, some, words)
                answers = model.predict([group.to(device) for group in groups])
                found.update(zip(chosen, answers, strict=True))
        model.train(was_training)
        return self.task.decode_predictions(
            [found[number] for number in range(len(examples))], self.labels
        )

    def scores(self, examples: Sequence[Example]) -> dict[str, float]:
        """Compare answers with what is right."""
        check_targets(self.config.task, examples)
        return self.task.scores(examples, self.predict(examples))

    def save(self, folder: Path) -> None:
        """Write a folder, all of it or nothing but for a tuned ELMo, which comes first.

        Killed between the two, they do not fit, which the fingerprint tells.
        """
        elmo, tuned = self.built.elmo, self.config.elmo.use == "tuned"
        if elmo is not None and tuned:
            elmo.save_pretrained(folder / TUNED)
        weights = {
            name: value.detach().cpu().contiguous()
            for name, value in self.built.model.state_dict().items()
            if not name.startswith(NETWORK)
        }
        head = {
            "format": FORMAT,
            "version": VERSION,
            "labels": self.labels,
            "task_settings": self.task.to_settings(),
            "facts": self.facts,
            "raw": self.raw,
            "label_type": self.label_type,
            "fingerprint": None if elmo is None else fingerprint(elmo.to_pretrained()),
            "config": to_dict(found_from_anywhere(self.config)),
        }
        words = ""
        if static := self.built.static:
            words = "".join(f"{word}\n" for word in [*static.words, *static.others])
            if static.others:
                weights[OTHERS] = static.other_vectors
        write_folder(
            folder,
            {
                WEIGHTS: partial(save_tensors, weights),
                STATIC: partial(Path.write_bytes, data=words.encode()) if words else None,
                CONFIG: partial(Path.write_bytes, data=_json(head).encode()),
            },
        )


def found_from_anywhere(config: TaskConfig) -> TaskConfig:
    """Give a config with the whole path of its ELMo, where that is a path."""
    model = config.elmo.model
    if model is None or not Path(model).exists():
        return config
    return replace(config, elmo=replace(config.elmo, model=os.path.abspath(model)))


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def load_fitted_task(folder: Path, device: str | None = None) -> FittedTask:
    """Read a folder that `Trained.save` wrote.

    Args:
        folder: of the model, or a training folder with one in it.
        device: where it computes; the CPU where None.
    """
    folder = model_folder(folder)
    head, config = read_head(folder)
    elmo = known_elmo(folder, config, head["fingerprint"])
    try:
        weights = upgrade_weights(load_file(folder / WEIGHTS))
        static = _static(folder, weights)
        kind = make_task(config.task, head["task_settings"])
        built = build(config, kind, head["labels"], elmo, static=static)
        found = built.model.load_state_dict(weights, strict=False)
    except BROKEN as error:
        raise FormatError(f"{folder} is no whole model of a task: {one_line(error)}") from None
    missing = [name for name in found.missing_keys if not name.startswith(NETWORK)]
    if missing or found.unexpected_keys:
        raise FormatError(
            f"{folder / WEIGHTS} does not fit its config: {', '.join(missing)[:200]} missing, "
            f"{', '.join(found.unexpected_keys)[:200]} unknown"
        )
    if device is not None:
        move(built.model, device)
        if elmo is not None:
            move(elmo, device)
    built.model.eval()
    further = {name: head[name] for name in ("raw", "label_type") if name in head}
    return FittedTask(config, kind, head["labels"], built, head["facts"], **further)


def model_folder(folder: Path) -> Path:
    """Give the folder of a model, which a training folder has in it."""
    is_inside = not (folder / CONFIG).is_file() and (folder / MODEL / CONFIG).is_file()
    return folder / MODEL if is_inside else folder


def read_head(folder: Path) -> tuple[dict[str, Any], TaskConfig]:
    """Read what the config of a model's folder says, and the dials of the model in it."""
    path = folder / CONFIG
    try:
        head = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        if seeds := sorted(folder.glob(f"*/{MODEL}/{CONFIG}")):
            raise FormatError(
                f"{folder} has models of several seeds: name one, such as {seeds[0].parents[1]}"
            ) from None
        raise FormatError(f"{folder} is no model of a task: {one_line(error)}") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise FormatError(f"{folder} is no model of a task: its {CONFIG} does not say so")
    head = upgrade_record(head)
    if head.get("version") != VERSION:
        raise FormatError(f"{folder} is of version {head.get('version')!r}, this reads {VERSION}")
    for name, kind in _PARTS.items():
        if not isinstance(head.get(name, ...), kind):
            raise FormatError(f"{path} is damaged: its {name} is not what it should be")
    if head.get("label_type", "str") not in get_args(LabelType):
        raise FormatError(f"{path} is damaged: its label_type is {head['label_type']!r}")
    try:
        return head, from_dict(TaskConfig, head["config"], f"{path}: config")
    except ConfigError as error:
        raise FormatError(str(error)) from None


def known_elmo(folder: Path, config: TaskConfig, known: str | None) -> ELMo | None:
    """Read the ELMo of a model, and see that it is the one it was trained with."""
    tuned = config.elmo.model is not None and config.elmo.use == "tuned"
    if tuned and not (folder / TUNED).is_dir():
        raise FormatError(f"{folder} is no whole model of a task: there is no {TUNED} in it")
    elmo = ELMo.from_pretrained(folder / TUNED) if tuned else load_elmo(config)
    if elmo is None or fingerprint(elmo.to_pretrained()) == known:
        return elmo
    if tuned:
        raise FormatError(f"{folder} is no whole model of a task: its {TUNED} is of another one")
    raise ConfigError(
        f"{folder} was trained on the ELMo {config.elmo.model}, and what has that name now is "
        "another one: train the task again, or bring the old one back"
    )


def _static(folder: Path, weights: dict[str, Tensor]) -> WordVectors | None:
    """Read the words of the static vectors, which newlines alone part, and take the others out."""
    if not (folder / STATIC).is_file():
        return None
    words = (folder / STATIC).read_bytes().decode("utf-8").split("\n")[:-1]
    vectors = weights["features.word_vectors.weight"][1:]
    others = weights.pop(OTHERS, vectors[:0].half())
    if len(words) != len(vectors) + len(others):
        raise ValueError(
            f"{STATIC} has {len(words):,} words for {len(vectors) + len(others):,} vectors"
        )
    return WordVectors(words[: len(vectors)], vectors, words[len(vectors) :], others)
