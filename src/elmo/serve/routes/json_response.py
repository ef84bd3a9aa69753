"""Answers in JSON without vectors."""

import orjson
from starlette.responses import Response


def json_response(content: object, status: int = 200) -> Response:
    """Return an answer with JSON data, which can contain NumPy arrays."""
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, media_type="application/json")
