"""POST /score: log-probabilities of words."""

from starlette.types import ASGIApp

from elmo.serve.api_call import ApiCall
from elmo.serve.endpoint import Endpoint
from elmo.serve.operations import ScoreWords
from elmo.serve.routes.embed_route import to_json
from elmo.serve.routes.field_schemas import MODEL, OFFSETS, SENTENCES, WORDS, list_of, object_of
from elmo.serve.routes.json_response import json_response


async def score(call: ApiCall) -> ASGIApp:
    """Return the scores of the words of each sentence."""
    fields = await call.fields()
    model = await call.model(fields)
    call.check_softmax(model)
    sentences = await call.sentences(fields, model)
    scores = await call.compute(ScoreWords(model), [sentence.words for sentence in sentences])
    records = [
        {
            **to_json(sentence),
            "forward": item.forward,
            "backward": item.backward,
            "end": item.end,
            "begin": item.begin,
            "is_known": item.is_known,
        }
        for sentence, item in zip(sentences, scores, strict=True)
    ]
    return json_response({"model": model.name, "sentences": records})


NUMBERS = {"type": "array", "items": {"type": "number"}}
SCORE = Endpoint(
    "/score",
    score,
    "Natural log-probabilities of words, given the words before (forward) and after (backward)",
    {"sentences": SENTENCES, "model": MODEL},
    ("sentences",),
    {"sentences": ["He sat on the river bank."]},
    object_of(
        {
            "model": {"type": "string"},
            "sentences": list_of(
                {
                    "words": WORDS,
                    "offsets": OFFSETS,
                    "forward": NUMBERS,
                    "backward": NUMBERS,
                    "end": {
                        "description": "Log-probability of the end, given all words.",
                        "type": "number",
                    },
                    "begin": {
                        "description": "Log-probability of the beginning, given all words.",
                        "type": "number",
                    },
                    "is_known": {
                        "description": "Whether each word is in the vocabulary of the softmax. "
                        "Other words have the scores of <UNK>.",
                        "type": "array",
                        "items": {"type": "boolean"},
                    },
                }
            ),
        }
    ),
)
