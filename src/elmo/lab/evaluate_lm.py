"""The `lm evaluate` command: loss of a recurrent language model on a text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from torch import Tensor

from elmo.config.language_model_commands import LMEvaluateConfig
from elmo.config.language_models import SymbolConfig
from elmo.errors import InputError
from elmo.kernels.device import default_device
from elmo.kernels.exact_float32 import exact_float32
from elmo.lab.dynamic_evaluation import dynamic_loss
from elmo.lab.recurrent_folder import RecurrentModel, read_model
from elmo.lab.symbol_text import TextPart, read_text_files, text_part
from elmo.lab.text_loss import SegmentReader, TextLoss, text_loss
from elmo.lab.units.clamp import Clamp, parse_clamps
from elmo.lab.units.clamped_recurrent import clamped_reader
from elmo.lab.units.loss_change import LossChange
from elmo.progress import Progress, format_count


@dataclass(frozen=True)
class LMEvaluateResult:
    """Result of `evaluate_lm`; `str()` returns a summary.

    Attributes:
        model: Folder of the model, as given in the config.
        state: How the state was handled, "carry" or "reset".
        loss: Loss of the model.
        dynamic: Loss while the weights adapt to the text; None if it was not measured.
        clamped: Loss with clamped units, and its change; None without clamps.
    """

    model: str
    state: str
    loss: TextLoss
    dynamic: TextLoss | None
    clamped: LossChange | None

    def to_dict(self) -> dict[str, object]:
        """Return the result as plain data."""
        dynamic = None if self.dynamic is None else self.dynamic.values()
        return {
            "model": self.model,
            "state": self.state,
            **self.loss.values(),
            **asdict(self.loss),
            "dynamic_evaluation": dynamic,
            "clamped": None if self.clamped is None else self.clamped.to_dict(),
        }

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        unit = self.loss.unit.removesuffix("s")
        lines = [
            f"{self.model}, state {self.state}, {format_count(self.loss.n_symbols, unit)}",
            self.loss.line() if self.clamped is None else str(self.clamped),
        ]
        if self.dynamic is not None:
            lines += [
                f"dynamic evaluation: {self.dynamic.line()}",
                "The weights adapted to the text. Do not compare this loss with losses of fixed "
                "weights.",
            ]
        return "\n".join(lines)


def evaluate_lm(config: LMEvaluateConfig) -> LMEvaluateResult:
    """Measure the loss of a recurrent language model on text files."""
    clamps = parse_clamps(config.clamp)
    model = read_model(config.model, config.device or default_device())
    shape = model.network.config
    options = SymbolConfig(
        unit=shape.unit, tokenizer=shape.tokenizer, strip_lines=shape.strip_lines
    )
    part = text_part(read_text_files(config.text, options), model.symbols)
    rows, carry = config.batch_size, config.state == "carry"
    if clamps:
        change = loss_change(
            model, part, clamps, batch_size=rows, unroll=config.unroll, carry=carry
        )
        return LMEvaluateResult(config.model, config.state, change.free, None, change)
    loss = part_loss(model, part, batch_size=rows, unroll=config.unroll, carry=carry)
    dynamic = None
    if config.dynamic_rate is not None:
        dynamic = dynamic_loss(
            model.network,
            model.symbols,
            part,
            rate=config.dynamic_rate,
            decay=config.dynamic_decay,
            unroll=config.dynamic_unroll,
        )
    return LMEvaluateResult(config.model, config.state, loss, dynamic, None)


def loss_change(
    model: RecurrentModel,
    part: TextPart,
    clamps: Sequence[Clamp],
    *,
    batch_size: int,
    unroll: int,
    carry: bool,
) -> LossChange:
    """Return the loss of a model without and with clamped units; see `part_loss`.

    Args:
        model: The model.
        part: The text.
        clamps: The clamps, all of which apply together.
        batch_size: Number of batch rows.
        unroll: Number of time steps per segment.
        carry: Whether the state is carried over from segment to segment.

    Raises:
        ConfigError: The model does not have a unit.
        InputError: The text has nothing to predict.
    """
    clamped_read = clamped_reader(model.network, clamps)
    free, clamped = (
        part_loss(model, part, batch_size=batch_size, unroll=unroll, carry=carry, read=read)
        for read in (None, clamped_read)
    )
    return LossChange(tuple(clamps), free, clamped)


def part_loss(
    model: RecurrentModel,
    part: TextPart,
    *,
    batch_size: int,
    unroll: int,
    carry: bool,
    read: SegmentReader | None = None,
) -> TextLoss:
    """Return the loss of a model on a text, and show progress.

    Args:
        model: The model.
        part: The text.
        batch_size: Number of batch rows.
        unroll: Number of time steps per segment.
        carry: Whether the state is carried over from segment to segment.
        read: Function that runs the recurrent layers; see `text_loss`.

    Raises:
        InputError: The text has nothing to predict.
    """
    n_predictions = len(part.ids) - (model.symbols.end is None)
    if n_predictions < 1:
        raise InputError(
            f"The text has {format_count(len(part.ids), model.symbols.unit.removesuffix('s'))}, "
            "which is too short for an evaluation."
        )
    with Progress("evaluate", n_predictions, model.symbols.unit) as progress, exact_float32():

        def watch(losses: Iterable[Tensor], n_segments: int) -> Iterator[Tensor]:
            for values in losses:
                progress.advance(len(values))
                yield values

        return text_loss(
            model.network,
            model.symbols,
            part,
            rows=batch_size,
            unroll=unroll,
            carry=carry,
            watch=watch,
            read=read,
        )
