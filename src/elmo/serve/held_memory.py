"""Memory that bodies and answers of requests in progress need, with a limit for all of them."""

from elmo.serve.api_error import ApiError, invalid
from elmo.serve.fair_limit import FairLimit


class HeldMemory:
    """Number of bytes that are held for all requests.

    Attributes:
        n_freed: Number of bytes that were released, or rejected, since the start.
    """

    def __init__(self, limit: int) -> None:
        """Begin with nothing held; `limit` is in bytes, a `FairLimit`."""
        self._limit = FairLimit(limit)
        self.n_freed = 0

    @property
    def limit(self) -> int:
        """Number of bytes that all requests may hold."""
        return self._limit.limit

    @property
    def n_bytes(self) -> int:
        """Number of bytes that are held now."""
        return self._limit.n_held

    def has_room(self, host: str, n_bytes: int) -> bool:
        """Return whether a host may hold so many bytes more."""
        return self._limit.has_room(host, n_bytes)

    def add(self, host: str, n_bytes: int) -> None:
        """Hold bytes for a host."""
        self._limit.add(host, n_bytes)

    def release(self, host: str, n_bytes: int) -> None:
        """Release bytes that are held for a host."""
        self._limit.release(host, n_bytes)
        self.n_freed += n_bytes

    def reserve(self, host: str) -> "MemoryReservation":
        """Return the reservation for a request of a host, which is empty at first."""
        return MemoryReservation(self, host)


class MemoryReservation:
    """Bytes that are held for one request, a context manager that releases them.

    Attributes:
        n_bytes: Number of bytes that are held.
    """

    def __init__(self, memory: HeldMemory, host: str) -> None:
        """Hold nothing yet."""
        self._memory, self._host, self.n_bytes = memory, host, 0

    def add(self, n_bytes: int) -> None:
        """Hold more bytes, or raise `ApiError` if there are too many for all requests."""
        memory = self._memory
        if n_bytes and not memory.has_room(self._host, n_bytes):
            memory.n_freed += n_bytes
            if self.n_bytes + n_bytes > memory.limit:
                # Another attempt would fail, too.
                raise invalid(
                    "The request and its answer need more memory than the server has for all "
                    f"requests, {memory.limit:,} bytes. Send several requests."
                )
            raise ApiError(
                429, "The requests in progress need too much memory.", {"retry-after": "1"}
            )
        self.add_beyond_limit(n_bytes)

    def add_beyond_limit(self, n_bytes: int) -> None:
        """Hold more bytes for an answer that has already begun."""
        self._memory.add(self._host, n_bytes)
        self.n_bytes += n_bytes

    def release(self, n_bytes: int) -> None:
        """Release a part of the bytes."""
        self._memory.release(self._host, n_bytes)
        self.n_bytes -= n_bytes

    def __enter__(self) -> "MemoryReservation":
        return self

    def __exit__(self, *error: object) -> None:
        self.release(self.n_bytes)
