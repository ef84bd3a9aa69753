"""Paths of the OpenAI API: POST /v1/embeddings and GET /v1/models."""

from starlette.types import ASGIApp

from elmo.serve.api_call import ApiCall
from elmo.serve.api_error import invalid
from elmo.serve.endpoint import Endpoint
from elmo.serve.long_answer import LongAnswer, json_parts, record_parts
from elmo.serve.operations import EmbedWords
from elmo.serve.request_fields import as_list, kind
from elmo.serve.request_sentences import Text, read_text
from elmo.serve.routes.embed_route import pooled
from elmo.serve.routes.field_schemas import MODEL, list_of, object_of
from elmo.serve.routes.json_response import json_response
from elmo.serve.vector_formats import as_base64, as_numbers

POOLING = "mean"


async def openai_embeddings(call: ApiCall) -> ASGIApp:
    """Return the mean vector of the words of each text."""
    fields = await call.fields()
    encode = as_numbers
    if fields.choice("encoding_format", ("float", "base64"), "float") == "base64":
        encode = as_base64
    fields.string("user")
    value = fields.required("input")
    texts: list[Text] = []
    values = (
        [value] if isinstance(value, str) else as_list(value, "input", call.config.max_sentences)
    )
    for number, text in enumerate(values):
        if not isinstance(text, str):
            raise invalid(
                f"input[{number}] must be a string, not {kind(text)}. Token ids are not supported."
            )
        texts.append(read_text(text, f"input[{number}]", call.config))
    model = await call.model(fields)
    dim = model.elmo.config.dim
    fields.integer("dimensions", dim, dim, dim)
    sentences = await call.split(texts, model, "input")
    n_words = sum(len(sentence.words) for sentence in sentences)
    words = [sentence.words for sentence in sentences]
    vectors = await call.compute(EmbedWords(model), words, dim * n_words)
    vectors = await pooled(vectors, POOLING, call.state.turns)
    head = {
        "object": "list",
        "model": model.name,
        "usage": {"prompt_tokens": n_words, "total_tokens": n_words},
    }
    items = (
        record_parts({"object": "embedding", "index": number}, "embedding", encode(values))
        for number, values in enumerate(vectors)
    )
    return LongAnswer(json_parts(head, "data", items), call.state.turns)


async def openai_models(call: ApiCall) -> ASGIApp:
    """Return the names of the models."""
    models = [
        {"id": name, "object": "model", "created": 0, "owned_by": "elmo"}
        for name in call.state.table.models
    ]
    return json_response({"object": "list", "data": models})


OPENAI_EMBEDDINGS = Endpoint(
    "/v1/embeddings",
    openai_embeddings,
    "Vectors of texts, as in the OpenAI API: the mean over the words of each text",
    {
        "input": {
            "description": "One text or a list of texts.",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        },
        "model": MODEL,
        "encoding_format": {
            "description": "Lists of numbers, or float32 numbers as base64.",
            "enum": ["float", "base64", None],
        },
        "dimensions": {
            "description": "Dimension of the model; no other is possible.",
            "type": ["integer", "null"],
        },
        "user": {"description": "Ignored.", "type": ["string", "null"]},
    },
    ("input",),
    {"input": ["He sat on the river bank."], "model": None, "encoding_format": "float"},
    object_of(
        {
            "object": {"const": "list"},
            "model": {"type": "string"},
            "usage": {"type": "object"},
            "data": list_of(
                {
                    "object": {"const": "embedding"},
                    "index": {"type": "integer"},
                    "embedding": {"type": ["array", "string"]},
                }
            ),
        }
    ),
)
OPENAI_MODELS = Endpoint(
    "/v1/models",
    openai_models,
    "Names of the models, as in the OpenAI API",
    answer=object_of(
        {
            "object": {"const": "list"},
            "data": list_of(
                {
                    "id": {"type": "string"},
                    "object": {"const": "model"},
                    "created": {"type": "integer"},
                    "owned_by": {"type": "string"},
                }
            ),
        }
    ),
    is_limited=False,
)
