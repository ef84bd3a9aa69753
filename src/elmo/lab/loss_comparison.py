"""Compares the loss of a trained model with n-gram models and published losses on its text."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_models import Unit
from elmo.config.serialization import from_dict
from elmo.errors import ConfigError, FormatError
from elmo.files import atomic_path
from elmo.lab.loss_table import loss_table
from elmo.lab.ngram_baseline import ngram_losses
from elmo.lab.published_losses import known_text, published_losses
from elmo.lab.recurrent_folder import COMPARISON
from elmo.lab.symbol_text import SymbolText
from elmo.lab.text_fingerprint import TextFingerprint
from elmo.lab.text_loss import TextLoss

MAX_ORDER = 6
# An n-gram model needs about 50 bytes of memory per symbol of its training text.
MAX_NGRAM_SYMBOLS = 20_000_000


@dataclass(frozen=True)
class LossComparison:
    """Loss of a model on a part of its text, with the losses it is compared with.

    Attributes:
        nats: Loss of the model per symbol.
        unit: What the model predicts.
        part: Name of the part of the text.
        characters_per_symbol: Mean number of characters per symbol of the part; None if words of
            the part are `<UNK>`, because the losses of such words cannot be converted.
        ngrams: Losses of n-gram models of orders 1, 2, ... with the same training text.
        text_symbols: Number of symbols of the whole text.
        text_crc: Checksum of the whole text.
        note: What limits the comparison; empty if nothing does.
    """

    nats: float
    unit: Unit
    part: str
    characters_per_symbol: float | None
    ngrams: tuple[float, ...]
    text_symbols: int
    text_crc: int
    note: str = ""

    def table(self) -> str:
        """Return a table of losses, lowest first."""
        fingerprint = TextFingerprint(self.text_symbols, self.text_crc)
        table = loss_table(
            self.nats,
            self.unit,
            self.ngrams,
            published_losses(fingerprint, self.unit),
            self.part,
            self.characters_per_symbol,
        )
        return f"{table}\n{self.note}" if self.note else table

    def write(self, folder: Path) -> None:
        """Write the comparison to a model folder."""
        with atomic_path(folder / COMPARISON) as partial:
            partial.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")


def read_comparison(folder: Path) -> LossComparison | None:
    """Read the comparison in a model folder, if there is one."""
    path = folder / COMPARISON
    if not path.exists():
        return None
    try:
        return from_dict(LossComparison, json.loads(path.read_text(encoding="utf-8")), "comparison")
    except (OSError, ValueError, ConfigError) as error:
        raise FormatError(f"{path} is damaged: {error}") from None


def compared_part(text: SymbolText) -> str | None:
    """Return the part on which losses are compared; None if there is no held-out text."""
    return next((name for name in ("test", "valid") if name in text.parts), None)


def baseline_losses(text: SymbolText) -> tuple[float, ...]:
    """Return the losses of n-gram models of orders 1, 2, ... on the compared part of a text."""
    name = compared_part(text)
    if name is None:
        return ()
    train = text.parts["train"].ids[-MAX_NGRAM_SYMBOLS:]
    return tuple(ngram_losses(train, text.parts[name].ids, len(text.symbols), MAX_ORDER))


def compare_loss(
    text: SymbolText, loss: TextLoss, ngrams: tuple[float, ...] | None = None
) -> LossComparison:
    """Compare the loss of a model with others.

    Args:
        text: The text of the model.
        loss: Loss on the compared part of the text.
        ngrams: Return value of `baseline_losses`. Default: they are computed.
    """
    name = compared_part(text)
    assert name is not None
    part, train = text.parts[name], text.parts["train"].ids
    unit, notes = text.symbols.unit, []
    if loss.unknown_rate:
        notes.append(
            f"{loss.unknown_rate:.2%} of the symbols are <UNK>, which only costs its own bits: "
            "bits per character " + ("would be too low." if unit == "words" else "are too low.")
        )
    if len(train) > MAX_NGRAM_SYMBOLS:
        notes.append(
            f"The n-gram models read only the last {MAX_NGRAM_SYMBOLS:,} symbols for training."
        )
    known = known_text(text.fingerprint, unit)
    label = None if known is None else known.split_name(part.fingerprint)
    return LossComparison(
        nats=loss.nats,
        unit=unit,
        part=label or ("validation" if name == "valid" else name),
        characters_per_symbol=(
            None if unit == "words" and loss.unknown_rate else loss.characters_per_symbol
        ),
        ngrams=baseline_losses(text) if ngrams is None else ngrams,
        text_symbols=text.fingerprint.n_symbols,
        text_crc=text.fingerprint.crc,
        note="\n".join(notes),
    )
