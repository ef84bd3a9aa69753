"""`find_units`: the units of a model that follow a property of a text."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from elmo.config.look_inside import FindUnitsConfig, NetworkName
from elmo.errors import ConfigError, InputError
from elmo.lab.units.annotated_text import read_annotated_text
from elmo.lab.units.found_units import FoundUnits, PropertyUnits
from elmo.lab.units.load_model import Loaded
from elmo.lab.units.property_labels import (
    PropertyLabels,
    number_labels,
    read_numbers,
    text_labels,
)
from elmo.lab.units.random_model import random_model
from elmo.lab.units.read_traces import Model, Text, model_of, read_traces, text_of
from elmo.lab.units.text_properties import PROPERTIES, pattern_property, text_property
from elmo.lab.units.traces import Kind, UnitTraces, check_kinds
from elmo.lab.units.unit_ablations import require_language_model, with_ablations
from elmo.lab.units.unit_search import obstacle, searches_of
from elmo.lab.units.word_properties import (
    DEFAULT_PROPERTIES,
    AnnotatedWord,
    word_property,
)

DEFAULT = FindUnitsConfig("", "")


def find_units(
    model: Model,
    text: Text,
    *,
    network: NetworkName = DEFAULT.network,
    builtin: str | Sequence[str] | None = None,
    pattern: str | None = None,
    labels: str | os.PathLike[str] | Sequence[float] | None = None,
    kinds: str | Sequence[Kind] = DEFAULT.kinds,
    n: int = DEFAULT.n,
    max_positions: int = DEFAULT.max_positions,
    shifts: int = DEFAULT.shifts,
    random: bool = DEFAULT.random,
    ablate: bool = DEFAULT.ablate,
    seed: int = DEFAULT.seed,
    device: str | torch.device | None = None,
) -> FoundUnits:
    """Find the units of a model that follow properties of a text.

    Properties that do not vary in each half of the text are skipped.

    Args:
        model: Model, as in `read_traces`.
        text: The text as a string, a `Path` of a text file or a CoNLL-U file, or a list of
            sentences.
        network: Network of a task model: "elmo", or "encoder", its BiLSTM.
        builtin: Names of built-in properties. Default: all, without `pattern` and `labels`.
        pattern: Regular expression of a property.
        labels: One number per position of the text, NaN for those without a label, or the path of a
            file with them.
        kinds: Kinds of values to search.
        n: Number of units per property.
        max_positions: Maximum number of characters, bytes or words to read. A longer text is
            sampled.
        shifts: Number of shifted copies of the labels.
        random: Whether to search in a network with random weights too.
        ablate: Whether to measure the loss with the best unit set to 0 and to its mean.
        seed: Seed of the shifts and of the random network.
        device: Device of the computation. Default: cuda if available.

    Raises:
        ConfigError: An option is invalid.
        InputError: The text or the labels cannot be used, or no property varies.
    """
    FindUnitsConfig("", "", n=n, max_positions=max_positions, shifts=shifts, seed=seed)
    loaded = model_of(model, device, network)
    language_model = require_language_model(loaded) if ablate else None
    chosen = check_kinds(_names(kinds))
    annotated = read_annotated_text(text)
    content = text_of(annotated.text, loaded)

    def read(model: Loaded) -> UnitTraces:
        return read_traces(
            model, content, kinds=chosen, max_positions=max_positions, n_guesses=0, device=device
        )

    traces = read(loaded)
    properties, skipped = _properties(traces, annotated.words, builtin, pattern, labels)
    found = [
        PropertyUnits(
            name=item.name,
            description=item.description,
            is_boolean=item.is_boolean,
            n_positions=len(search.parts[1]),
            mean=float(item.values[search.parts[1]].mean()),
            units=tuple(search.best(item, n)),
            shifted=tuple(search.null_scores(item, shifts, seed).tolist()),
        )
        for item, search in zip(properties, searches_of(traces, properties), strict=True)
    ]
    if language_model is not None:
        found = with_ablations(found, language_model, content, traces, device)
    if random:
        searches = searches_of(read(random_model(loaded, seed)), properties)
        found = [
            replace(units, random=search.best(item, 1)[0])
            for units, item, search in zip(found, properties, searches, strict=True)
        ]
    return FoundUnits(traces.unit, len(traces), traces.notes, tuple(found), skipped=skipped)


def _names(names: str | Sequence[str]) -> list[str]:
    """Return names that can be separated by commas."""
    parts = names.split(",") if isinstance(names, str) else names
    return [name.strip() for name in parts if name.strip()]


def _properties(
    traces: UnitTraces,
    words: Sequence[Sequence[AnnotatedWord]] | None,
    builtin: str | Sequence[str] | None,
    pattern: str | None,
    labels: str | os.PathLike[str] | Sequence[float] | None,
) -> tuple[list[PropertyLabels], dict[str, str]]:
    """Return the labels of the chosen properties, at least one, and why others were skipped.

    Default properties are skipped without a reason.
    """
    is_default = builtin is None and pattern is None and labels is None
    defaults = PROPERTIES if words is None else DEFAULT_PROPERTIES
    names = list(defaults) if is_default else _names(builtin or ())
    properties = [_builtin_labels(name, traces, words, is_default) for name in names]
    chosen = [item for item in properties if item is not None]
    if pattern is not None:
        chosen.append(text_labels(pattern, pattern_property(pattern), traces))
    if labels is not None:
        if isinstance(labels, str | os.PathLike):
            labels = read_numbers(Path(labels))
        chosen.append(number_labels("labels", labels, traces))
    if not chosen and not is_default:
        raise InputError("No property was given.")
    obstacles = {item.name: obstacle(item) for item in chosen}
    skipped = {name: reason for name, reason in obstacles.items() if reason}
    usable = [item for item in chosen if item.name not in skipped]
    if not usable:
        problem = "No property varies in each half of the text."
        if not is_default:
            problem = "; ".join(f"{name} {reason}" for name, reason in skipped.items())
            problem = f"No units can be found: {problem}."
        raise InputError(
            f"{problem} {traces.note} Use a larger --max-positions."
            if traces.sample is not None
            else f"{problem} Use a longer text."
        )
    return usable, {} if is_default else skipped


def _builtin_labels(
    name: str,
    traces: UnitTraces,
    words: Sequence[Sequence[AnnotatedWord]] | None,
    is_default: bool,
) -> PropertyLabels | None:
    """Return the labels of a built-in property; None for a default one that no word has."""
    if words is None or name in PROPERTIES:
        return text_labels(name, text_property(name), traces)
    try:
        values = word_property(name, words)
    except ConfigError:
        if is_default:
            return None
        raise
    return number_labels(name, values.astype(float).tolist(), traces)
