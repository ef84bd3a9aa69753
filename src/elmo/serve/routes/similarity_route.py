"""POST /similarity: cosines of sentences, or of words with one word."""

from starlette.types import ASGIApp

from elmo.semantics.word_similarity import cosines_to_word, sentence_cosines
from elmo.serve.api_call import ApiCall
from elmo.serve.api_error import invalid
from elmo.serve.endpoint import Endpoint
from elmo.serve.long_answer import LongAnswer, json_parts, record_parts
from elmo.serve.operations import EmbedWords
from elmo.serve.request_fields import as_index, as_list
from elmo.serve.routes.embed_route import pooled, to_json
from elmo.serve.routes.field_schemas import (
    LAYERS,
    MODEL,
    OFFSETS,
    POOLINGS,
    SENTENCES,
    WORDS,
    list_of,
    object_of,
)
from elmo.serve.vector_formats import as_numbers


async def similarity(call: ApiCall) -> ASGIApp:
    """Return cosines between all sentences or, with a word, of all words with it."""
    fields = await call.fields()
    layers = fields.layers()
    pooling = fields.choice("pooling", POOLINGS, "mean")
    target = fields.optional("word")
    model = await call.model(fields)
    if call.check_layers(model, layers) > 1:
        raise invalid("layers must be one layer or a mean of layers, not all.")
    sentences = await call.sentences(fields, model)
    indices: tuple[int, int] | None = None
    if target is not None:
        pair = as_list(target, "word", 2)
        if len(pair) != 2:
            raise invalid("word must be the indices of a sentence and of its word.")
        number = as_index(pair[0], "word[0]", len(sentences))
        indices = number, as_index(pair[1], "word[1]", len(sentences[number].words))
    words = [sentence.words for sentence in sentences]
    # Vectors of the words, and of the sentences before and after normalization.
    n_values = model.elmo.config.dim * (sum(map(len, words)) + 2 * len(words))
    vectors = await call.compute(EmbedWords(model, layers), words, n_values)
    records = map(to_json, sentences)
    head: dict[str, object] = {"model": model.name, "layers": layers}
    turns = call.state.turns
    if indices is not None:
        cosines = cosines_to_word(vectors, *indices)
        items = (
            record_parts(record, "cosines", as_numbers(values))
            for record, values in zip(records, cosines, strict=True)
        )
        return LongAnswer(json_parts(head, "sentences", items), turns)
    head |= {"pooling": pooling, "sentences": list(records)}
    rows = sentence_cosines(await pooled(vectors, pooling, turns))
    return LongAnswer(json_parts(head, "cosines", map(as_numbers, rows)), turns)


NUMBERS = {"type": "array", "items": {"type": "number"}}
SIMILARITY = Endpoint(
    "/similarity",
    similarity,
    "Cosines between sentences, or of all words with one word",
    {
        "sentences": SENTENCES,
        "word": {
            "description": "Indices of a sentence and of its word: return the cosine of each word "
            "with this one. Default: return the cosines between all sentences.",
            "type": ["array", "null"],
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
        },
        "pooling": {
            "description": "Pooling of the words of a sentence. Default: mean.",
            "enum": [*POOLINGS, None],
        },
        "layers": LAYERS,
        "model": MODEL,
    },
    ("sentences",),
    {"sentences": ["He sat on the river bank.", "Banks lend money."], "word": [0, 5]},
    object_of(
        {
            "model": {"type": "string"},
            "layers": {"type": "string"},
            "pooling": {"type": "string"},
            "sentences": list_of({"words": WORDS, "offsets": OFFSETS, "cosines": NUMBERS}),
            "cosines": {"type": "array", "items": NUMBERS},
        }
    ),
)
