"""The `explore` command: writes a page that shows the units of a network over a text."""

from dataclasses import dataclass
from pathlib import Path

from elmo.config.look_inside import ExploreConfig
from elmo.lab.explorer.explore import explorer_page, read_models


@dataclass(frozen=True)
class ExploreResult:
    """A written page.

    Attributes:
        page: Path of the page.
        megabytes: Size of the page.
        note: How much of the text was read; empty if all of it was.
    """

    page: str
    megabytes: float
    note: str = ""

    def __str__(self) -> str:
        """Return the path and the size."""
        note = f"{self.note} " if self.note else ""
        return f"{note}Wrote {self.page} ({self.megabytes:.1f} MB). Open it in a browser."


def explore_text(config: ExploreConfig) -> ExploreResult:
    """Read the text with the model and write the page."""
    traces = read_models(
        [config.model] if config.compare is None else [config.model, config.compare],
        Path(config.text),
        kinds=config.kinds or None,
        max_positions=config.max_positions,
        n_guesses=config.guesses,
        device=config.device,
    )
    page = explorer_page(traces, all_units=config.all_units, units=config.units)
    path = page.save(config.out)
    notes = dict.fromkeys(each.note for each in traces.values() if each.note)
    return ExploreResult(str(path), path.stat().st_size / 1e6, " ".join(notes))
