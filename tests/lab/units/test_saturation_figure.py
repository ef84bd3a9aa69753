"""Tests of the figure of saturated gates."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from small_networks import TEXT, small_network

from elmo.errors import ConfigError
from elmo.lab import draw_saturation, read_traces, saturation
from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.units.saturation_figure import write_saturation


def traces_of(**options):
    return read_traces(RecurrentModel(*small_network(**options), {}), TEXT)


@pytest.mark.parametrize(("cell", "n_plots"), [("gru", 4), ("lstm", 8)])
def test_svg_has_one_plot_per_layer_and_gate(cell, n_plots, tmp_path):
    traces = traces_of(cell=cell)
    path = draw_saturation(traces, tmp_path / "gates.svg")
    picture = ET.fromstring(path.read_text(encoding="utf-8"))
    ids = [element.get("id", "") for element in picture.iter("{http://www.w3.org/2000/svg}g")]
    assert sum(name.startswith("axes_") for name in ids) == n_plots
    titles = {element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")}
    gate = "update" if cell == "gru" else "forget"
    assert {f"layer 0, {gate} gate", f"layer 1, {gate} gate", "fraction below 0.1"} <= titles
    again = draw_saturation(traces, tmp_path / "again.svg")
    assert again.read_bytes() == path.read_bytes()


def test_png_of_two_models_is_written(tmp_path):
    named = {"first": traces_of(cell="lstm"), "second": traces_of(cell="gru")}
    path = draw_saturation(named, tmp_path / "gates.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_json_has_the_numbers_of_all_units(tmp_path):
    traces = traces_of(cell="lstm")
    path = write_saturation({"name": traces}, tmp_path / "gates.json")
    (model,) = json.loads(path.read_text(encoding="utf-8"))["models"]
    assert (model["model"], model["positions"]) == ("name", len(traces))
    for record, (track, gate) in zip(model["gates"], saturation(traces).items(), strict=True):
        assert (record["layer"], record["kind"]) == (track.layer, track.kind)
        np.testing.assert_allclose(record["low"], gate.low)
        assert ("time_scale" in record) == (track.kind == "forget")


@pytest.mark.parametrize("name", ["gates.png", "gates.json"])
def test_network_without_gates_is_rejected(name, tmp_path):
    with pytest.raises(ConfigError, match="A simple RNN has none"):
        write_saturation({"name": traces_of(cell="rnn")}, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_other_formats_are_rejected(tmp_path):
    with pytest.raises(ConfigError, match=r"\.png or \.svg"):
        draw_saturation(traces_of(), tmp_path / "gates.gif")
