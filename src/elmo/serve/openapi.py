"""The OpenAPI document, built from the endpoints."""

import re
from collections.abc import Sequence

from elmo import __version__
from elmo.serve.access_control import OPEN_PATHS, PROBED_PATHS
from elmo.serve.endpoint import Endpoint, Schema

_ERRORS = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    403: "This name of the server is not accepted.",
    404: "There is no such model, task or path.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "The body has another type than JSON.",
    422: "A field is missing or has a wrong value, or a limit is exceeded.",
    429: "The server has too many requests; Retry-After has the seconds to wait.",
    500: "The server failed.",
    503: "The model cannot be loaded, or the server is shutting down.",
    504: "The request was not computed in time.",
}
_ERROR = {"$ref": "#/components/schemas/Error"}


def openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, object]:
    """Return the document."""
    paths = {
        endpoint.path: {endpoint.method.lower(): _operation(endpoint)} for endpoint in endpoints
    }
    message = {"message": {"type": "string"}, "type": {"type": "string"}}
    error = {"type": "object", "properties": message, "required": ["message", "type"]}
    return {
        "openapi": "3.1.0",
        "info": {"title": "elmo serve", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {"type": "object", "properties": {"error": error}, "required": ["error"]}
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, object]:
    media_type, answer = "application/json", endpoint.answer
    if isinstance(answer, str):
        media_type, answer = answer, {"type": "string"}
    content: dict[str, object] = {media_type: {"schema": answer}}
    binary = {other: {"schema": {"type": "string"}} for other in endpoint.media_types}
    answers = {200: {"description": "The answer.", "content": {**content, **binary}}} | {
        status: {"description": text, "content": content}
        for status, text in endpoint.statuses.items()
    }
    errors = {
        status: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
        for status, text in _ERRORS.items()
        if status in _statuses(endpoint)
    }
    responses = {str(status): text for status, text in (errors | answers).items()}
    operation: dict[str, object] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "responses": responses,
        # A token is only needed if the server has one.
        "security": [{}] if endpoint.path in OPEN_PATHS else [{}, {"token": []}],
    }
    if names := re.findall(r"{(\w+)}", endpoint.path):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in names
        ]
    if endpoint.properties:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": _body(endpoint)},
        }
    return operation


def _statuses(endpoint: Endpoint) -> set[int]:
    """Return the statuses of errors that an endpoint can answer with."""
    statuses = set(_ERRORS) if endpoint.properties else {401, 403, 500}
    if endpoint.path in OPEN_PATHS:
        statuses.remove(401)
    if endpoint.path in PROBED_PATHS:
        statuses.remove(403)
    return statuses


def _body(endpoint: Endpoint) -> Schema:
    schema = {
        "type": "object",
        "properties": endpoint.properties,
        "required": list(endpoint.required),
        "additionalProperties": False,
    }
    return {"schema": schema, "example": endpoint.example}
