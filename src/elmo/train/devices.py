"""Start-up of the devices and processes of a run, and deterministic training on a CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch

from elmo.config import RunConfig
from elmo.config.training import TrainingPrecision
from elmo.errors import ConfigError, MissingExtra
from elmo.kernels.device import onednn_has_bfloat16

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Precision of a config to the name that Fabric uses.
FABRIC_PRECISION: dict[TrainingPrecision, Literal["32-true", "bf16-mixed"]] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
}


def make_fabric(run: RunConfig) -> "Fabric":
    """Start the processes of a run and return the Fabric of this process."""
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise MissingExtra("training", "train") from None
    _check_world_size(run)
    several = run.devices * run.num_nodes > 1
    try:
        fabric = Fabric(
            accelerator=run.accelerator,
            devices=run.devices,
            num_nodes=run.num_nodes,
            strategy="ddp" if several else run.strategy,
            precision=FABRIC_PRECISION[run.precision],
        )
        fabric.launch()
    except (ValueError, RuntimeError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"Cannot use {run.devices} device(s) of type {run.accelerator!r}: "
            f"{str(error).splitlines()[0]}"
        ) from None
    return fabric


def _check_world_size(run: RunConfig) -> None:
    """Raise an error if a launcher started more processes than the run is configured for."""
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > run.devices * run.num_nodes:
        raise ConfigError(
            f"The launcher started {started} processes, but the run is configured for "
            f"{run.devices * run.num_nodes}. Set --devices (per machine) and --num-nodes to the "
            "values of the launcher."
        )


@contextmanager
def reproducible(device: torch.device, run: RunConfig) -> Iterator[None]:
    """Make CPU training deterministic, and bfloat16 usable on CPUs without oneDNN support for it.

    On such CPUs oneDNN is disabled: PyTorch has bfloat16 kernels of its own, but its LSTM fails
    as long as oneDNN is enabled.
    """
    onednn: Any = torch.backends.mkldnn
    before = torch.are_deterministic_algorithms_enabled(), onednn.enabled
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        if run.precision == "bfloat16" and not onednn_has_bfloat16():
            onednn.enabled = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        onednn.enabled = before[1]
