"""POST /embed: vectors of words, or of sentences."""

from collections.abc import Sequence

import torch
from starlette.types import ASGIApp

from elmo.embed.layer_selection import pool
from elmo.serve.accepted_types import is_preferred
from elmo.serve.api_call import ApiCall
from elmo.serve.endpoint import Endpoint
from elmo.serve.long_answer import JSON, AnswerTurns, LongAnswer, json_parts, record_parts
from elmo.serve.operations import EmbedWords
from elmo.serve.request_sentences import RequestSentence
from elmo.serve.routes.field_schemas import (
    FORMATS,
    LAYERS,
    MODEL,
    OFFSETS,
    POOLINGS,
    SENTENCES,
    WORDS,
    list_of,
    object_of,
)
from elmo.serve.vector_formats import (
    SAFETENSORS,
    Vectors,
    as_array_record,
    as_numbers,
    safetensors_answer,
)


async def embed(call: ApiCall) -> ASGIApp:
    """Return the vectors of each sentence, in the requested format."""
    fields = await call.fields()
    layers, pooling = fields.layers(), fields.string("pooling")
    if pooling is not None:
        pooling = fields.choice("pooling", POOLINGS, "")
    encoding = fields.choice("format", FORMATS, "json")
    model = await call.model(fields)
    n_arrays = call.check_layers(model, layers)
    sentences = await call.sentences(fields, model)
    dim = model.elmo.config.dim
    n_values = n_arrays * dim * sum(len(sentence.words) for sentence in sentences)
    words = [sentence.words for sentence in sentences]
    vectors = await call.compute(EmbedWords(model, layers), words, n_values)
    name = "vectors"
    if pooling is not None:
        vectors, name = await pooled(vectors, pooling, call.state.turns), "vector"
    head = {"model": model.name, "layers": layers, "pooling": pooling, "dimension": dim}
    accept = ",".join(call.request.headers.getlist("accept"))
    if is_preferred(accept, SAFETENSORS, JSON):
        metadata: dict[str, object] = {
            key: value for key, value in head.items() if value is not None
        }
        metadata["sentences"] = list(map(to_json, sentences))
        return safetensors_answer(vectors, metadata, call.state.turns)
    encode = as_numbers if encoding == "json" else as_array_record
    items = (
        record_parts(to_json(sentence), name, encode(values))
        for sentence, values in zip(sentences, vectors, strict=True)
    )
    return LongAnswer(json_parts(head, "sentences", items), call.state.turns)


async def pooled(vectors: Sequence[Vectors], pooling: str, turns: AnswerTurns) -> list[Vectors]:
    """Return one vector per sentence."""
    items = (pool(torch.from_numpy(values), pooling).numpy() for values in vectors)
    return [item async for item in turns.each(items)]


def to_json(sentence: RequestSentence) -> dict[str, object]:
    """Return the words of a sentence and, if there are, their offsets."""
    record: dict[str, object] = {"words": sentence.words}
    return record if sentence.offsets is None else {**record, "offsets": sentence.offsets}


VECTORS = {
    "description": "(words, dimension), or (layers, words, dimension) for all layers. "
    "With the format base64, an object with dtype, shape and base64.",
    "anyOf": [
        {"type": "array"},
        object_of(
            {
                "dtype": {"type": "string"},
                "shape": {"type": "array", "items": {"type": "integer"}},
                "base64": {"type": "string"},
            }
        ),
    ],
}
EMBED = Endpoint(
    "/embed",
    embed,
    "Vectors of words or of sentences",
    {
        "sentences": SENTENCES,
        "model": MODEL,
        "layers": LAYERS,
        "pooling": {
            "description": "Return one vector per sentence instead of one per word.",
            "enum": [*POOLINGS, None],
        },
        "format": {
            "description": "Vectors as lists of numbers (json) or as base64. With the header "
            f"Accept: {SAFETENSORS}, the answer is a safetensors file.",
            "enum": [*FORMATS, None],
        },
    },
    ("sentences",),
    {"sentences": ["He sat on the river bank.", ["Banks", "lend", "money", "."]]},
    object_of(
        {
            "model": {"type": "string"},
            "layers": {"type": "string"},
            "pooling": {"type": ["string", "null"]},
            "dimension": {"type": "integer"},
            "sentences": list_of(
                {"words": WORDS, "offsets": OFFSETS, "vectors": VECTORS, "vector": VECTORS}
            ),
        }
    ),
    media_types=(SAFETENSORS,),
)
