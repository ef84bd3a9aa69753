"""Triton kernel for the sampled softmax: loss and logit gradients of one prediction."""

import triton
import triton.language as tl


@triton.jit
def sampled_softmax_row(
    logits,  # (rows, CANDIDATES): in: logits of the candidates; out: their probabilities
    correction,  # (CANDIDATES,), float32: added to each logit
    candidates,  # (CANDIDATES,): word ids
    targets,  # (rows,): word ids
    true_logits,  # (rows,), float32: logits of the targets, with their correction
    losses,  # (rows,), float32: out
    true_gradients,  # (rows,), float32: out: gradient of the target's logit
    CANDIDATES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Compute the loss of one prediction and replace the candidates' logits by probabilities."""
    prediction = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    is_candidate = columns < CANDIDATES
    at = logits + prediction * CANDIDATES + columns
    values = tl.load(at, mask=is_candidate, other=0.0).to(tl.float32)
    values += tl.load(correction + columns, mask=is_candidate, other=0.0)
    ids = tl.load(candidates + columns, mask=is_candidate, other=-1)
    # A candidate that equals the target would count it twice.
    is_other = is_candidate & (ids != tl.load(targets + prediction))
    values = tl.where(is_other, values, float("-inf"))
    true = tl.load(true_logits + prediction)
    highest = tl.maximum(tl.max(values, axis=0), true)
    total = tl.sum(tl.exp(values - highest), axis=0) + tl.exp(true - highest)
    log_sum = highest + tl.log(total)
    tl.store(at, tl.exp(values - log_sum).to(logits.dtype.element_ty), mask=is_candidate)
    tl.store(losses + prediction, log_sum - true)
    tl.store(true_gradients + prediction, tl.exp(true - log_sum) - 1)
