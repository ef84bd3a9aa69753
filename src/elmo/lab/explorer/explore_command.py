"""The `explore` command: writes a page that shows the units of a network over a text."""

from dataclasses import dataclass
from pathlib import Path

from elmo.config.look_inside import ExploreConfig
from elmo.lab.explorer.explore import explore


@dataclass(frozen=True)
class ExploreResult:
    """A written page.

    Attributes:
        page: Path of the page.
        megabytes: Size of the page.
    """

    page: str
    megabytes: float

    def __str__(self) -> str:
        """Return the path and the size."""
        return f"Wrote {self.page} ({self.megabytes:.1f} MB). Open it in a browser."


def explore_text(config: ExploreConfig) -> ExploreResult:
    """Read the text with the model and write the page."""
    page = explore(
        config.model,
        Path(config.text),
        compare=config.compare,
        kinds=config.kinds or None,
        all_units=config.all_units,
        units=config.units,
        max_positions=config.max_positions,
        n_guesses=config.guesses,
        device=config.device,
    )
    path = page.save(config.out)
    return ExploreResult(str(path), path.stat().st_size / 1e6)
