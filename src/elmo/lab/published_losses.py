"""Published losses of language models on known texts.

The figures and their sources are in `published_losses.yaml`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from elmo.config.language_models import Unit
from elmo.lab.loss_measures import Measure, to_nats
from elmo.lab.text_fingerprint import TextFingerprint

TABLE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class PublishedLoss:
    """Loss of a model on a part of a text.

    Attributes:
        model: Name of the model, with the number of layers or weights.
        figure: The loss as it was published.
        measure: Measure of the figure: nats, bits or perplexity, per symbol of the text.
        split: Part of the text that the model was evaluated on.
        dynamic: Whether the weights were adapted to the text that was read (dynamic evaluation).
        source: Authors and year.
        address: Address of the source.
        note: How the evaluation differs from others, if it does.
    """

    model: str
    figure: float
    measure: Measure
    split: str
    dynamic: bool
    source: str
    address: str
    note: str = ""

    @property
    def nats(self) -> float:
        """Loss per symbol in nats."""
        return to_nats(self.figure, self.measure)


@dataclass(frozen=True)
class KnownText:
    """A text with published losses.

    Attributes:
        name: Name of the text.
        unit: Symbols of the losses: characters or words.
        fingerprints: Fingerprints of the text: of its only file or, if its parts are files, of all
            parts and of the training part with one other part.
        splits: Fingerprints of the parts that models were evaluated on, by name.
        losses: Published losses.
    """

    name: str
    unit: Unit
    fingerprints: Sequence[TextFingerprint]
    splits: Mapping[str, TextFingerprint]
    losses: Sequence[PublishedLoss]

    def split_name(self, part: TextFingerprint) -> str | None:
        """Return the name of a part of the text, if published losses refer to it."""
        return next((name for name, known in self.splits.items() if known == part), None)


def published_losses(fingerprint: TextFingerprint, unit: Unit) -> list[PublishedLoss]:
    """Return the published losses on a text: none if the text is not known.

    Args:
        fingerprint: Fingerprint of all parts of the text.
        unit: "characters", "bytes" or "words".
    """
    text = known_text(fingerprint, unit)
    return list(text.losses) if text else []


def known_text(fingerprint: TextFingerprint, unit: Unit) -> KnownText | None:
    """Return the known text with a fingerprint.

    Args:
        fingerprint: Fingerprint of all parts of the text.
        unit: "characters", "bytes" or "words". An ASCII text has the same fingerprint and the same
            losses in bytes as in characters.
    """
    unit = "characters" if unit == "bytes" else unit
    for text in known_texts():
        if text.unit == unit and fingerprint in text.fingerprints:
            return text
    return None


@cache
def known_texts() -> tuple[KnownText, ...]:
    """Read the table of known texts."""
    entries = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return tuple(
        KnownText(
            name=entry["name"],
            unit=entry["unit"],
            fingerprints=tuple(_fingerprint(fields) for fields in entry["fingerprints"]),
            splits={name: _fingerprint(fields) for name, fields in entry["splits"].items()},
            losses=tuple(
                PublishedLoss(
                    model=result["model"],
                    figure=figure,
                    measure=entry["measure"],
                    split=split,
                    dynamic=result.get("dynamic", False),
                    source=result["source"],
                    address=result["address"],
                    note=result.get("note", ""),
                )
                for result in entry["results"]
                for split, figure in result["losses"].items()
            ),
        )
        for entry in entries
    )


def _fingerprint(fields: Mapping[str, int]) -> TextFingerprint:
    return TextFingerprint(fields["symbols"], fields["crc"])
