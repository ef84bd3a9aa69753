"""The `lm info` command: describes a recurrent language model and compares its loss."""

from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_model_commands import LMInfoConfig
from elmo.config.serialization import to_dict
from elmo.formats.info_and_convert import InfoResult
from elmo.lab.loss_comparison import read_comparison
from elmo.lab.loss_measures import perplexity_text
from elmo.lab.network_text import network_text
from elmo.lab.recurrent_folder import FORMAT, RecurrentModel, model_path, read_model
from elmo.lab.symbols import Symbols
from elmo.progress import format_count

# Number of symbols that are listed.
MAX_LISTED = 100


@dataclass(frozen=True)
class LMInfo(InfoResult):
    """Description of a recurrent language model.

    Attributes:
        comparison: Table that compares its loss with others; empty if there is none.
    """

    comparison: str = ""

    def __str__(self) -> str:
        """Return the rows as a table, followed by the comparison."""
        text = str(InfoResult(self.rows, self.notes, self.config))
        return f"{text}\n\n{self.comparison}" if self.comparison else text


def lm_info(config: LMInfoConfig) -> LMInfo:
    """Describe the model of a folder."""
    folder = Path(config.model)
    model = read_model(folder)
    comparison = read_comparison(model_path(folder))
    return LMInfo(
        describe_model(model),
        (),
        to_dict(model.network.config),
        model.training,
        "" if comparison is None else comparison.table(),
    )


def describe_model(model: RecurrentModel) -> dict[str, str | int]:
    """Return facts about a model by name: symbols, network, training and loss."""
    config = model.network.config
    rows: dict[str, str | int] = {
        "format": FORMAT,
        "unit": config.unit,
        "symbols": _symbols_text(model.symbols),
        "network": network_text(config.network),
        "weights": sum(value.numel() for value in model.network.parameters()),
    }
    if config.unit == "words":
        rows["tokenizer"] = config.tokenizer
    training = model.training
    if "program" in training:
        rows["trained_with"] = str(training["program"])
    if isinstance(length := training.get("symbols"), int):
        rows["training_text"] = format_count(length, config.unit.removesuffix("s"))
    steps, epochs = training.get("steps"), training.get("epochs")
    if isinstance(steps, int) and isinstance(epochs, float):
        rows["training_steps"] = f"{steps:,}, {epochs:.3g} epochs"
    held_out = training.get("held_out")
    losses = held_out if isinstance(held_out, dict) else {}
    nats, bits = losses.get("nats"), losses.get("bits_per_character")
    if isinstance(nats, float) and isinstance(bits, float):
        rows["held-out_loss"] = (
            f"{nats:.4f} nats, {bits:.4f} bits per "
            f"{'byte' if config.unit == 'bytes' else 'character'}, perplexity "
            f"{perplexity_text(nats)}"
        )
    return rows


def _symbols_text(symbols: Symbols) -> str:
    if symbols.unit != "characters":
        return f"{len(symbols):,}"
    listed = "".join(sorted(symbols.names[1:])[:MAX_LISTED])
    more = " ..." if len(symbols) - 1 > MAX_LISTED else ""
    return f"{len(symbols):,}: <UNK> {listed!r}{more}"
