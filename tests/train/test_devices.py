"""A run on a CPU is the same each time, and leaves PyTorch as it found it."""

import pytest
import torch

from elmo.config import RunConfig
from elmo.train import devices
from elmo.train.devices import reproducible

CPU = torch.device("cpu")


def switches():
    return torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.enabled


@pytest.mark.parametrize(
    ("precision", "has_bfloat16", "inside"),
    [
        ("float32", False, (True, True)),
        ("bfloat16", True, (True, True)),
        ("bfloat16", False, (True, False)),
    ],
)
def test_on_a_cpu(monkeypatch, precision, has_bfloat16, inside):
    monkeypatch.setattr(devices, "onednn_has_bfloat16", lambda: has_bfloat16)
    before = switches()
    with reproducible(CPU, RunConfig(precision=precision)):
        assert switches() == inside
    assert switches() == before == (False, True)


def test_after_an_error_all_is_as_before(monkeypatch):
    monkeypatch.setattr(devices, "onednn_has_bfloat16", lambda: False)
    run = RunConfig(precision="bfloat16")
    with pytest.raises(ValueError, match="torn"), reproducible(CPU, run):
        raise ValueError("torn")
    assert switches() == (False, True)


def test_elsewhere_nothing_is_switched():
    with reproducible(torch.device("meta"), RunConfig(precision="bfloat16")):
        assert switches() == (False, True)


def test_an_lstm_in_bfloat16():
    """PyTorch ends with an error where oneDNN is enabled and has no bfloat16."""
    lstm = torch.nn.LSTM(4, 4)
    with reproducible(CPU, RunConfig(precision="bfloat16")):
        with torch.autocast("cpu", torch.bfloat16):
            found, _ = lstm(torch.ones(2, 3, 4))
    torch.testing.assert_close(found.float(), lstm(torch.ones(2, 3, 4))[0], rtol=0, atol=0.02)
