"""POST /tokenize: words of texts."""

import orjson
from starlette.types import ASGIApp

from elmo.serve.api_call import ApiCall
from elmo.serve.endpoint import Endpoint
from elmo.serve.long_answer import LongAnswer, json_parts
from elmo.serve.routes.embed_route import to_json
from elmo.serve.routes.field_schemas import MODEL, OFFSETS, SENTENCES, WORDS, list_of, object_of


async def tokenize(call: ApiCall) -> ASGIApp:
    """Return the words of each sentence with offsets."""
    fields = await call.fields()
    model = await call.model(fields)
    sentences = await call.sentences(fields, model)
    items = ([orjson.dumps(to_json(sentence))] for sentence in sentences)
    return LongAnswer(json_parts({"model": model.name}, "sentences", items), call.state.turns)


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
