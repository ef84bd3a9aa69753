"""POST /neighbors: words of English example sentences with the nearest vectors."""

import asyncio
from dataclasses import asdict

from starlette.types import ASGIApp

from elmo.errors import MissingExtra, shortened
from elmo.formats.attribution import LANGUAGE, includes_english
from elmo.serve.api_call import ApiCall
from elmo.serve.api_error import invalid
from elmo.serve.endpoint import Endpoint
from elmo.serve.example_words import ExampleWords
from elmo.serve.loaded_model import LoadedModel
from elmo.serve.operations import EmbedWords
from elmo.serve.request_fields import as_index
from elmo.serve.request_sentences import read_text
from elmo.serve.routes.embed_route import to_json
from elmo.serve.routes.field_schemas import LAYERS, MODEL, OFFSETS, TEXT, WORDS, list_of, object_of
from elmo.serve.routes.json_response import json_response

MAX_NEIGHBORS = 100
DEFAULT_NEIGHBORS = 10
# Example sentences whose vectors are computed at a time.
PART = 50


async def neighbors(call: ApiCall) -> ASGIApp:
    """Return the words of the example sentences that are nearest to a word in its sentence."""
    fields = await call.fields()
    n = fields.integer("n", DEFAULT_NEIGHBORS, 1, MAX_NEIGHBORS)
    layers = fields.layers()
    text = read_text(fields.required("sentence"), "sentence", call.config)
    value = fields.required("position")
    model = await call.model(fields)
    if not includes_english(model.elmo.attribution):
        raise invalid(
            f"The example sentences are English, but the language of {model.name} is "
            f"{shortened(model.elmo.attribution[LANGUAGE], 80)}."
        )
    if call.check_layers(model, layers) > 1:
        raise invalid("layers must be one layer or a mean of layers, not all.")
    (sentence,) = await call.split([text], model, "sentence")
    position = as_index(value, "position", len(sentence.words))
    examples = await example_words(call, model, layers)
    (vectors,) = await call.compute(EmbedWords(model, layers), [sentence.words])
    records = [
        {**asdict(word), "cosine": cosine}
        for word, cosine in examples.nearest(vectors[position], n)
    ]
    head = {"model": model.name, "layers": layers, **to_json(sentence), "position": position}
    return json_response({**head, "neighbors": records})


async def example_words(call: ApiCall, model: LoadedModel, layers: str) -> ExampleWords:
    """Return the example words; the first request of a model and layers computes their vectors."""
    known = call.state.example_words
    if (model.name, layers) not in known:
        try:
            tokenizer = model.elmo.tokenizer
        except MissingExtra as error:
            raise invalid(f"The tokenizer of {model.name} is not installed. {error}") from None
        split = await asyncio.to_thread(ExampleWords, tokenizer)
        known.setdefault((model.name, layers), split)
    examples = known[model.name, layers]
    async with examples.lock:
        while not examples.is_complete:
            part = examples.sentences[examples.n_done : examples.n_done + PART]
            examples.add(await call.compute(EmbedWords(model, layers), part))
    return examples


NEIGHBORS = Endpoint(
    "/neighbors",
    neighbors,
    "Words of 300 English example sentences with the nearest vectors to a word in its sentence",
    {
        "sentence": {"description": "A string or a list of words.", **TEXT},
        "position": {"description": "Index of the word.", "type": "integer"},
        "n": {
            "description": "Number of words.",
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": MAX_NEIGHBORS,
            "default": DEFAULT_NEIGHBORS,
        },
        "layers": LAYERS,
        "model": MODEL,
    },
    ("sentence", "position"),
    {"sentence": "He sat on the river bank.", "position": 5, "n": 3, "layers": "top"},
    object_of(
        {
            "model": {"type": "string"},
            "layers": {"type": "string"},
            "words": WORDS,
            "offsets": OFFSETS,
            "position": {"type": "integer"},
            "neighbors": list_of(
                {
                    "word": {"type": "string"},
                    "sentence": {"type": "string"},
                    "start": {"type": "integer"},
                    "end": {"type": "integer"},
                    "sense": {
                        "description": "Sense of the word, if it is one of ten ambiguous words.",
                        "type": ["string", "null"],
                    },
                    "cosine": {"type": "number"},
                }
            ),
        }
    ),
)
