"""The mean loss of a sampled softmax, in blocks: nothing as wide as the candidates outlives one.

The gradient is found on the way: a block's logits are overwritten by their probabilities, and both
products with those are done while they are near. Twin of `model.losses.sampled_losses`, averaged.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.device import can_fuse, on_device_of, wide_product

# Logits of a block (64 MiB of halves), about what the cache of a large GPU holds.
BLOCK_VALUES = 2**25
# A row of candidates is one program's.
MOST_CANDIDATES = 2**14


def can_run(hidden: Tensor, n_candidates: int) -> bool:
    """Tell whether this is a loss for a GPU that Triton knows."""
    return n_candidates <= MOST_CANDIDATES and can_fuse(hidden)


def mean_loss(
    hidden: Tensor,
    *,
    weight: Tensor,
    bias: Tensor,
    true_rows: Tensor,
    true_log_expected: Tensor,
    sampled_rows: Tensor,
    sampled_log_expected: Tensor,
    targets: Tensor,
    sampled: Tensor,
) -> Tensor:
    """Give the mean loss of the predictions against their targets and the candidates.

    Args:
        hidden: (predictions, dim), in the precision of the products.
        weight: softmax rows of the step, (rows, dim), float32.
        bias: (rows,).
        true_rows: which row is the target's, (predictions,).
        true_log_expected: ln q of the targets, (predictions,).
        sampled_rows: rows of the candidates, all different, (candidates,).
        sampled_log_expected: ln q of the candidates, (candidates,).
        targets: word ids, (predictions,).
        sampled: word ids, (candidates,).
    """
    corrections = (true_log_expected, sampled_log_expected)
    with torch.autocast(hidden.device.type, enabled=False), on_device_of(hidden):
        loss: Tensor = _MeanLoss.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, true_rows, sampled_rows, *corrections, targets, sampled
        )
    return loss


class _MeanLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        true_rows: Tensor,
        sampled_rows: Tensor,
        true_log_expected: Tensor,
        sampled_log_expected: Tensor,
        targets: Tensor,
        sampled: Tensor,
    ) -> Tensor:
        from elmo.kernels.triton_softmax import row

        n, n_candidates = len(hidden), len(sampled)
        near = functional.embedding(sampled_rows, weight).to(hidden.dtype)  # (candidates, dim)
        true_weight = functional.embedding(true_rows, weight)
        true_logits = torch.linalg.vecdot(hidden.float(), true_weight)
        true_logits += bias[true_rows] - true_log_expected
        correction = bias[sampled_rows] - sampled_log_expected
        losses, true_gradients = torch.empty_like(true_logits), torch.empty_like(true_logits)
        d_hidden = torch.empty_like(hidden)
        d_near = torch.zeros(near.shape, dtype=torch.float32, device=hidden.device)
        d_bias = torch.zeros_like(correction)
        ones = torch.ones((8, n), dtype=hidden.dtype, device=hidden.device)
        size = max(1, BLOCK_VALUES // n_candidates)
        for start in range(0, n, size):
            block = slice(start, min(start + size, n))
            logits = hidden[block] @ near.T
            row[(len(logits),)](
                logits,
                correction,
                sampled,
                targets[block],
                true_logits[block],
                losses[block],
                true_gradients[block],
                CANDIDATES=n_candidates,
                BLOCK=1 << (n_candidates - 1).bit_length(),
                num_warps=8,
            )
            torch.mm(logits, near, out=d_hidden[block])
            d_near += wide_product(logits.T, hidden[block])
            # Two thirds of the time of a sum over the rows, which is no product.
            d_bias += wide_product(ones[:, block], logits)[0]
        ctx.save_for_backward(
            hidden, true_weight, true_rows, sampled_rows, d_hidden, d_near, d_bias, true_gradients
        )
        ctx.n_rows = len(weight)
        return losses.mean()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        hidden, true_weight, true_rows, sampled_rows, d_hidden, d_near, d_bias, true = (
            ctx.saved_tensors
        )
        scale = gradient / len(hidden)
        true = (true * scale).unsqueeze(1)
        d_hidden = torch.addcmul(d_hidden * scale, true, true_weight)
        # Sorted, not added up in whatever order threads come.
        d_weight = _summed(hidden * true, true_rows, ctx.n_rows)
        d_bias_rows = _summed(true, true_rows, ctx.n_rows).squeeze(1)
        d_weight.index_add_(0, sampled_rows, d_near * scale)
        d_bias_rows.index_add_(0, sampled_rows, d_bias * scale)
        return (d_hidden.to(hidden.dtype), d_weight, d_bias_rows, *(None,) * 6)


def _summed(values: Tensor, rows: Tensor, n_rows: int) -> Tensor:
    """Add values up by the row they belong to, (rows, dim)."""
    summed: Tensor = torch.ops.aten.embedding_dense_backward(values, rows, n_rows, -1, False)
    return summed
