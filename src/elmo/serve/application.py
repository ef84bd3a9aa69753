"""The ASGI application: endpoints behind the access log and the access checks."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from elmo.serve.access_control import HostCheck, OriginCheck, TokenCheck
from elmo.serve.access_log import AccessLog
from elmo.serve.api_call import ApiCall
from elmo.serve.api_error import ApiError, error_response
from elmo.serve.endpoint import Endpoint, EndpointApp
from elmo.serve.openapi import openapi_document
from elmo.serve.routes.embed_route import EMBED
from elmo.serve.routes.json_response import json_response
from elmo.serve.routes.neighbors_route import NEIGHBORS
from elmo.serve.routes.openai_route import OPENAI_EMBEDDINGS, OPENAI_MODELS
from elmo.serve.routes.playground_route import PLAYGROUND
from elmo.serve.routes.score_route import SCORE
from elmo.serve.routes.similarity_route import SIMILARITY
from elmo.serve.routes.status_routes import HEALTH, INFO, METRICS, READY
from elmo.serve.routes.substitutes_route import SUBSTITUTES
from elmo.serve.routes.task_route import PREDICT_TASK
from elmo.serve.routes.tokenize_route import TOKENIZE
from elmo.serve.server_state import ServerState

ENDPOINTS = (
    EMBED,
    OPENAI_EMBEDDINGS,
    OPENAI_MODELS,
    TOKENIZE,
    SCORE,
    SUBSTITUTES,
    SIMILARITY,
    NEIGHBORS,
    PREDICT_TASK,
    INFO,
    HEALTH,
    READY,
    METRICS,
    PLAYGROUND,
)


def create_app(
    state: ServerState,
    *,
    token: str | None = None,
    write_log: Callable[[str], object] | None = None,
) -> Starlette:
    """Return the application.

    Args:
        state: What all requests share. The caller starts its worker and loads its models.
        token: Bearer token that requests must have; None if they need none.
        write_log: Function that receives the lines of the access log; None for no log.
    """
    config = state.config
    endpoints = [*ENDPOINTS, _document_endpoint(ENDPOINTS)]
    origins = Middleware(OriginCheck, origins=config.cors_origin)
    app = Starlette(
        routes=[
            Route(endpoint.path, EndpointApp(endpoint, state), methods=[endpoint.method])
            for endpoint in endpoints
        ],
        middleware=[
            Middleware(
                AccessLog,
                metrics=state.metrics,
                trusted_proxies=config.trusted_proxy,
                write=write_log,
            ),
            Middleware(HostCheck, names=config.host_names),
            # Before the token, which the browser does not send when it asks for permission.
            *([origins] if config.cors_origin else []),
            Middleware(TokenCheck, token=token),
        ],
        exception_handlers={HTTPException: _unknown_path},
    )
    # A redirect would have the address that the client claims to have used.
    app.router.redirect_slashes = False
    return app


async def _unknown_path(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "There is no such path. GET /openapi.json describes all paths."
    if error.status_code == 405:
        text = "This path has another method. GET /openapi.json describes all paths."
    headers = dict(error.headers or {})
    return error_response(request, ApiError(error.status_code, text, headers))


def _document_endpoint(endpoints: Sequence[Endpoint]) -> Endpoint:
    document = openapi_document(endpoints)

    async def openapi(call: ApiCall) -> ASGIApp:
        return json_response(document)

    return Endpoint("/openapi.json", openapi, "This document", is_limited=False)
