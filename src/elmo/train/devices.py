"""Devices and processes: starting them, and what is to be known of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from elmo.config import RunConfig
from elmo.errors import ConfigError, MissingExtra
from elmo.kernels.device import onednn_has_bfloat16

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def make_fabric(run: RunConfig) -> "Fabric":
    """Start the processes of a run, of which this one is one."""
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise MissingExtra("training", "train") from None
    _check_started_with(run)
    several = run.devices * run.num_nodes > 1
    try:
        fabric = Fabric(
            accelerator=run.accelerator,
            devices=run.devices,
            num_nodes=run.num_nodes,
            strategy="ddp" if several else run.strategy,
            precision=run.precision,
        )
        fabric.launch()
    except (ValueError, RuntimeError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"{run.devices} x {run.accelerator} cannot be used: {str(error).splitlines()[0]}"
        ) from None
    return fabric


def _check_started_with(run: RunConfig) -> None:
    """Refuse processes that a launcher started and the run does not know of."""
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > run.devices * run.num_nodes:
        raise ConfigError(
            f"{started} processes were started, but the run is for {run.devices * run.num_nodes}: "
            "give --devices (on each machine) and --num-nodes as the launcher has them"
        )


@contextmanager
def reproducible(device: torch.device, run: RunConfig) -> Iterator[None]:
    """On a CPU let no gradient depend on which thread came first, nor on what oneDNN lacks.

    A CPU too old for its bfloat16 still has PyTorch's own, which an LSTM would not find by itself.
    """
    onednn: Any = torch.backends.mkldnn
    before = torch.are_deterministic_algorithms_enabled(), onednn.enabled
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)
        if run.precision == "bf16-mixed" and not onednn_has_bfloat16():
            onednn.enabled = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        onednn.enabled = before[1]
