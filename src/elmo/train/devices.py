"""Sets up the devices and processes of a run, and deterministic training on CPUs."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import torch

from elmo.config import RunConfig
from elmo.config.training import TrainingPrecision
from elmo.errors import ConfigError, MissingExtra
from elmo.kernels.device import default_device, onednn_has_bfloat16

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Precision of a config to the name that Fabric uses.
FABRIC_PRECISION: dict[TrainingPrecision, Literal["32-true", "bf16-mixed"]] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
}


def check_packages(run: RunConfig) -> None:
    """Raise an error if a package for training is not installed, before anything is written."""
    if find_spec("lightning") is None or find_spec("tensorboard") is None:
        raise MissingExtra("training", "train")
    if run.mlflow and find_spec("mlflow") is None:
        raise MissingExtra("--mlflow", "mlflow")


def run_device(run: RunConfig) -> str:
    """Return the device of a run on one device, without starting its processes."""
    if run.accelerator == "auto":
        return "mps" if torch.backends.mps.is_available() else default_device()
    return "cuda" if run.accelerator == "gpu" else run.accelerator


def make_fabric(run: RunConfig) -> "Fabric":
    """Start the processes of a run and return the `Fabric` object of this process."""
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise MissingExtra("training", "train") from None
    # Their notes repeat the precision and recommend TF32 without knowing the training.
    for package in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(package).setLevel(logging.WARNING)
    _check_world_size(run)
    try:
        fabric = Fabric(
            accelerator=run.accelerator,
            devices=run.devices,
            num_nodes=run.num_nodes,
            strategy="ddp" if run.devices * run.num_nodes > 1 else "auto",
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
    """Raise an error if the launcher started more processes than configured."""
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started > run.devices * run.num_nodes:
        raise ConfigError(
            f"The launcher started {started} processes, but the run is configured for "
            f"{run.devices * run.num_nodes}. Set --devices (per machine) and --num-nodes to "
            "match the launcher."
        )


@contextmanager
def reproducible(device: torch.device, run: RunConfig) -> Iterator[None]:
    """Make CPU training deterministic, and enable bfloat16 on CPUs where oneDNN lacks it.

    oneDNN is disabled on such CPUs: PyTorch has its own bfloat16 kernels, but its LSTM fails while
    oneDNN is enabled.
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
