"""POST /tasks/NAME: predictions of a task model."""

from collections.abc import Sequence
from typing import cast

from starlette.types import ASGIApp

from elmo.config.serve import ServeConfig
from elmo.errors import ElmoError
from elmo.serve.api_call import ApiCall
from elmo.serve.api_error import invalid
from elmo.serve.endpoint import Endpoint
from elmo.serve.loaded_task import LoadedTask
from elmo.serve.operations import PredictTask
from elmo.serve.request_fields import as_list
from elmo.serve.request_sentences import WordLimits, read_text
from elmo.serve.routes.field_schemas import TEXT, object_of
from elmo.serve.routes.json_response import json_response
from elmo.serve.split_texts import SplitTexts
from elmo.tasks.core.example import Example
from elmo.tasks.core.task import Text

PLACE = "inputs"


async def predict_task(call: ApiCall) -> ASGIApp:
    """Return the prediction for each input."""
    fields = await call.fields()
    values = as_list(fields.required(PLACE), PLACE, call.config.max_sentences)
    task = await call.task(call.request.path_params["name"])
    texts = [read_texts(value, f"{PLACE}[{n}]", task, call) for n, value in enumerate(values)]
    operation = SplitTexts(task.tokenizer, n_characters, ExampleMaker(task, call.config))
    examples = await call.split_items(operation, texts)
    call.facts.n_sentences = len(examples)
    call.facts.n_words = sum(len(words) for example in examples for words in example.texts)
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


def n_characters(texts: list[Text]) -> int:
    """Return the number of characters that the tokenizer splits in an input."""
    return sum(len(text) for text in texts if isinstance(text, str))


class ExampleMaker:
    """Splits the inputs of one request in order, and checks the number of words so far."""

    def __init__(self, task: LoadedTask, config: ServeConfig) -> None:
        """Begin a request."""
        self._task, self._limits = task, WordLimits(config)

    def __call__(self, texts: list[Text]) -> Example[object]:
        """Return the example of the next input."""
        try:
            example = self._task.make_example(texts)
        except ElmoError as error:
            raise invalid(f"{PLACE}[{self._limits.n_items}]: {error}") from None
        self._limits.add(example.texts, PLACE)
        return example


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
