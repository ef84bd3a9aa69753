"""Plan of a gradient comparison: which networks are measured, and which are drawn together."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from elmo.errors import ConfigError
from elmo.lab.gradients.elmo_source import DIRECTIONS, ElmoSource, ElmoText
from elmo.lab.gradients.gradient_source import ConfigSource, TrainedSource
from elmo.lab.gradients.initial_networks import (
    FORGET_BIASES,
    InitialNetworks,
    MakeNetwork,
    cell_name,
    initial_name,
)
from elmo.lab.gradients.measured_network import LanguageModelNetwork, MeasuredNetwork
from elmo.lab.gradients.text_windows import TextStream
from elmo.lab.network_text import widths_text

ELMO = "ELMo"

MakeMeasured = Callable[[], MeasuredNetwork]


@dataclass(frozen=True)
class PlannedNetwork:
    """A network to measure.

    Attributes:
        name: Unique name.
        make: Function that returns the network.
        stream: What the network reads and predicts.
    """

    name: str
    make: MakeMeasured
    stream: TextStream


@dataclass
class GradientPlan:
    """Networks to measure by name, and the names of networks that are drawn together by title.

    Attributes:
        stream: What the first model reads and predicts.
        networks: The networks by name.
        panels: Names of networks by title.
    """

    stream: TextStream
    networks: dict[str, PlannedNetwork] = field(default_factory=dict)
    panels: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of_models(
        cls,
        source: TrainedSource | ElmoSource | ConfigSource,
        others: Sequence[TrainedSource | ElmoSource],
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
        models = [*([] if isinstance(source, ConfigSource) else [source]), *others]
        read = [model.read(text) if isinstance(model, ElmoSource) else model for model in models]
        if isinstance(source, ElmoSource):
            elmo = read[0]
            assert isinstance(elmo, ElmoText)
            plan = cls(elmo.stream("forward"))
            plan._add_models(read, text, seed)
            plan._add_panel("Forget bias", _forget_biases(elmo, seed))
            return plan
        if isinstance(source, TrainedSource):
            config, symbols = source.network.config, source.symbols
        else:
            config, symbols = source.model(text)
        stream = TextStream.of_symbols(symbols.open_ids(text), symbols)
        plan = cls(stream)
        initial = InitialNetworks(config, symbols, symbols.encode(text), seed)
        plan._add_models(read, text, seed, initial)
        for title, rows in (
            ("Cells", initial.cells()),
            ("Forget bias", initial.forget_biases()),
            ("Recurrent weights", initial.recurrent_weights()),
        ):
            plan._add_panel(title, (_language_model(*row, stream) for row in rows))
        return plan

    def _add(self, network: PlannedNetwork) -> str:
        self.networks.setdefault(network.name, network)
        return network.name

    def _add_panel(self, title: str, networks: Iterable[PlannedNetwork]) -> None:
        self.panels[title] = tuple(map(self._add, networks))

    def _add_models(
        self,
        models: Sequence[TrainedSource | ElmoText],
        text: str,
        seed: int,
        initial: InitialNetworks | None = None,
    ) -> None:
        """Add the panel of trained models and of the networks from which their training began.

        Args:
            models: The models.
            text: The text.
            seed: Seed of initial weights.
            initial: Initial networks of the first model, if it is a language model.
        """
        rows: list[tuple[PlannedNetwork, PlannedNetwork]] = []
        for model, suffix in _with_suffixes(models):
            if isinstance(model, ElmoText):
                rows += _elmo_networks(model, suffix, seed)
            else:
                rows.append(self._language_model_networks(model, suffix, text, seed, initial))
        for trained, _ in rows:
            if trained.stream.unit != self.stream.unit:
                raise ConfigError(
                    f"All models must have the same unit, but {trained.name} has "
                    f"{trained.stream.unit}, not {self.stream.unit}."
                )
        if rows:
            # Two models with the same architecture have the same initial network.
            names = [self._add(row[number]) for number in (0, 1) for row in rows]
            self.panels["Training"] = tuple(dict.fromkeys(names))

    def _language_model_networks(
        self,
        model: TrainedSource,
        suffix: str,
        text: str,
        seed: int,
        initial: InitialNetworks | None,
    ) -> tuple[PlannedNetwork, PlannedNetwork]:
        """Return a trained model, and the network from which its training began."""
        config = model.network.config
        shape = config.network
        stream = TextStream.of_symbols(model.symbols.open_ids(text), model.symbols)
        name = f"{cell_name(shape)}, trained{suffix}"
        trained = _language_model(name, lambda: model.network, stream)
        if initial is not None and shape == initial.shape(shape.cell, shape.nonlinearity):
            make = partial(initial.network, shape)
            return trained, _language_model(initial_name(shape), make, self.stream)
        size = f"{shape.n_layers} x {widths_text([hidden for hidden, _ in shape.layer_dims])}"
        own = InitialNetworks(config, model.symbols, model.symbols.encode(text), seed)
        return trained, _language_model(f"{initial_name(shape)}, {size}", own.network, stream)


def _language_model(name: str, make: MakeNetwork, stream: TextStream) -> PlannedNetwork:
    return PlannedNetwork(name, lambda: LanguageModelNetwork(make(), stream.new_words), stream)


def _elmo_networks(
    text: ElmoText, suffix: str, seed: int
) -> list[tuple[PlannedNetwork, PlannedNetwork]]:
    """Return both trained directions, and those from which their training began."""
    rows = []
    for direction in DIRECTIONS:
        name, stream = f"{ELMO} {direction}", text.stream(direction)
        trained = partial(text.trained, direction)
        initial = partial(text.initial, direction, seed)
        rows.append(
            (
                PlannedNetwork(f"{name}, trained{suffix}", trained, stream),
                PlannedNetwork(f"{name}, initial{suffix}", initial, stream),
            )
        )
    return rows


def _forget_biases(text: ElmoText, seed: int) -> Iterator[PlannedNetwork]:
    """Yield forward directions before training with several biases of the forget gate."""
    stream = text.stream("forward")
    for bias in FORGET_BIASES:
        name = f"{ELMO} forward, forget bias {bias:g}"
        yield PlannedNetwork(name, partial(text.initial, "forward", seed, bias), stream)


def _with_suffixes(
    models: Sequence[TrainedSource | ElmoText],
) -> list[tuple[TrainedSource | ElmoText, str]]:
    """Return the models with what makes their names unique: folders, if kinds are the same."""
    kinds = [
        ELMO if isinstance(model, ElmoText) else cell_name(model.network.config.network)
        for model in models
    ]
    named: list[tuple[TrainedSource | ElmoText, str]] = []
    used: set[str] = set()
    for number, (model, kind) in enumerate(zip(models, kinds, strict=True), start=1):
        suffix = f" ({model.name or number})" if kinds.count(kind) > 1 else ""
        if kind + suffix in used:
            suffix += f" {number}"
        used.add(kind + suffix)
        named.append((model, suffix))
    return named
