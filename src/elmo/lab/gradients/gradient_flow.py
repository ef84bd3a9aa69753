"""`gradient_flow`: how far the gradients of recurrent networks reach back in time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from elmo.config.bounds import require_type
from elmo.errors import ConfigError
from elmo.lab.gradients.gradient_page import gradient_page
from elmo.lab.gradients.gradient_plan import GradientPlan
from elmo.lab.gradients.gradient_regions import FACTOR, gradient_regions
from elmo.lab.gradients.gradient_source import ModelSource, read_source, read_trained
from elmo.lab.gradients.network_gradients import (
    N_SEGMENTS,
    SEGMENT_ROWS,
    SEGMENT_STEPS,
    NetworkGradients,
    network_gradients,
)
from elmo.lab.pages.html_page import HtmlPage
from elmo.progress import Progress

# Steps back of the table.
TABLE_STEPS = (1, 10, 100, 200)


@dataclass(frozen=True)
class GradientFlow:
    """Gradients of several networks on a text.

    Attributes:
        unit: What the networks predict.
        n_symbols: Length of the text.
        steps: Maximum number of steps back.
        n_windows: Number of windows of the text at whose ends the loss is differentiated.
        clip_norm: Maximum norm of the gradients of the weights.
        networks: Gradients of each network.
        panels: Names of the networks that are compared with each other, by title.
    """

    unit: str
    n_symbols: int
    steps: int
    n_windows: int
    clip_norm: float
    networks: tuple[NetworkGradients, ...]
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> NetworkGradients:
        """Return the gradients of a network by its name."""
        for network in self.networks:
            if network.name == name:
                return network
        names = ", ".join(repr(network.name) for network in self.networks)
        raise KeyError(f"There is no network {name!r}. Networks: {names}.")

    def to_dict(self) -> dict[str, object]:
        """Return all numbers as plain data."""
        return {
            "unit": self.unit,
            "n_symbols": self.n_symbols,
            "steps": self.steps,
            "n_windows": self.n_windows,
            "mean": "geometric",
            "region_factor": FACTOR,
            "clip_norm": self.clip_norm,
            "segments": {"steps": SEGMENT_STEPS, "rows": SEGMENT_ROWS, "number": N_SEGMENTS},
            "panels": {title: list(names) for title, names in self.panels.items()},
            "networks": [network.to_dict() for network in self.networks],
        }

    @cached_property
    def page(self) -> HtmlPage:
        """The page, which notebooks show."""
        return HtmlPage(gradient_page(self.to_dict()))

    def save(self, path: str | Path) -> Path:
        """Write the page to an HTML file."""
        return self.page.save(path)

    def _repr_html_(self) -> str:
        return self.page._repr_html_()

    def __str__(self) -> str:
        """Return a table with one row per network, layer and state."""
        steps = [step for step in TABLE_STEPS if step <= self.steps]
        rows = [
            ("network", "layer", "state", *(f"{step} back" for step in steps), "per step", "region")
        ]
        for network in self.networks:
            for curve in network.curves:
                regions, factor = gradient_regions(curve.norms), curve.factor_per_step
                region = ""
                if regions.vanishes_at is not None:
                    region = f"vanishes at {regions.vanishes_at}"
                if regions.explodes_at is not None:
                    region = f"explodes at {regions.explodes_at}"
                rows.append(
                    (
                        network.name,
                        str(curve.layer),
                        curve.state,
                        *(f"{curve.norms[step]:.1e}" for step in steps),
                        "" if factor is None else f"{factor:.3f}",
                        region,
                    )
                )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )
        return f"{table}\n\n{self.note}"

    @property
    def note(self) -> str:
        """How much of the text was measured."""
        windows = "1 window" if self.n_windows == 1 else f"{self.n_windows} windows"
        spaced = "" if self.n_windows == 1 else ", evenly spaced"
        return (
            f"Measured in {windows} of {self.steps + 1:,} steps{spaced} in a text of "
            f"{self.n_symbols:,} {self.unit}."
        )


def gradient_flow(
    model: ModelSource,
    text: str,
    *,
    compare: Sequence[ModelSource] = (),
    steps: int = 200,
    windows: int = 32,
    clip_norm: float = 1.0,
    seed: int = 1,
) -> GradientFlow:
    """Measure how gradients flow back through time in a model and in networks of the same size.

    Args:
        model: A language model (`LanguageModel` or folder of `elmo lm train`); an ELMo model with
            a softmax (`ELMo`, or its name, folder or file); or a config file or preset of `elmo lm
            train`, whose network is then measured without training.
        text: The text.
        compare: Other trained models.
        steps: Maximum number of steps back.
        windows: Number of windows of the text at whose ends the loss is differentiated.
        clip_norm: Maximum norm of the gradients of the weights; 0: no clipping.
        seed: Seed of initial weights.

    Raises:
        InputError: The text is too short.
        ConfigError: An option is invalid, or there is no such model or config.
        FormatError: A folder does not contain a recurrent language model.
    """
    require_type("text", text, "a string")
    for name, value in (("steps", steps), ("windows", windows)):
        require_type(name, value, "an integer")
        if value < 1:
            raise ConfigError(f"{name} must be at least 1 (got {value}).")
    require_type("clip_norm", clip_norm, "a number")
    if not 0.0 <= clip_norm < math.inf:
        raise ConfigError(f"clip_norm must be 0 or more (got {clip_norm}).")
    others = [read_trained(other) for other in compare]
    plan = GradientPlan.of_models(read_source(model), others, text, seed)
    return measure(plan, steps=steps, windows=windows, clip_norm=clip_norm)


def measure(plan: GradientPlan, *, steps: int, windows: int, clip_norm: float) -> GradientFlow:
    """Measure the gradients of all networks of a plan. The options are those of `gradient_flow`."""
    results = []
    with Progress("gradients", len(plan.networks), "networks") as progress:
        for planned in plan.networks.values():
            results.append(
                network_gradients(
                    planned.name,
                    planned.make(),
                    planned.stream,
                    steps=steps,
                    n_windows=windows,
                    clip_norm=clip_norm,
                )
            )
            progress.advance(1)
    return GradientFlow(
        plan.stream.unit,
        plan.stream.n_symbols,
        steps,
        results[0].n_windows,
        clip_norm,
        tuple(results),
        plan.panels,
    )
