"""The one place that knows PyTorch's scan, which has no public name yet."""

from collections.abc import Callable

import torch
from torch import Tensor

from elmo.errors import ConfigError

Step = Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]
"""State and the inputs of a step to the new state and the outputs, which share no memory."""


def scan(step: Step, state: list[Tensor], inputs: list[Tensor], *, reverse: bool) -> list[Tensor]:
    """Run a step over the first dimension of the inputs and give the outputs, stacked.

    Args:
        step: one step.
        state: what the first one starts from.
        inputs: a slice of each is given to a step.
        reverse: begin with the last slice; outputs stay in the order of the inputs.
    """
    try:
        from torch._higher_order_ops import scan as higher_order_scan
    except ImportError:
        raise ConfigError(
            f"PyTorch {torch.__version__} cannot export a recurrence: install a newer one (2.13 "
            "can)"
        ) from None
    _, outputs = higher_order_scan(step, state, inputs, dim=0, reverse=reverse)
    found: list[Tensor] = outputs
    return found
