"""A row of a sampled softmax in Triton: logits in, its loss and the logits' gradient out."""

import triton
import triton.language as tl


@triton.jit
def row(
    logits,  # (rows, CANDIDATES): in: products with the candidates; out: their probabilities
    correction,  # (CANDIDATES,), float32: added to each logit
    candidates,  # (CANDIDATES,): word ids
    targets,  # (rows,): word ids
    true_logits,  # (rows,), float32, corrected
    losses,  # (rows,), float32: out
    true_gradients,  # (rows,), float32: out: of the loss by the true logit
    CANDIDATES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Loss of one prediction; the gradient of a logit is its probability."""
    number = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, BLOCK)
    is_candidate = places < CANDIDATES
    at = logits + number * CANDIDATES + places
    values = tl.load(at, mask=is_candidate, other=0.0).to(tl.float32)
    values += tl.load(correction + places, mask=is_candidate, other=0.0)
    ids = tl.load(candidates + places, mask=is_candidate, other=-1)
    # A candidate that is the target itself would count it twice.
    is_other = is_candidate & (ids != tl.load(targets + number))
    values = tl.where(is_other, values, float("-inf"))
    true = tl.load(true_logits + number)
    highest = tl.maximum(tl.max(values, axis=0), true)
    total = tl.sum(tl.exp(values - highest), axis=0) + tl.exp(true - highest)
    level = highest + tl.log(total)
    tl.store(at, tl.exp(values - level).to(logits.dtype.element_ty), mask=is_candidate)
    tl.store(losses + number, level - true)
    tl.store(true_gradients + number, tl.exp(true - level) - 1)
