"""Tests that compare the fused sampled softmax and its gradients with the reference."""

import pytest
import torch
from torch.nn import functional
from triton_device import DEVICE, DTYPES, IS_INTERPRETED

from elmo.kernels import sampled_fused
from elmo.model.losses import sampled_logits, sampled_losses

pytestmark = pytest.mark.gpu

TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def draw(n, n_rows, n_candidates, dim, seed=0):
    """Return random hidden states and softmax rows; some targets are also candidates."""
    generator = torch.Generator().manual_seed(seed)
    sampled_rows = torch.randperm(n_rows, generator=generator)[:n_candidates]
    true_rows = torch.randint(0, n_rows, (n,), generator=generator)
    ids = torch.arange(n_rows) * 3 + 1
    args = {
        "weight": torch.randn(n_rows, dim, generator=generator),
        "bias": torch.randn(n_rows, generator=generator),
        "true_rows": true_rows,
        "true_log_expected": -torch.rand(n, generator=generator),
        "sampled_rows": sampled_rows,
        "sampled_log_expected": -torch.rand(n_candidates, generator=generator),
        "targets": ids[true_rows],
        "sampled": ids[sampled_rows],
    }
    return torch.randn(n, dim, generator=generator), {k: v.to(DEVICE) for k, v in args.items()}


def reference_loss(hidden, *, weight, bias, true_rows, sampled_rows, **others):
    rows = {"true": true_rows, "sampled": sampled_rows}
    gathered = {f"{name}_weight": functional.embedding(at, weight) for name, at in rows.items()}
    gathered |= {f"{name}_bias": bias[at] for name, at in rows.items()}
    return sampled_losses(sampled_logits(hidden, **gathered, **others)).mean()


def loss_and_gradients(kernel, hidden, args, dtype):
    leaves = [hidden.to(DEVICE, dtype), args["weight"], args["bias"]]
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    loss = kernel(leaves[0], **{**args, "weight": leaves[1], "bias": leaves[2]})
    return [loss.double(), *(g.double() for g in torch.autograd.grad(3 * loss, leaves))]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n", "n_rows", "n_candidates"), [(1, 3, 2), (13, 40, 17), (64, 90, 64)])
@pytest.mark.parametrize("block", [1, 100, 2**25])
def test_fused_sampled_softmax_loss_matches_reference(
    monkeypatch, dtype, n, n_rows, n_candidates, block
):
    monkeypatch.setattr(sampled_fused, "BLOCK_VALUES", block)
    hidden, args = draw(n, n_rows, n_candidates, dim=24)
    actual = loss_and_gradients(sampled_fused.mean_loss, hidden, args, dtype)
    expected = loss_and_gradients(reference_loss, hidden, args, torch.float32)
    for value, true in zip(actual, expected, strict=True):
        assert (value - true).norm() <= TOLERANCE[dtype] * true.norm() + 1e-7


def test_fused_sampled_softmax_loss_ignores_autocast():
    hidden, args = draw(13, 40, 17, dim=24)
    expected = loss_and_gradients(sampled_fused.mean_loss, hidden, args, torch.float32)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        actual = loss_and_gradients(sampled_fused.mean_loss, hidden, args, torch.float32)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_fused_sampled_softmax_requires_a_gpu_and_few_enough_candidates():
    hidden = torch.zeros(1, 1)
    assert not sampled_fused.can_run(hidden, 10)
    if not IS_INTERPRETED:
        assert sampled_fused.can_run(hidden.cuda(), 10)
        assert not sampled_fused.can_run(hidden.cuda(), 2**14 + 1)
