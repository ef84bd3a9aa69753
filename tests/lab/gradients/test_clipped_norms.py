"""Tests of `elmo.lab.gradients.clipped_norms`."""

import pytest
import torch
from small_networks import TEXT, small_network

from elmo.lab.gradients.clipped_norms import ClippedNorms, clipped_norms
from elmo.lab.gradients.measured_network import LanguageModelNetwork
from elmo.lab.gradients.text_windows import TextStream, TextWindows, warmed_up_state


def measured(clip_norm, **options):
    network, symbols = small_network(cell="gru", **options)
    windows = TextWindows.of_text(TextStream.of_symbols(symbols.open_ids(TEXT), symbols), 6, 10)
    measured_network = LanguageModelNetwork(network)
    return network, windows, clipped_norms(measured_network, windows, 3, clip_norm)


def test_norms_before_clipping_match_a_backward_pass():
    network, windows, norms = measured(1.0)
    assert len(norms.before) == 2
    network.requires_grad_()
    state = warmed_up_state(LanguageModelNetwork(network), windows)
    for number, rows in enumerate((slice(0, 3), slice(3, 6))):
        network.zero_grad()
        vectors = network.input_vectors()
        inputs = windows.inputs[windows.warm_up :, rows]
        targets = windows.targets[windows.warm_up :, rows].flatten()
        output = network(vectors, inputs, state.select(torch.arange(6)[rows]))
        network.losses(output.hidden.flatten(0, 1), targets, vectors).mean().backward()
        total = sum(float(value.grad.pow(2).sum()) for value in network.parameters())
        assert norms.before[number] == pytest.approx(total**0.5, rel=1e-5)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("clip_norm", [0.01, 0.5, 100.0])
def test_norms_after_clipping_are_at_most_the_maximum(clip_norm, tied):
    _, _, norms = measured(clip_norm, tied=tied)
    assert norms.after == pytest.approx([min(norm, clip_norm) for norm in norms.before])


def test_zero_does_not_clip():
    _, _, norms = measured(0.0)
    assert norms.after == pytest.approx(norms.before)
    assert norms.share == 0


def test_share_counts_clipped_segments():
    assert ClippedNorms((0.5, 2.0, 4.0, 1.0), (0.5, 1.0, 1.0, 1.0)).share == 0.5
