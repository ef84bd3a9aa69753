"""Errors that a connection sends itself, because no handler of the application knows of them."""

from http import HTTPStatus

from starlette.requests import Request

from elmo.serve.api_error import ApiError, error_response


def error_bytes(error: ApiError) -> bytes:
    """Return an answer with an error, after which the connection is closed."""
    answer = error_response(Request({"type": "http", "headers": []}), error)
    answer.headers["connection"] = "close"
    lines = [b"%s: %s\r\n" % header for header in answer.raw_headers]
    reason = HTTPStatus(error.status).phrase
    start = f"HTTP/1.1 {error.status} {reason}\r\n".encode("ascii")
    return b"".join([start, *lines, b"\r\n", answer.body])


def unavailable(message: str) -> ApiError:
    """Return the error of a server that cannot answer now."""
    return ApiError(503, message, {"retry-after": "1"})
