"""Who may send requests: names of the server, web pages, the token, addresses behind a proxy."""

import hmac
import os
from collections.abc import Collection
from pathlib import Path

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from elmo.errors import ConfigError
from elmo.serve.api_error import ApiError, error_response
from elmo.serve.client_network import plain_address

TOKEN_VARIABLE = "ELMO_SERVE_TOKEN"
# Paths for probes, which often use an address instead of the name of the server.
PROBED_PATHS = ("/health", "/ready")
# Paths that need no token.
OPEN_PATHS = ("/", *PROBED_PATHS, "/openapi.json")


def read_token(path: str | None) -> str | None:
    """Return the token in a file, else that of the environment variable, else None."""
    if path is None:
        token = os.environ.get(TOKEN_VARIABLE)
        name = f"${TOKEN_VARIABLE}"
    else:
        try:
            token = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"--token-file {path} cannot be read: {error}") from None
        name = f"--token-file {path}"
    if token is None:
        return None
    token = token.strip()
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ConfigError(f"The token in {name} must be one word of printable ASCII characters.")
    return token


class HostCheck:
    """Middleware that rejects requests for other names of the server.

    Without it, a web page could reach a local server through a name of its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        """Wrap an application; no names accept any."""
        self._app = app
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 if the header Host has another name, except for probes."""
        if scope["type"] == "http" and self._names and scope["path"] not in PROBED_PATHS:
            request = Request(scope)
            name = _without_port(request.headers.get("host", ""))
            if name not in self._names or len(request.headers.getlist("host")) != 1:
                error = ApiError(
                    403,
                    "This name of the server is not accepted. If it is correct, start the server "
                    "with --allowed-host NAME.",
                )
                return await error_response(request, error)(scope, receive, send)
        await self._app(scope, receive, send)


class OriginCheck(CORSMiddleware):
    """Middleware that lets web pages of some other origins send requests (CORS)."""

    METHODS = ("GET", "POST")
    HEADERS = ("Authorization", "Content-Type")

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        """Wrap an application and name the origins, such as `https://example.org`."""
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=self.METHODS,
            allow_headers=self.HEADERS,
            expose_headers=["X-Request-Id", "Retry-After"],
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the answer to the question of a browser whether a page may send a request."""
        answer = super().preflight_response(request_headers)
        if answer.status_code == 200:
            return answer
        if self.is_allowed_origin(request_headers["origin"]):
            text = (
                "Web pages of this origin may only use the methods "
                f"{' and '.join(self.METHODS)} and the headers {' and '.join(self.HEADERS)}, and "
                "may not ask for access to a private network."
            )
        else:
            text = (
                "Web pages of this origin may not send requests. To allow them, start the server "
                "with --cors-origin ORIGIN."
            )
        headers = {
            name: value
            for name, value in answer.headers.items()
            if name not in ("content-length", "content-type")
        }
        request = Request({"type": "http", "headers": request_headers.raw})
        return error_response(request, ApiError(403, text, headers))


class TokenCheck:
    """Middleware that requires a bearer token, except for some paths."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        """Wrap an application; without a token, all requests pass."""
        self._app = app
        self._expected = None if token is None else token.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 if the token is missing or wrong."""
        if scope["type"] == "http" and self._expected and scope["path"] not in OPEN_PATHS:
            request = Request(scope)
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            # The time of the comparison does not depend on the number of equal characters.
            is_equal = hmac.compare_digest(token.strip().encode(), self._expected)
            if scheme.lower() != "bearer" or not is_equal:
                error = ApiError(
                    401,
                    "The token is missing or wrong. Send it as Authorization: Bearer TOKEN.",
                    {"www-authenticate": "Bearer"},
                )
                return await error_response(request, error)(scope, receive, send)
        await self._app(scope, receive, send)


def client_host(scope: Scope, trusted_proxies: Collection[str]) -> str:
    """Return the address of the client; that before trusted proxies, if it came through one."""
    host = plain_address(scope["client"][0]) if scope.get("client") else ""
    if host not in trusted_proxies:
        return host
    forwarded = ",".join(Request(scope).headers.getlist("x-forwarded-for"))
    for address in reversed(forwarded.split(",")):
        host = plain_address(address.strip()[:64]) or host
        if host not in trusted_proxies:
            break
    return host


def _without_port(value: str) -> str:
    """Return the name in a header Host, in lowercase; an IPv6 address without brackets."""
    if value.startswith("["):
        return value[1:].partition("]")[0].lower()
    return value.partition(":")[0].lower()
