"""JSON schemas of fields that several endpoints have."""

from typing import get_args

from elmo.config import Pooling
from elmo.serve.endpoint import Schema
from elmo.serve.vector_formats import VectorFormat

WORDS: Schema = {"type": "array", "items": {"type": "string"}}
TEXT: Schema = {"anyOf": [{"type": "string"}, WORDS]}
SENTENCES: Schema = {
    "description": "Sentences: strings, which the model's tokenizer splits, or lists of words. "
    "A single string is one sentence.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": TEXT}],
}
MODEL: Schema = {
    "description": "Name of the model. Default: the first model of the server.",
    "type": ["string", "null"],
}
LAYERS: Schema = {
    "description": "average, mix, top, all, or the number of a layer. Default: average.",
    "type": ["string", "integer", "null"],
}
POOLINGS: tuple[str, ...] = get_args(Pooling)
FORMATS: tuple[str, ...] = get_args(VectorFormat)
OFFSETS: Schema = {
    "description": "Start and end of each word in the text, in code points; only for strings.",
    "type": "array",
    "items": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
}


def list_of(properties: Schema) -> Schema:
    """Return the schema of a list of objects, all of whose properties are described."""
    return {"type": "array", "items": object_of(properties)}


def object_of(properties: Schema) -> Schema:
    """Return the schema of an object."""
    return {"type": "object", "properties": properties}
