"""The `explore` command: writes a page that shows the units of a network over a text."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elmo.config.look_inside import ExploreConfig, NetworkName
from elmo.lab.explorer.explore import explorer_page, read_models
from elmo.lab.units.annotated_text import read_annotated_text, text_of_file
from elmo.lab.units.read_traces import Model
from elmo.lab.units.saturation_figure import write_saturation
from elmo.lab.units.traces import UnitTraces


@dataclass(frozen=True)
class ExploreResult:
    """A written page.

    Attributes:
        page: Path of the page.
        megabytes: Size of the page.
        note: How much of the text was read, if not all of it, and how much of it is unknown to the
            model, if anything.
        files: Other files that were written.
    """

    page: str
    megabytes: float
    note: str = ""
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the path and the size."""
        note = f"{self.note} " if self.note else ""
        text = f"{note}Wrote {self.page} ({self.megabytes:.1f} MB). Open it in a browser."
        return " ".join([text, *(f"Wrote {name}." for name in self.files)])


def explore_text(config: ExploreConfig) -> ExploreResult:
    """Read the text with the model and write the page."""
    text = text_of_file(config.text, pretokenized=config.pretokenized)
    models: list[tuple[Model, NetworkName]] = [(config.model, config.network)]
    if config.compare is not None:
        models.append((config.compare, config.compare_network or config.network))
    traces = read_models(
        models,
        read_annotated_text(text).text,
        kinds=config.kinds or None,
        max_positions=config.max_positions,
        n_guesses=config.guesses,
        device=config.device,
    )
    files: list[str] = []
    if config.saturation is not None:
        files.append(str(write_saturation(traces, Path(config.saturation))))
    page = explorer_page(traces, all_units=config.all_units, units=config.units)
    path = page.save(config.out)
    return ExploreResult(str(path), path.stat().st_size / 1e6, _notes(traces), tuple(files))


def _notes(traces: Mapping[str, UnitTraces]) -> str:
    """Return the notes of the models, with their names if they differ."""
    notes = {name: each.notes for name, each in traces.items()}
    if len(set(notes.values())) == 1:
        return next(iter(notes.values()))
    return " ".join(f"{name}: {note}" for name, note in notes.items() if note)
