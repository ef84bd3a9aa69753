"""Plan of a gradient comparison: which networks are measured, and which are drawn together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from elmo.errors import ConfigError
from elmo.lab.gradients.gradient_source import ConfigSource, TrainedSource
from elmo.lab.gradients.initial_networks import (
    InitialNetworks,
    MakeNetwork,
    cell_name,
    initial_name,
)
from elmo.lab.symbols import Ids, Symbols


@dataclass(frozen=True)
class PlannedNetwork:
    """A network to measure.

    Attributes:
        name: Unique name.
        make: Function that returns the network.
        text: Symbol ids of the text, and the symbols of the network.
    """

    name: str
    make: MakeNetwork
    text: tuple[Ids, Symbols]


@dataclass
class GradientPlan:
    """Networks to measure by name, and the names of networks that are drawn together by title."""

    ids: Ids
    symbols: Symbols
    networks: dict[str, PlannedNetwork] = field(default_factory=dict)
    panels: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of_models(
        cls,
        source: TrainedSource | ConfigSource,
        others: Sequence[TrainedSource],
        text: str,
        seed: int,
    ) -> "GradientPlan":
        """Plan the comparison of trained models and of new networks of the same size.

        Args:
            source: The model, or a config without a model.
            others: Other trained models.
            text: The text.
            seed: Seed of initial weights.

        Raises:
            ConfigError: The models do not have the same unit.
        """
        if isinstance(source, TrainedSource):
            config, symbols = source.network.config, source.symbols
            models = [source, *others]
        else:
            config, symbols = source.model(text)
            models = list(others)
        plan = cls(symbols.encode(text), symbols)
        initial = InitialNetworks(config, symbols, plan.ids, seed)
        before = [plan._add_trained(model, name, initial, text) for model, name in _named(models)]
        if models:
            trained = tuple(plan.networks)
            for name, make, own_text in before:
                plan._add(name, make, own_text)
            # Two models with the same architecture have the same initial network.
            plan.panels["Training"] = trained + tuple(dict.fromkeys(row[0] for row in before))
        plan._add_panel("Cells", initial.cells())
        plan._add_panel("Forget bias", initial.forget_biases())
        plan._add_panel("Recurrent weights", initial.recurrent_weights())
        return plan

    def _add(self, name: str, make: MakeNetwork, text: tuple[Ids, Symbols]) -> None:
        self.networks.setdefault(name, PlannedNetwork(name, make, text))

    def _add_panel(self, title: str, rows: Iterable[tuple[str, MakeNetwork]]) -> None:
        names = []
        for name, make in rows:
            self._add(name, make, (self.ids, self.symbols))
            names.append(name)
        self.panels[title] = tuple(names)

    def _add_trained(
        self, model: TrainedSource, name: str, initial: InitialNetworks, text: str
    ) -> tuple[str, MakeNetwork, tuple[Ids, Symbols]]:
        """Add a trained model, and return the network from which its training began."""
        if model.symbols.unit != self.symbols.unit:
            raise ConfigError(
                f"All models must have the same unit, but {name} has {model.symbols.unit}, not "
                f"{self.symbols.unit}."
            )
        own_text = (model.symbols.encode(text), model.symbols)
        self._add(name, lambda: model.network, own_text)
        config = model.network.config
        shape = config.network
        if shape == initial.shape(shape.cell, shape.nonlinearity):
            return initial_name(shape), lambda: initial.network(shape), (self.ids, self.symbols)
        own = InitialNetworks(config, model.symbols, own_text[0], initial.seed)
        size = f"{shape.n_layers} x {shape.hidden_dim}"
        return f"{initial_name(shape)}, {size}", own.network, own_text


def _named(models: Sequence[TrainedSource]) -> list[tuple[TrainedSource, str]]:
    """Return the models with unique names: their cells, and their folders if cells are the same."""
    cells = [cell_name(model.network.config.network) for model in models]
    named: list[tuple[TrainedSource, str]] = []
    for number, (model, cell) in enumerate(zip(models, cells, strict=True), start=1):
        name = f"{cell}, trained"
        if cells.count(cell) > 1:
            name += f" ({model.name or number})"
        if any(name == other for _, other in named):
            name += f" {number}"
        named.append((model, name))
    return named
