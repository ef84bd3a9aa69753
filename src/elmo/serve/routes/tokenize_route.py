"""POST /tokenize: words of texts."""

from starlette.types import ASGIApp

from elmo.serve.api_call import ApiCall
from elmo.serve.endpoint import Endpoint
from elmo.serve.routes.embed_route import to_json
from elmo.serve.routes.field_schemas import MODEL, OFFSETS, SENTENCES, WORDS, list_of, object_of
from elmo.serve.routes.json_response import json_response


async def tokenize(call: ApiCall) -> ASGIApp:
    """Return the words of each sentence with offsets."""
    fields = await call.fields()
    model = await call.model(fields)
    sentences = await call.sentences(fields, model)
    return json_response({"model": model.name, "sentences": list(map(to_json, sentences))})


TOKENIZE = Endpoint(
    "/tokenize",
    tokenize,
    "Words of sentences with offsets",
    {"sentences": SENTENCES, "model": MODEL},
    ("sentences",),
    {"sentences": ["He didn't sit."]},
    object_of(
        {"model": {"type": "string"}, "sentences": list_of({"words": WORDS, "offsets": OFFSETS})}
    ),
    is_computed=False,
)
