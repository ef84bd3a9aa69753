"""Mean sampled-softmax loss on a GPU, computed in blocks of predictions to save memory.

The result is the mean of `model.losses.sampled_losses`. The gradient is already computed in the
forward pass: the logits of a block are overwritten by their probabilities, which are used for the
gradient while they are still in the GPU cache.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.device import can_fuse, on_device_of, wide_product

# Logits of a block (64 MiB in half precision), about the cache size of a large GPU.
BLOCK_VALUES = 2**25
# One program handles a whole row of candidates.
MAX_CANDIDATES = 2**14


def can_run(hidden: Tensor, n_candidates: int) -> bool:
    """Whether Triton supports the GPU and all candidates fit in one Triton program."""
    return n_candidates <= MAX_CANDIDATES and can_fuse(hidden)


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
    """Return the mean loss of a softmax over the target and the sampled candidates.

    The weights, (rows, dim), float32, and biases are those used in this step; `true_rows` and
    `sampled_rows`, all distinct, are the rows of targets and candidates in them. The hidden states
    are in the dtype of the products. The other arguments are those of `sampled_logits`.
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
        from elmo.kernels.triton_softmax import sampled_softmax_row

        n, n_candidates = len(hidden), len(sampled)
        sampled_weight = functional.embedding(sampled_rows, weight).to(
            hidden.dtype
        )  # (candidates, dim)
        true_weight = functional.embedding(true_rows, weight)
        true_logits = torch.linalg.vecdot(hidden.float(), true_weight)
        true_logits += bias[true_rows] - true_log_expected
        correction = bias[sampled_rows] - sampled_log_expected
        losses, true_gradients = torch.empty_like(true_logits), torch.empty_like(true_logits)
        d_hidden = torch.empty_like(hidden)
        d_sampled_weight = torch.zeros(
            sampled_weight.shape, dtype=torch.float32, device=hidden.device
        )
        d_bias = torch.zeros_like(correction)
        ones = torch.ones((8, n), dtype=hidden.dtype, device=hidden.device)
        size = max(1, BLOCK_VALUES // n_candidates)
        for start in range(0, n, size):
            block = slice(start, min(start + size, n))
            logits = hidden[block] @ sampled_weight.T
            sampled_softmax_row[(len(logits),)](
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
            torch.mm(logits, sampled_weight, out=d_hidden[block])
            d_sampled_weight += wide_product(logits.T, hidden[block])
            # A product with ones takes two thirds of the time of a sum over the rows.
            d_bias += wide_product(ones[:, block], logits)[0]
        ctx.save_for_backward(
            hidden,
            true_weight,
            true_rows,
            sampled_rows,
            d_hidden,
            d_sampled_weight,
            d_bias,
            true_gradients,
        )
        ctx.n_rows = len(weight)
        return losses.mean()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        hidden, true_weight, true_rows, sampled_rows, d_hidden, d_sampled_weight, d_bias, d_true = (
            ctx.saved_tensors
        )
        scale = gradient / len(hidden)
        d_true = (d_true * scale).unsqueeze(1)
        d_hidden = torch.addcmul(d_hidden * scale, d_true, true_weight)
        # Deterministic sums: targets may occur several times.
        d_weight = _sum_by_row(hidden * d_true, true_rows, ctx.n_rows)
        d_bias_rows = _sum_by_row(d_true, true_rows, ctx.n_rows).squeeze(1)
        d_weight.index_add_(0, sampled_rows, d_sampled_weight * scale)
        d_bias_rows.index_add_(0, sampled_rows, d_bias * scale)
        return (d_hidden.to(hidden.dtype), d_weight, d_bias_rows, *(None,) * 6)


def _sum_by_row(values: Tensor, rows: Tensor, n_rows: int) -> Tensor:
    """Sum the values that belong to the same row, in deterministic order; returns (n_rows, dim)."""
    sums: Tensor = torch.ops.aten.embedding_dense_backward(values, rows, n_rows, -1, False)
    return sums
