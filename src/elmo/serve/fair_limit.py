"""A limit for all hosts together, which one host cannot use up for the others."""

from collections import Counter

# Part of the limit below which a host holds little.
SMALL_PART = 16
# Part of the limit by which hosts that hold little can exceed it.
EXTRA_PART = 4


class FairLimit:
    """Amounts held by hosts, with a limit on their sum.

    A host that holds little is admitted when others have reached the limit, up to a second limit
    that is larger by a quarter.

    Attributes:
        limit: Maximum of the sum.
        n_held: The sum.
    """

    def __init__(self, limit: int) -> None:
        """Begin with nothing held."""
        self.limit, self.n_held = limit, 0
        self._of_host: Counter[str] = Counter()

    def has_room(self, host: str, amount: int = 1) -> bool:
        """Return whether a host may hold this amount more."""
        is_small = (self._of_host[host] + amount) * SMALL_PART <= self.limit
        extra = self.limit // EXTRA_PART if is_small else 0
        return self.n_held + amount <= self.limit + extra

    def add(self, host: str, amount: int = 1) -> None:
        """Hold an amount for a host."""
        self.n_held += amount
        self._of_host[host] += amount

    def release(self, host: str, amount: int = 1) -> None:
        """Release an amount that a host holds."""
        self.n_held -= amount
        self._of_host[host] -= amount
        if not self._of_host[host]:
            del self._of_host[host]
