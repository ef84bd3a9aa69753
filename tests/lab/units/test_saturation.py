"""Tests of saturated gates and time scales."""

import numpy as np
import pytest
from small_networks import TEXT, small_network

from elmo.lab.recurrent_folder import RecurrentModel
from elmo.lab.units.read_traces import read_traces
from elmo.lab.units.saturation import saturation, time_scales
from elmo.lab.units.traces import Track, UnitTraces


def test_fractions_count_saturated_positions():
    forget = np.array([[0.05, 0.95], [0.5, 0.95], [0.05, 0.5], [0.95, 0.95]], np.float32)
    track = Track(0, "forward", "forget")
    cell = Track(0, "forward", "cell")
    traces = UnitTraces(tuple("abcd"), "characters", {track: forget, cell: forget})
    (result,) = saturation(traces).values()
    assert result.low.tolist() == [0.5, 0.0]
    assert result.high.tolist() == [0.25, 0.75]
    assert result.time_scale.shape == (2,)
    assert result.to_dict()["low"] == [0.5, 0.0]


def test_time_scale_is_that_of_exponential_decay():
    forget = np.full((10, 1), np.exp(-1 / 20), np.float32)
    assert time_scales(forget)[0] == pytest.approx(20, rel=1e-4)
    assert np.isinf(time_scales(np.ones((3, 1), np.float32))).all()
    assert time_scales(np.zeros((3, 1), np.float32))[0] == 0


@pytest.mark.parametrize(("cell", "gates"), [("rnn", 0), ("gru", 2), ("lstm", 3)])
def test_every_gate_of_cell_is_measured(cell, gates):
    network, symbols = small_network(cell=cell)
    result = saturation(read_traces(RecurrentModel(network, symbols, {}), TEXT))
    assert len(result) == 2 * gates
    for values in result.values():
        assert ((values.low >= 0) & (values.high <= 1)).all()
