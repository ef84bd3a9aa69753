"""A tiny ELMo, a few examples of each kind, and configs of models that train in a moment."""

import json
from dataclasses import replace

import torch
from conftest import random_model
from lightning.fabric import Fabric

from elmo.config import TaskConfig
from elmo.config.serialization import from_dict, leaves
from elmo.embed.embedder import ELMo
from elmo.tasks.examples import Example, GoldAnswers, Passage
from elmo.tasks.fit import prepare

GOOD, BAD = ("fine", "great", "lovely"), ("dull", "awful", "boring")
THINGS = ("film", "story", "Play", "end")

# Twenty texts of two to five words; one word decides.
LABELED = [
    Example(((*("a", "what", "very")[: n % 4], word, THINGS[n % 3]),), label)
    for n in range(10)
    for word, label in ((GOOD[n % 3], "good"), (BAD[n % 3], "bad"))
]
# Twenty sentences with names of one and of two words, some of which touch.
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
# Twenty pairs; whether both texts have the same word decides, which neither tells alone.
PAIRS = [
    Example(
        (("a", one, THINGS[n % 4]), (other, THINGS[n % 3])), "same" if one == other else "other"
    )
    for n in range(5)
    for one in GOOD[:2]
    for other in GOOD[:2]
]
PEOPLE, PLACES_TO_BE = ("Kim", "Lee", "Ann"), ("in Seoul", "at home", "there")


def make_question(question, passage, answer):
    """Make an example of a question; None for one without an answer."""
    given = Passage.align(passage, passage.split())
    texts = (tuple(question.split()), tuple(passage.split()))
    gold = GoldAnswers() if answer is None else GoldAnswers((answer,), given.find_words(answer))
    return Example(texts, gold, extra=given)


# Who is meant decides which of two places is the answer.
QUESTIONS = [
    make_question(
        f"where is {(one, other)[n % 2]} ?",
        f"now {one} is {place}  and {other} is {elsewhere} .",
        (place, elsewhere)[n % 2],
    )
    for n in range(3)
    for (one, other) in zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], strict=True)
    for (place, elsewhere) in (PLACES_TO_BE[:2], PLACES_TO_BE[1:])
]
UNANSWERED = [
    make_question(f"where is {one} ?", f"now {other} is {place} .", None)
    for one, other, place in zip(PEOPLE, PEOPLE[1:] + PEOPLE[:1], PLACES_TO_BE, strict=True)
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


def write_elmo(folder, seed=0, **extra):
    """Write a tiny model and give what to call it."""
    ELMo(random_model(scale=1.5, seed=seed, **extra)).save_pretrained(folder)
    return str(folder)


# Found once: help is read out of the source, which takes longer than some tests.
PLACES = {leaf.name: leaf.path for leaf in leaves(TaskConfig)}


def task_config(out, **settings):
    data = {}
    for name, value in {**OPTIONS, **settings, "out": str(out)}.items():
        section = data
        for outer in PLACES[name]:
            section = section.setdefault(outer, {})
        section[name] = value
    return from_dict(TaskConfig, data)


def make_fitted_task(out, train=LABELED, dev=(), **settings):
    """Give a model with its first weights."""
    config = task_config(out, **settings)
    elmo = None if config.elmo.model is None else ELMo.from_pretrained(config.elmo.model)
    return prepare(config, elmo, train, dev)


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


def weights(trained):
    """Give a copy of all weights."""
    return {name: value.clone() for name, value in trained.built.model.state_dict().items()}


def with_padding(layout, more):
    """Give the layout of the same texts in a block with more padding."""
    n = layout.mask.shape[1]
    places = layout.positions // n * (n + more) + layout.positions % n
    mask = torch.nn.functional.pad(layout.mask, (0, more))
    return replace(layout, mask=mask, positions=places)
