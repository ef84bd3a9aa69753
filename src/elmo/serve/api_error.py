"""Errors that clients of the server receive, all in the form that OpenAI uses."""

import orjson
from starlette.requests import Request
from starlette.responses import Response

# A connection can be used again after an error if the rest of the request is at most this long.
MAX_UNREAD_BYTES = 65_536
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "unavailable_error",
    504: "timeout_error",
}


class ApiError(Exception):
    """An error with a status and a message for the client."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        """Create the error; without a type of its own, a status is that of an invalid request."""
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = headers or {}

    @property
    def type(self) -> str:
        """Type of the error, by status."""
        return _TYPES.get(self.status, "invalid_request_error")


def invalid(message: str) -> ApiError:
    """Return the error of a field with a wrong value."""
    return ApiError(422, message)


def error_response(request: Request, error: ApiError) -> Response:
    """Return the answer for an error.

    The connection is closed if much of the request is still to be sent, or an unknown amount.
    """
    headers = dict(error.headers)
    length = request.headers.get("content-length", "0")
    is_short = length.isdigit() and int(length) <= MAX_UNREAD_BYTES
    if not is_short or "transfer-encoding" in request.headers:
        headers["connection"] = "close"
    content = {"error": {"message": error.message, "type": error.type}}
    return Response(orjson.dumps(content), error.status, headers, "application/json")
