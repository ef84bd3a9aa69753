"""Wrapper for PyTorch's scan operator, which has no public API yet."""

from collections.abc import Callable

import torch
from torch import Tensor

from elmo.errors import ConfigError

Step = Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]
"""Maps the state and the inputs of a step to the new state and the outputs.

State and outputs must not share memory.
"""


def scan(step: Step, state: list[Tensor], inputs: list[Tensor], *, reverse: bool) -> list[Tensor]:
    """Run a step function over the first dimension of the inputs and return the stacked outputs.

    Each step receives one slice of each input. With `reverse`, slices are processed from last to
    first; the outputs are in the order of the inputs in either case.
    """
    try:
        from torch._higher_order_ops import scan as higher_order_scan
    except ImportError:
        raise ConfigError(
            f"PyTorch {torch.__version__} cannot export recurrent networks. Install a newer "
            "version, such as 2.13."
        ) from None
    _, outputs = higher_order_scan(step, state, inputs, dim=0, reverse=reverse)
    stacked: list[Tensor] = outputs
    return stacked
