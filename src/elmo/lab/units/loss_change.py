"""Loss of a language model without and with clamped units."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from elmo.errors import ConfigError
from elmo.lab.loss_measures import bits
from elmo.lab.text_loss import TextLoss
from elmo.lab.units.clamp import Clamp


@dataclass(frozen=True)
class LossChange:
    """Losses of a model on the same text without and with clamped units.

    `str()` returns the losses and the change in a line each.

    Attributes:
        clamps: The clamps, all of which apply together.
        free: Loss without the clamps.
        clamped: Loss with the clamps.
    """

    clamps: tuple[Clamp, ...]
    free: TextLoss
    clamped: TextLoss

    def __post_init__(self) -> None:
        """Raise an error if the values of the clamps are too large to compute the loss."""
        if not math.isfinite(self.clamped.nats):
            raise ConfigError(
                f"The loss with {_joined(self.clamps)} is not a finite number. Use smaller values."
            )

    @property
    def bits_per_symbol(self) -> float:
        """Change in bits per predicted symbol: character, byte or word."""
        return bits(self.clamped.nats - self.free.nats)

    @property
    def bits_per_character(self) -> float:
        """Change in bits per character; for bytes, bits per byte."""
        return self.clamped.bits_per_character - self.free.bits_per_character

    @property
    def perplexity(self) -> float:
        """Change of the perplexity."""
        change = self.clamped.perplexity - self.free.perplexity
        return math.inf if math.isinf(self.clamped.perplexity) else change

    def to_dict(self) -> dict[str, object]:
        """Return the clamps, the loss with them, and its change as plain data."""
        return {
            "clamps": [str(clamp) for clamp in self.clamps],
            **self.clamped.values(),
            "change": {
                "bits_per_symbol": self.bits_per_symbol,
                "bits_per_character": self.bits_per_character,
                "perplexity": self.perplexity,
            },
        }

    def __str__(self) -> str:
        """Return the losses and the change in a line each."""
        unit = self.free.unit.removesuffix("s")
        change = self.bits_per_symbol if unit == "word" else self.bits_per_character
        return "\n".join(
            [
                self.free.line(),
                f"with {_joined(self.clamps)}: {self.clamped.line()}",
                f"change: {change:+.4f} bits per {unit}, perplexity {self.perplexity:+,.2f}",
            ]
        )


def _joined(clamps: Sequence[Clamp]) -> str:
    return ", ".join(map(str, clamps))
