"""POST /tasks/NAME: predictions of a task model."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import cast

from starlette.types import ASGIApp

from elmo.errors import ElmoError
from elmo.serve.api_call import MAX_INLINE_CHARACTERS, ApiCall
from elmo.serve.api_error import invalid
from elmo.serve.endpoint import Endpoint
from elmo.serve.loaded_task import LoadedTask
from elmo.serve.operations import PredictTask
from elmo.serve.request_fields import as_list
from elmo.serve.request_sentences import check_total, check_words, read_text
from elmo.serve.routes.field_schemas import TEXT, object_of
from elmo.serve.routes.json_response import json_response
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import Text

PLACE = "inputs"


async def predict_task(call: ApiCall) -> ASGIApp:
    """Return the prediction for each input."""
    fields = await call.fields()
    values = as_list(fields.required(PLACE), PLACE, call.config.max_sentences)
    task = await call.task(call.request.path_params["name"])
    texts = [read_texts(value, f"{PLACE}[{n}]", task, call) for n, value in enumerate(values)]
    split = partial(make_examples, texts, task)
    n_characters = sum(
        len(text) for of_input in texts for text in of_input if isinstance(text, str)
    )
    if n_characters <= MAX_INLINE_CHARACTERS:
        examples = split()
    else:
        loop = asyncio.get_running_loop()
        examples = await loop.run_in_executor(call.state.tokenizing, split)
    for number, example in enumerate(examples):
        for words in example.texts:
            check_words(words, f"{PLACE}[{number}]", call.config)
    call.facts.n_sentences = len(examples)
    call.facts.n_words = sum(len(words) for example in examples for words in example.texts)
    check_total(call.facts.n_words, call.config)
    predictions = await call.compute(PredictTask(task), examples)
    return json_response({"task": task.task_name, "predictions": predictions})


def read_texts(value: object, place: str, task: LoadedTask, call: ApiCall) -> list[Text]:
    """Return the texts of an input: one, or a list of several if the task needs them."""
    if task.n_inputs > 1:
        texts = as_list(value, place, task.n_inputs)
        if len(texts) != task.n_inputs:
            raise invalid(f"{place} must be a list of {task.n_inputs} texts (got {len(texts)}).")
        return [
            read_text(text, f"{place}[{number}]", call.config) for number, text in enumerate(texts)
        ]
    if task.is_document and isinstance(value, list) and value and isinstance(value[0], list):
        sentences = [
            read_text(words, f"{place}[{number}]", call.config)
            for number, words in enumerate(as_list(value, place, call.config.max_sentences))
        ]
        if any(isinstance(words, str) for words in sentences):
            raise invalid(f"{place} must be a list of sentences that are lists of words.")
        return [cast(Sequence[Sequence[str]], sentences)]
    return [read_text(value, place, call.config)]


def make_examples(texts: Sequence[list[Text]], task: LoadedTask) -> list[Example[object]]:
    """Return the examples of a request, split into words."""
    examples = []
    for number, of_input in enumerate(texts):
        try:
            examples.append(task.make_example(of_input))
        except ElmoError as error:
            raise invalid(f"{PLACE}[{number}]: {error}") from None
    return examples


PREDICT_TASK = Endpoint(
    "/tasks/{name}",
    predict_task,
    "Predictions of a task model",
    {
        PLACE: {
            "description": "Texts: strings or lists of words. For tasks with two texts, such as "
            "sentence pairs, lists of two. For coreference, documents: strings, lists of words, or "
            "lists of sentences.",
            "type": "array",
            "items": {"anyOf": [TEXT, {"type": "array"}]},
        },
    },
    (PLACE,),
    {PLACE: ["What a lovely film!"]},
    object_of(
        {
            "task": {"type": "string"},
            "predictions": {
                "description": "One object per input, as in the lines of `elmo task predict`.",
                "type": "array",
                "items": {"type": "object"},
            },
        }
    ),
)
