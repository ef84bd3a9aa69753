"""Reading of a JSON body with limits on its type, size and time."""

import asyncio

import orjson
from starlette.requests import Request

from elmo.config.serve import ServeConfig
from elmo.serve.api_error import ApiError
from elmo.serve.held_memory import MemoryReservation
from elmo.serve.json_value_count import JsonValueCount

BODY_SECONDS = 10.0
# Characters of Content-Type that are read: 64 KiB of parameters took 0.1 s.
MAX_TYPE_CHARACTERS = 1000


async def read_json(request: Request, config: ServeConfig, held: MemoryReservation) -> object:
    """Return the parsed body.

    Args:
        request: The request, whose body is not read yet.
        config: Limits on its size and number of values.
        held: Reservation of the request, to which the body is added.

    Returns:
        JSON data.

    Raises:
        ApiError: The body is not JSON, too long, or too slow.
    """
    max_bytes = config.max_body_mb * 2**20
    _check_headers(request, max_bytes)
    values = JsonValueCount()
    parts: list[bytes] = []
    n_bytes = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                n_bytes += len(part)
                if n_bytes > max_bytes:
                    raise _too_long(f"is longer than {max_bytes:,} bytes")
                values.add(part)
                if values.n_values > config.max_values:
                    raise _too_long(f"has more than {config.max_values:,} JSON values")
                held.add(len(part))
                parts.append(part)
    except TimeoutError:
        # A proxy may send the next request on this connection, within the rest of the body.
        raise ApiError(
            408,
            f"The body did not arrive within {BODY_SECONDS:.0f} seconds.",
            {"connection": "close"},
        ) from None
    try:
        return orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError as error:
        # The message has the position but none of the text.
        raise ApiError(400, f"The body is not valid JSON: {error}") from None


def _check_headers(request: Request, max_bytes: int) -> None:
    """Raise an error if the headers announce a body that is not accepted."""
    content_type = request.headers.get("content-type", "")[:MAX_TYPE_CHARACTERS]
    media_type, *parameters = content_type.lower().split(";")
    names = [part.partition("=") for part in parameters]
    charsets = {value.strip(' "') for name, _, value in names if name.strip() == "charset"}
    is_utf8 = charsets <= {"utf-8", "utf8"}
    if media_type.strip() != "application/json" or not is_utf8:
        raise ApiError(415, "The body must be JSON in UTF-8, with Content-Type: application/json.")
    if request.headers.get("content-encoding", "").lower() not in ("", "identity"):
        raise ApiError(415, "A compressed body (Content-Encoding) is not supported.")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise _too_long(f"is longer than {max_bytes:,} bytes")


def _too_long(reason: str) -> ApiError:
    message = f"The body {reason}. Send several requests."
    return ApiError(413, message, {"connection": "close"})
