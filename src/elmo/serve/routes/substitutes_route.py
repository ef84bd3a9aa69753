"""POST /substitutes: likely words at a position."""

import orjson
from starlette.types import ASGIApp

from elmo.semantics.substitutes import SubstituteQuery
from elmo.serve.api_call import ApiCall
from elmo.serve.api_error import invalid
from elmo.serve.endpoint import Endpoint
from elmo.serve.long_answer import LongAnswer, json_parts
from elmo.serve.operations import FindSubstitutes
from elmo.serve.request_fields import as_index, as_list
from elmo.serve.request_sentences import read_text
from elmo.serve.routes.embed_route import to_json
from elmo.serve.routes.field_schemas import MODEL, OFFSETS, TEXT, WORDS, list_of, object_of

MAX_SUBSTITUTES = 100
DEFAULT_SUBSTITUTES = 10


async def substitutes(call: ApiCall) -> ASGIApp:
    """Return substitutes for words of a sentence."""
    fields = await call.fields()
    n = fields.integer("n", DEFAULT_SUBSTITUTES, 1, MAX_SUBSTITUTES)
    text = read_text(fields.required("sentence"), "sentence", call.config)
    model = await call.model(fields)
    call.check_softmax(model)
    (sentence,) = await call.split([text], model, "sentence")
    value, n_words = fields.optional("positions"), len(sentence.words)
    positions = list(range(n_words))
    if value is not None:
        positions = [
            as_index(item, f"positions[{number}]", n_words)
            for number, item in enumerate(as_list(value, "positions", n_words))
        ]
    if not positions:
        raise invalid("The sentence has no words." if value is None else "There are no positions.")
    query = SubstituteQuery(sentence.words, positions, n)
    (found,) = await call.compute(FindSubstitutes(model), [query])
    head = {"model": model.name, **to_json(sentence)}
    items = (
        [orjson.dumps({"position": position, "substitutes": of_position})]
        for position, of_position in zip(positions, found, strict=True)
    )
    return LongAnswer(json_parts(head, "positions", items), call.state.turns)


SUBSTITUTES = Endpoint(
    "/substitutes",
    substitutes,
    "Likely words at positions of a sentence, given the words before and after",
    {
        "sentence": {"description": "A string or a list of words.", **TEXT},
        "positions": {
            "description": "Indices of words. Default: all.",
            "type": ["array", "null"],
            "items": {"type": "integer"},
        },
        "n": {
            "description": "Number of words per position.",
            "type": ["integer", "null"],
            "minimum": 1,
            "maximum": MAX_SUBSTITUTES,
            "default": DEFAULT_SUBSTITUTES,
        },
        "model": MODEL,
    },
    ("sentence",),
    {"sentence": "He sat on the river bank.", "positions": [5], "n": 3},
    object_of(
        {
            "model": {"type": "string"},
            "words": WORDS,
            "offsets": OFFSETS,
            "positions": list_of(
                {
                    "position": {"type": "integer"},
                    "substitutes": list_of(
                        {"word": {"type": "string"}, "probability": {"type": "number"}}
                    ),
                }
            ),
        }
    ),
)
