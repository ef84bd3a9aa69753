"""Which implementation of a layer runs: the fastest that can do what is asked."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from elmo.kernels import lstm_cudnn, lstm_reference


def lstm(
    x: Tensor,
    *,
    h: Tensor,
    mask: Tensor,
    active: Sequence[int] | None,
    cell_clip: float | None,
    projection_clip: float | None,
    resets: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer in one direction; arguments and result of `lstm_reference.lstm`."""
    is_plain = cell_clip is None and (projection_clip is None or others["weight_hr"] is None)
    is_full = active is not None and all(count == len(h) for count in active)
    if is_plain and is_full and resets is None and x.is_cuda and torch.backends.cudnn.enabled:
        return lstm_cudnn.lstm(x, h=h, **others)
    return lstm_reference.lstm(
        x,
        h=h,
        mask=mask,
        active=active,
        cell_clip=cell_clip,
        projection_clip=projection_clip,
        resets=resets,
        **others,
    )
