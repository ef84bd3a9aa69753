"""`explore`: a page that shows the units of a network over a text."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import torch

from elmo.config.look_inside import NetworkName
from elmo.errors import ConfigError
from elmo.lab.explorer.explorer_data import explorer_data
from elmo.lab.pages.html_page import HtmlPage, build_page, page_resource
from elmo.lab.units.read_traces import MAX_POSITIONS, N_GUESSES, Model, Text, read_traces
from elmo.lab.units.traces import Kind, UnitTraces

# In the order in which they use each other.
_SCRIPTS = (
    "source.js",
    "text_layout.js",
    "text_view.js",
    "plots.js",
    "matching.js",
    "picture.js",
    "pane.js",
    "details.js",
    "unit_list.js",
    "saturation.js",
    "address.js",
    "controls.js",
    "explorer.js",
)


def explore(
    model: Model,
    text: Text,
    *,
    network: NetworkName = "elmo",
    compare: Model | None = None,
    compare_network: NetworkName | None = None,
    kinds: Collection[Kind] | None = None,
    all_units: bool = False,
    units: Collection[int] = (),
    max_positions: int = MAX_POSITIONS,
    n_guesses: int = N_GUESSES,
    device: str | torch.device | None = None,
) -> HtmlPage:
    """Show the units of a network over a text as a page, which notebooks display.

    Args:
        model: Folder of `elmo lm train` or `elmo task fit`; a name, folder or hub id of an ELMo
            model; or a model in memory, such as an estimator of a task.
        text: The text as a string, a `Path` of a text file, or a list of sentences, which are lists
            of words.
        network: Network of a task model: "elmo", or "encoder", its BiLSTM.
        compare: A second model, shown next to the first.
        compare_network: Network of the second model. Default: that of the first.
        kinds: Kinds of values. Default: all that the model has.
        all_units: Store all units. Default: those with the largest variance, about 6 MB.
        units: Numbers of units that are stored in any case.
        max_positions: Maximum number of characters, bytes or words. Of a longer text, evenly spaced
            parts are shown.
        n_guesses: Number of most likely pieces at each position. 0: neither guesses nor surprisal.
        device: Device of the computation. Default: cuda if available.

    Raises:
        ConfigError: An option is invalid.
        FormatError: A model cannot be read.
        InputError: The text is empty or cannot be read.
    """
    models = [(model, network)]
    if compare is not None:
        models.append((compare, compare_network or network))
    traces = read_models(
        models,
        text,
        kinds=kinds,
        max_positions=max_positions,
        n_guesses=n_guesses,
        device=device,
    )
    return explorer_page(traces, all_units=all_units, units=units)


def read_models(
    models: Sequence[tuple[Model, NetworkName]],
    text: Text,
    *,
    kinds: Collection[Kind] | None = None,
    max_positions: int = MAX_POSITIONS,
    n_guesses: int = N_GUESSES,
    device: str | torch.device | None = None,
) -> dict[str, UnitTraces]:
    """Read a text with each of the models; return the traces by the name of the model.

    Models have the name of their network, if they are task models. The other arguments are those of
    `read_traces`.
    """
    traces: dict[str, UnitTraces] = {}
    for model, network in models:
        traces[_new_name(model, network, traces)] = read_traces(
            model,
            text,
            network=network,
            kinds=kinds,
            max_positions=max_positions,
            n_guesses=n_guesses,
            device=device,
        )
    return traces


def explorer_page(
    traces: Mapping[str, UnitTraces], *, all_units: bool = False, units: Collection[int] = ()
) -> HtmlPage:
    """Return the page of traces that were read before.

    Args:
        traces: Traces by the name of the model: one, or two to compare.
        all_units: Store all units. Default: those with the largest variance, about 6 MB.
        units: Numbers of units that are stored in any case.
    """
    for number in units:
        if not any(0 <= number < v.shape[1] for t in traces.values() for v in t.values.values()):
            raise ConfigError(f"There is no unit {number}. Units are counted from 0.")
    html = build_page(
        "Hidden units of " + " and ".join(traces),
        page_resource(__package__, "explorer.html"),
        [page_resource(__package__, "explorer.css")],
        [page_resource(__package__, name) for name in _SCRIPTS],
        explorer_data(traces, all_units=all_units, units=units),
    )
    return HtmlPage(html)


def _new_name(model: Model, network: NetworkName, others: Collection[str]) -> str:
    """Return a name of a model for people, different from those of the others."""
    name = f"a {type(model).__name__}"
    if isinstance(model, str | os.PathLike):
        name = Path(model).as_posix()
    if network == "encoder":
        name = f"{name}, task encoder"
    return f"{name} (second)" if name in others else name
