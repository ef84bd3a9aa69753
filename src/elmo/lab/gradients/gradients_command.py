"""The `gradients` command: writes the page of `gradient_flow`."""

from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_models import SymbolConfig
from elmo.config.look_inside import GradientsConfig
from elmo.errors import ConfigError
from elmo.lab.gradients.elmo_source import ElmoSource
from elmo.lab.gradients.gradient_figure import draw_gradients
from elmo.lab.gradients.gradient_flow import GradientFlow, measure
from elmo.lab.gradients.gradient_plan import GradientPlan
from elmo.lab.gradients.gradient_source import read_source, read_trained
from elmo.lab.symbol_text import read_text_files


@dataclass(frozen=True)
class GradientsResult:
    """Result of the command.

    Attributes:
        flow: The measured gradients.
        files: Written files.
    """

    flow: GradientFlow
    files: tuple[Path, ...]

    def to_dict(self) -> dict[str, object]:
        """Return all numbers, and the written files."""
        return {"files": [str(path) for path in self.files], **self.flow.to_dict()}

    def __str__(self) -> str:
        """Return the table of the networks and the written files."""
        return f"{self.flow}\n\nwritten: {', '.join(map(str, self.files))}"


def gradients(config: GradientsConfig) -> GradientsResult:
    """Measure the gradients of a model and write the page."""
    for name in filter(None, (config.out, config.png)):
        if not Path(name).resolve().parent.is_dir():
            raise ConfigError(f"The folder of {name} does not exist.")
    source = read_source(config.model)
    options = SymbolConfig() if isinstance(source, ElmoSource) else source.symbol_config
    text = read_text_files(config.text, options)
    others = [read_trained(folder) for folder in config.compare]
    plan = GradientPlan.of_models(source, others, text, config.seed)
    flow = measure(plan, steps=config.steps, windows=config.windows, clip_norm=config.clip_norm)
    files = [flow.save(config.out)]
    if config.png is not None:
        files.append(draw_gradients(flow, Path(config.png)))
    return GradientsResult(flow, tuple(files))
