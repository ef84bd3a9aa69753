"""Which implementation of a layer runs: the fastest that can do what is asked."""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.kernels import lstm_cudnn, lstm_reference


def lstm(
    x: Tensor,
    *,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    weight_hr: Tensor | None,
    h: Tensor,
    c: Tensor,
    mask: Tensor,
    active: Sequence[int] | None,
    cell_clip: float | None,
    projection_clip: float | None,
    reverse: bool,
    index: Tensor | None = None,
    resets: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer in one direction; arguments and result of `lstm_reference.lstm`."""
    batch = h.shape[0]
    is_plain = cell_clip is None and (projection_clip is None or weight_hr is None)
    is_full = active is not None and all(count == batch for count in active)
    if is_plain and is_full and resets is None and x.is_cuda and torch.backends.cudnn.enabled:
        return lstm_cudnn.lstm(
            x,
            weight_ih=weight_ih,
            weight_hh=weight_hh,
            bias=bias,
            weight_hr=weight_hr,
            h=h,
            c=c,
            reverse=reverse,
            index=index,
        )
    return lstm_reference.lstm(
        x,
        weight_ih=weight_ih,
        weight_hh=weight_hh,
        bias=bias,
        weight_hr=weight_hr,
        h=h,
        c=c,
        mask=mask,
        active=active,
        cell_clip=cell_clip,
        projection_clip=projection_clip,
        reverse=reverse,
        index=index,
        resets=resets,
    )
