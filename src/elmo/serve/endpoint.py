"""A path of the server: its handler, and its description for the OpenAPI document."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo.serve.api_call import ApiCall, full, stopping
from elmo.serve.api_error import ApiError, error_response
from elmo.serve.limited_send import LimitedSend
from elmo.serve.request_facts import request_facts
from elmo.serve.server_state import ServerState

Schema = Mapping[str, object]


@dataclass(frozen=True)
class Endpoint:
    """A path and what it does.

    Attributes:
        path: Pattern of the path.
        handler: Function that returns the answer to a call.
        summary: What it does, in a few words.
        properties: JSON schema of each field of the body. Without any, the method is GET.
        required: Names of the fields that must be there.
        examples: Example of a body.
        answer: JSON schema of the answer, or its media type.
        media_types: Other media types of the answer, which the header Accept selects.
        statuses: Other statuses of the answer, with their meaning.
        is_limited: Whether it is rejected while shutting down.
        is_computed: Whether it needs the queue, and is rejected when this is full.
    """

    path: str
    handler: Callable[[ApiCall], Awaitable[ASGIApp]]
    summary: str
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    example: Mapping[str, object] | None = None
    answer: Schema | str = field(default_factory=lambda: {"type": "object"})
    media_types: tuple[str, ...] = ()
    statuses: Mapping[int, str] = field(default_factory=dict)
    is_limited: bool = True
    is_computed: bool = True

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "POST" if self.properties else "GET"


class EndpointApp:
    """ASGI application of an endpoint: admission, time limit, and errors."""

    def __init__(self, endpoint: Endpoint, state: ServerState) -> None:
        """Serve an endpoint."""
        self._endpoint, self._state = endpoint, state
        self._allowed = tuple(endpoint.properties)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        facts = request_facts(scope)
        facts.route = self._endpoint.path
        request, state = Request(scope, receive), self._state
        is_computed = self._endpoint.is_limited and self._endpoint.is_computed
        error: ApiError | None = None
        if self._endpoint.is_limited and state.is_stopping:
            error = stopping()
        elif is_computed and state.is_full(facts.network):
            error = full(state)
        if error is not None:
            return await error_response(request, error)(scope, receive, send)
        state.n_active += self._endpoint.is_limited
        state.computed.add(facts.network, is_computed)
        try:
            with state.memory.reserve(facts.network) as held:
                answer = await self._answer(ApiCall(request, state, held, self._allowed))
                if not self._endpoint.is_limited:
                    return await answer(scope, receive, send)
                try:
                    await answer(scope, receive, LimitedSend(send, held))
                except ApiError as error_of_answer:
                    await error_response(request, error_of_answer)(scope, receive, send)
        finally:
            state.n_active -= self._endpoint.is_limited
            state.computed.release(facts.network, is_computed)

    async def _answer(self, call: ApiCall) -> ASGIApp:
        seconds = call.config.timeout
        try:
            async with asyncio.timeout(seconds):
                return await self._endpoint.handler(call)
        except TimeoutError:
            error = ApiError(504, f"The request was not computed within {seconds:g} seconds.")
            return error_response(call.request, error)
        except ApiError as error:
            # A variable that outlives this clause would be in a reference cycle with its traceback.
            return error_response(call.request, error)
