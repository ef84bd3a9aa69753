"""Disables gradients for operations that need none, so that the fastest kernel can run them."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import forward_ad


def no_grad_if_unneeded(tensors: Iterable[Tensor]) -> AbstractContextManager[object]:
    """Return a `no_grad` context if no tensor requires a gradient, else a context without effect.

    Autograd records nothing in either case, but many kernels run only in `no_grad` mode. Unlike in
    inference mode, the results can be saved for the backward pass of later operations.
    """
    if (
        not torch.is_grad_enabled()
        or any(tensor.requires_grad for tensor in tensors)
        # Forward-mode derivatives and `torch.func` do not set requires_grad.
        or forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
        # A compiled graph has its own kernels.
        or torch.compiler.is_compiling()
    ):
        return nullcontext()
    return torch.no_grad()
