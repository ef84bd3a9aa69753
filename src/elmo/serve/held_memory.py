"""Memory that bodies and answers of requests in progress need, with a limit for all of them."""

from elmo.serve.api_error import ApiError


class HeldMemory:
    """Number of bytes that are held for all requests."""

    def __init__(self, limit: int) -> None:
        """Begin with nothing held; `limit` is in bytes."""
        self.limit, self.n_bytes = limit, 0

    def reserve(self) -> "MemoryReservation":
        """Return the reservation of a request, which is empty at first."""
        return MemoryReservation(self)


class MemoryReservation:
    """Bytes that are held for one request, a context manager that releases them."""

    def __init__(self, memory: HeldMemory) -> None:
        """Hold nothing yet."""
        self._memory, self._n_bytes = memory, 0

    def add(self, n_bytes: int) -> None:
        """Hold more bytes, or raise `ApiError` if there are too many for all requests."""
        if self._memory.n_bytes + n_bytes > self._memory.limit:
            raise ApiError(
                429, "The requests in progress need too much memory.", {"retry-after": "1"}
            )
        self._memory.n_bytes += n_bytes
        self._n_bytes += n_bytes

    def __enter__(self) -> "MemoryReservation":
        return self

    def __exit__(self, *error: object) -> None:
        self._memory.n_bytes -= self._n_bytes
        self._n_bytes = 0
