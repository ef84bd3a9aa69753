"""Tests of deterministic CPU training and of restoring PyTorch's global settings."""

import logging

import pytest
import torch

from elmo.config import RunConfig
from elmo.train import devices
from elmo.train.devices import make_fabric, reproducible, run_device

CPU = torch.device("cpu")


def global_settings():
    return torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.enabled


@pytest.mark.parametrize(
    ("precision", "has_bfloat16", "expected"),
    [
        ("float32", False, (True, True)),
        ("bfloat16", True, (True, True)),
        ("bfloat16", False, (True, False)),
    ],
)
def test_reproducible_sets_and_restores_pytorch_settings_on_cpu(
    monkeypatch, precision, has_bfloat16, expected
):
    monkeypatch.setattr(devices, "onednn_has_bfloat16", lambda: has_bfloat16)
    before = global_settings()
    with reproducible(CPU, RunConfig(precision=precision)):
        assert global_settings() == expected
    assert global_settings() == before == (False, True)


def test_reproducible_restores_pytorch_settings_after_an_error(monkeypatch):
    monkeypatch.setattr(devices, "onednn_has_bfloat16", lambda: False)
    run = RunConfig(precision="bfloat16")
    with pytest.raises(ValueError, match="failed"), reproducible(CPU, run):
        raise ValueError("failed")
    assert global_settings() == (False, True)


def test_reproducible_changes_no_settings_on_other_devices():
    with reproducible(torch.device("meta"), RunConfig(precision="bfloat16")):
        assert global_settings() == (False, True)


def test_lstm_can_be_trained_in_bfloat16_on_cpu():
    """PyTorch's LSTM fails if oneDNN is enabled but does not support bfloat16 on this CPU."""
    lstm = torch.nn.LSTM(4, 4)
    with reproducible(CPU, RunConfig(precision="bfloat16")):
        with torch.autocast("cpu", torch.bfloat16):
            output, _ = lstm(torch.ones(2, 3, 4))
    torch.testing.assert_close(output.float(), lstm(torch.ones(2, 3, 4))[0], rtol=0, atol=0.02)


@pytest.mark.parametrize(
    ("accelerator", "device"), [("cpu", "cpu"), ("cuda", "cuda"), ("gpu", "cuda")]
)
def test_device_of_a_run_follows_from_its_accelerator(accelerator, device):
    assert run_device(RunConfig(accelerator=accelerator)) == device


def test_device_of_a_run_is_the_one_that_fabric_chooses():
    run = RunConfig()
    assert make_fabric(run).device.type == torch.device(run_device(run)).type


def test_fabric_prints_no_notes(caplog, capfd):
    with caplog.at_level(logging.INFO):
        make_fabric(RunConfig(accelerator="cpu", precision="bfloat16"))
    assert not caplog.records
    assert capfd.readouterr() == ("", "")
