"""Options of the search for similar occurrences."""

from dataclasses import dataclass

from elmo.config.bounds import require_at_least_one
from elmo.config.tasks import TaskOptions


@dataclass(frozen=True)
class NearestOccurrencesOptions(TaskOptions):
    """Nearest occurrences."""

    n_nearest: int = 3
    """Number of occurrences to return."""
    max_per_word: int = 1000
    """Maximum number of occurrences to store per word. With the bundled models, each takes 1
    kB."""

    def __post_init__(self) -> None:
        require_at_least_one(self, "n_nearest", "max_per_word")
