"""A tiny ELMo model, a few examples for each task, and configs for fast training."""

import json
from dataclasses import replace

import torch
from conftest import random_model
from lightning.fabric import Fabric

from elmo.config.serialization import from_dict, leaves
from elmo.embed.embedder import ELMo
from elmo.tasks.core.example import Example
from elmo.tasks.core.loaded_elmo import load_elmo
from elmo.tasks.core.passage import Passage
from elmo.tasks.question_answering.gold_answers import GoldAnswers
from elmo.tasks.registry.task_config import TaskConfig
from elmo.tasks.registry.task_rows import TASKS
from elmo.tasks.training.fit import prepare

GOOD, BAD = ("fine", "great", "lovely"), ("dull", "awful", "boring")
THINGS = ("film", "story", "Play", "end")

# Twenty texts of two to five words; one word determines the label.
LABELED = [
    Example(((*("a", "what", "very")[: n % 4], word, THINGS[n % 3]),), label)
    for n in range(10)
    for word, label in ((GOOD[n % 3], "good"), (BAD[n % 3], "bad"))
]
# Twenty sentences with names of one and of two words, some of them adjacent.
TAGGED = [
    example
    for n in range(5)
    for example in (
        Example((("Kim", "went", "to", f"New{n}", "York"),), ("B-PER", "O", "O", "B-LOC", "I-LOC")),
        Example((("in", f"New{n}", "York", "Seoul"),), ("O", "B-LOC", "I-LOC", "B-LOC")),
        Example((("Lee", "Kim"),), ("B-PER", "I-PER")),
        Example((("nobody",),), ("O",)),
    )
]
# Twenty pairs; the label says whether both texts have the same word, so one text is not enough.
PAIRS = [
    Example(
        (("a", first, THINGS[n % 4]), (second, THINGS[n % 3])),
        "same" if first == second else "other",
    )
    for n in range(5)
    for first in GOOD[:2]
    for second in GOOD[:2]
]
PEOPLE, PLACES = ("Kim", "Lee", "Ann"), ("in Seoul", "at home", "there")


def make_question(question, passage, answer):
    """Create a question answering example; `answer` is None if the question has no answer."""
    aligned = Passage.align(passage, passage.split())
    texts = (tuple(question.split()), tuple(passage.split()))
    gold = GoldAnswers() if answer is None else GoldAnswers((answer,), aligned.find_words(answer))
    return Example(texts, gold, extra=aligned)


# The person in the question determines which of two places is the answer.
QUESTIONS = [
    make_question(
        f"where is {(first, second)[n % 2]} ?",
        f"now {first} is {here}  and {second} is {there} .",
        (here, there)[n % 2],
    )
    for n in range(3)
    for (first, second) in zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], strict=True)
    for (here, there) in (PLACES[:2], PLACES[1:])
]
UNANSWERED = [
    make_question(f"where is {first} ?", f"now {second} is {place} .", None)
    for first, second, place in zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], PLACES, strict=True)
]
EXAMPLES = {
    "classification": LABELED,
    "tagging": TAGGED,
    "sentence_pairs": PAIRS,
    "question_answering": QUESTIONS,
}

OPTIONS = {
    "model": None,
    "batch_size": 5,
    "hidden": 8,
    "character_dim": 4,
    "character_filters": [[1, 4], [2, 4]],
    "input_dropout": 0.0,
    "dropout": 0.0,
    "elmo_dropout": 0.0,
    "learning_rate": 0.02,
    "warmup_steps": 0,
    "schedule": "constant",
    "epochs": 1,
    "log_every": 1,
    "accelerator": "cpu",
}


def write_elmo(folder, seed=0, **settings):
    """Write a tiny ELMo model and return its path as a string."""
    ELMo(random_model(scale=1.5, seed=seed, **settings)).save_pretrained(folder)
    return str(folder)


# Computed once: `leaves` reads help texts from the source, which is slower than some tests.
OPTION_PATHS = {
    leaf.name: leaf.path for task in TASKS for leaf in leaves(TaskConfig, data={"task": task})
}


def task_config(out, **settings):
    data = {}
    for name, value in {**OPTIONS, **settings, "out": str(out)}.items():
        section = data
        for outer in OPTION_PATHS[name]:
            section = section.setdefault(outer, {})
        section[name] = value
    return from_dict(TaskConfig, data)


def make_fitted_task(out, train=LABELED, dev=(), **settings):
    """Return a task model that has its initial weights."""
    config = task_config(out, **settings)
    return prepare(config, load_elmo(config.elmo), train, dev)


def fabric():
    return Fabric(accelerator="cpu", devices=1)


def write_jsonl(path, examples):
    records = [{"text": list(e.words), "label": e.target} for e in examples]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def write_conll(path, examples):
    sentences = [
        "".join(f"{word} {tag}\n" for word, tag in zip(e.words, e.target, strict=True))
        for e in examples
    ]
    path.write_text("\n".join(sentences), encoding="utf-8")
    return str(path)


def weights(fitted):
    """Return a copy of all weights of a task model."""
    return {name: value.clone() for name, value in fitted.built.model.state_dict().items()}


def with_padding(layout, extra):
    """Return the batch layout of the same texts with additional padding."""
    n = layout.mask.shape[1]
    positions = layout.positions // n * (n + extra) + layout.positions % n
    mask = torch.nn.functional.pad(layout.mask, (0, extra))
    return replace(layout, mask=mask, positions=positions)


def watch_nothing(items, n_items):
    """Return the items of an evaluation without showing progress."""
    return items
