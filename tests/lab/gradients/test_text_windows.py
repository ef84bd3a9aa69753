"""Tests of `elmo.lab.gradients.text_windows`."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_networks import TEXT, small_network

from elmo.config.language_models import SymbolConfig
from elmo.errors import InputError
from elmo.lab.gradients.measured_network import LanguageModelNetwork
from elmo.lab.gradients.text_windows import WARM_UP, TextStream, TextWindows, warmed_up_state
from elmo.lab.symbols import OpenIds, Symbols

SYMBOLS = Symbols.of_text(["ab\n"], SymbolConfig())


@given(n_symbols=st.integers(1, 400), n_windows=st.integers(1, 50), n_steps=st.integers(1, 200))
def test_windows_are_parts_of_the_text(n_symbols, n_windows, n_steps):
    ids = np.arange(n_symbols, dtype=np.int32)
    if n_symbols < n_steps:
        with pytest.raises(InputError, match="too few"):
            TextWindows.of_text(TextStream.of_symbols(OpenIds(ids), SYMBOLS), n_windows, n_steps)
        return
    windows = TextWindows.of_text(TextStream.of_symbols(OpenIds(ids), SYMBOLS), n_windows, n_steps)
    assert (
        windows.inputs.shape
        == windows.targets.shape
        == (
            windows.warm_up + n_steps,
            windows.n_windows,
        )
    )
    assert 1 <= windows.n_windows <= n_windows
    assert windows.warm_up <= WARM_UP
    assert (windows.targets.diff(dim=0) == 1).all()
    assert (windows.inputs[1:] == windows.targets[:-1]).all()
    assert windows.targets[0, 0] == 0
    if n_windows > 1:
        assert windows.targets[-1, -1] == n_symbols - 1


def test_windows_without_line_breaks_do_not_predict_the_first_symbol():
    symbols = Symbols.of_text(["ab"], SymbolConfig())
    ids = np.arange(5, dtype=np.int32)
    windows = TextWindows.of_text(TextStream.of_symbols(OpenIds(ids), symbols), 1, 4)
    assert windows.targets[:, 0].tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError, match="only 5 characters"):
        TextWindows.of_text(TextStream.of_symbols(OpenIds(ids), symbols), 1, 5)


def test_warmed_up_state_reads_the_text_before_the_window():
    network, symbols = small_network(cell="lstm")
    windows = TextWindows.of_text(TextStream.of_symbols(symbols.open_ids(TEXT), symbols), 3, 12)
    assert windows.warm_up > 0
    vectors = network.input_vectors()
    state = warmed_up_state(LanguageModelNetwork(network), windows)
    whole = network(vectors, windows.inputs, network.zero_state(windows.n_windows))
    rest = network(vectors, windows.inputs[windows.warm_up :], state)
    torch.testing.assert_close(rest.last, whole.last[windows.warm_up :])
