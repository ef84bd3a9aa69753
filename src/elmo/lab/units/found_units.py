"""Result of `find_units`: the best units of each property, as table and JSON."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from elmo.config.language_models import Unit
from elmo.lab.units.ablation import Ablation
from elmo.lab.units.unit_search import UnitScore

# Width of the names of units, and of the table.
NAME_COLUMNS, COLUMNS = 40, 100


@dataclass(frozen=True)
class PropertyUnits:
    """The best units of a property.

    Attributes:
        name: Name of the property.
        description: Description of the property; empty if the name says it.
        is_boolean: Whether the units were chosen by AUC rather than by correlation.
        n_positions: Number of positions of the second half, on which the scores were computed.
        mean: Mean of the property there; its share if it is boolean.
        units: Best units, by their scores on the first half.
        shifted: Scores of the best units for shifted labels.
        random: Best unit of a network with random weights; None if it was not searched.
        ablations: Losses with the best unit set to 0 and to its mean; empty if not measured.
    """

    name: str
    description: str
    is_boolean: bool
    n_positions: int
    mean: float
    units: tuple[UnitScore, ...]
    shifted: tuple[float, ...]
    random: UnitScore | None = None
    ablations: tuple[Ablation, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return the scores as plain data."""
        return {
            "name": self.name,
            "description": self.description,
            "chosen_by": "auc" if self.is_boolean else "correlation",
            "positions": self.n_positions,
            "mean": self.mean,
            "units": [unit.to_dict() for unit in self.units],
            "shifted_labels": {
                "n": len(self.shifted),
                "mean": float(np.mean(self.shifted)),
                "max": float(np.max(self.shifted)),
            },
            "random_network": None if self.random is None else self.random.to_dict(),
            "ablations": [
                {
                    **asdict(ablation.clamp),
                    "bits": ablation.bits,
                    "change": ablation.change,
                    "perplexity": ablation.perplexity,
                    "perplexity_change": ablation.perplexity_change,
                }
                for ablation in self.ablations
            ],
        }

    def lines(self, unit: Unit) -> list[str]:
        """Return the rows of the table."""
        mean = f"{self.mean:.1%} of" if self.is_boolean else f"mean {self.mean:.2f},"
        name = f"{self.name}: {self.description}" if self.description else self.name
        head = f"{name} ({mean} {self.n_positions:,} {unit})"
        columns = "  ".join(["  AUC", "corr.", " bits"] if self.is_boolean else ["corr.", " bits"])
        rows = [head, f"  {'':{NAME_COLUMNS}}  {columns}"]
        for number, score in enumerate(self.units, start=1):
            rows.append(self._row(f"{number}. {_unit_name(score)}", _figures(score)))
        if self.random is not None:
            rows.append(self._row(f"random: {_unit_name(self.random)}", _figures(self.random)))
        best = f"{np.mean(self.shifted):5.3f}  maximum {np.max(self.shifted):.3f}"
        rows.append(self._row(f"shifted labels, mean of {len(self.shifted)}", [best]))
        for ablation in self.ablations:
            row = (
                f"  unit 1 set to {ablation.clamp.value:.4g}: {ablation.bits:.4f} bits per "
                f"{unit.removesuffix('s')} ({ablation.change:+.4f})"
            )
            if unit == "words":
                change = ablation.perplexity_change
                row += f", perplexity {ablation.perplexity:.2f} ({change:+.2f})"
            rows.append(row)
        return rows

    def _row(self, name: str, figures: Sequence[str]) -> str:
        return f"  {name:{NAME_COLUMNS}}  {'  '.join(figures)}"


@dataclass(frozen=True)
class FoundUnits:
    """Result of `find_units`; `str()` returns a table.

    Attributes:
        unit: What a position is.
        n_positions: Number of positions of the text that were read.
        note: What the user should know about the text.
        properties: The best units of each property.
        page: Path of a page of `explore` that shows the units; empty without one.
        skipped: Why units were not searched for some properties, by their names.
    """

    unit: Unit
    n_positions: int
    note: str
    properties: tuple[PropertyUnits, ...]
    page: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> PropertyUnits:
        """Return the result of a property by its name."""
        for found in self.properties:
            if found.name == name:
                return found
        raise KeyError(name)

    def to_dict(self) -> dict[str, object]:
        """Return the result as plain data."""
        return {
            "unit": self.unit,
            "positions": self.n_positions,
            "note": self.note,
            "properties": [found.to_dict() for found in self.properties],
            "skipped": dict(self.skipped),
            "links": self.links,
        }

    @property
    def links(self) -> dict[str, str]:
        """Addresses (`file://`) of the best units in the page, by property; empty without one."""
        if not self.page:
            return {}
        return {found.name: self._link(found) for found in self.properties}

    def _link(self, found: PropertyUnits) -> str:
        """Return the address of the best unit of a property within the page."""
        track, unit = found.units[0].track, found.units[0].unit
        return (
            f"{Path(self.page).resolve().as_uri()}#layer={track.layer}"
            f"&direction={track.direction}&values={track.kind}&unit={unit}"
        )

    def __str__(self) -> str:
        """Return a table of all properties."""
        links = self.links
        blocks = []
        for found in self.properties:
            rows = found.lines(self.unit)
            if found.name in links:
                rows.append(f"  {links[found.name]}")
            blocks.append("\n".join(rows))
        skipped = "; ".join(f"{name} {reason}" for name, reason in self.skipped.items())
        skipped = f"Skipped: {skipped}. " if skipped else ""
        note = f"{self.note} " if self.note else ""
        text = (
            f"{skipped}{note}Units were chosen on the first half and scored on the second. The "
            "sign of a unit is that of its relation to the property."
        )
        blocks.append(textwrap.fill(text, COLUMNS))
        return "\n\n".join(blocks)


def _unit_name(score: UnitScore) -> str:
    return f"{'+' if score.sign > 0 else '-'} {score.track} {score.unit}"


def _figures(score: UnitScore) -> list[str]:
    figures = [] if score.auc is None else [f"{score.auc:5.3f}"]
    return [*figures, f"{score.correlation:5.3f}", f"{score.mutual_information:5.3f}"]
