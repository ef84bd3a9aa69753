"""Tests of Muon: its updates, the parameters it is used for, and its state."""

import copy
import math

import pytest
import torch
from tiny_runs import ADAPTIVE_MODEL, CHARACTER_MODEL, WORD_MODEL, make_network

from elmo.config import OptimizerConfig
from elmo.train.muon import COEFFICIENTS, N_ITERATIONS, Muon, hidden_matrices, orthogonalize
from elmo.train.optim import load_optimizer, make_optimizer, set_rate

MUON = OptimizerConfig(optimizer="muon", learning_rate=0.1, weight_decay=0.1, beta1=0.8, beta2=0.95)
ADAMW = OptimizerConfig(
    optimizer="adamw", learning_rate=0.1, weight_decay=0.1, beta1=0.8, beta2=0.95
)
# Tall, wide and square matrices; two of the first shape are computed together.
MATRICES = [(12, 4), (12, 4), (3, 7), (5, 5)]
OTHERS = [(6, 3), (4,), (2, 3, 2)]


def numbers(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def parameters(dtype=torch.float64):
    """Return matrices for Muon, and other parameters."""
    values = [
        torch.nn.Parameter(numbers(*shape, seed=number, dtype=dtype))
        for number, shape in enumerate([*MATRICES, *OTHERS])
    ]
    return values[: len(MATRICES)], values[len(MATRICES) :]


def muon_of(matrices, others, config=MUON, **options):
    # The order of parameters in a network is mixed.
    return make_optimizer([*others, *matrices], config, hidden=matrices, **options)


def set_gradients(values, step):
    for number, value in enumerate(values):
        seed = 100 * step + number
        scale = 10.0 ** (step % 3 - 1)
        value.grad = scale * numbers(*value.shape, seed=seed, dtype=value.dtype)


def run_steps(optimizer, values, steps):
    for step in steps:
        set_gradients(values, step)
        set_rate(optimizer, 0.1 / (step + 1))
        optimizer.step()


def expected_direction(matrix):
    """Apply the polynomial to the singular values, which is what the products compute."""
    u, s, vh = torch.linalg.svd(matrix.double(), full_matrices=False)
    s = s / s.square().sum().sqrt()
    a, b, c = COEFFICIENTS
    for _ in range(N_ITERATIONS):
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ vh


# ------------------------------------------------------------------------------------ updates


def test_muon_equals_a_reference_with_singular_value_decompositions():
    matrices, others = parameters()
    optimizer = muon_of(matrices, others)
    expected = [value.detach().clone() for value in matrices]
    momenta = [torch.zeros_like(value) for value in matrices]
    for step in range(5):
        rate = 0.1 / (step + 1)
        run_steps(optimizer, [*matrices, *others], [step])
        for value, weight, momentum in zip(matrices, expected, momenta, strict=True):
            momentum.mul_(0.95).add_(value.grad, alpha=0.05)
            direction = expected_direction(0.05 * value.grad + 0.95 * momentum)
            weight.mul_(1.0 - rate * 0.1)
            weight.sub_(rate * 0.2 * math.sqrt(max(weight.shape)) * direction)
        torch.testing.assert_close([v.data for v in matrices], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(24, 8), (8, 24)])
def test_muon_equals_muon_of_pytorch(shape):
    """PyTorch computes the products in bfloat16 on every device."""
    ours, theirs = (torch.nn.Parameter(numbers(*shape, dtype=torch.float32)) for _ in range(2))
    start = ours.detach().clone()
    optimizers = (
        muon_of([ours], [torch.nn.Parameter(torch.zeros(2))]),
        torch.optim.Muon(
            [theirs], lr=0.1, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        ),
    )
    for value, optimizer in zip((ours, theirs), optimizers, strict=True):
        run_steps(optimizer, [value], range(4))
    change = (theirs - start).norm()
    assert change > 0.5
    assert (ours - theirs).norm() < 0.01 * change


@pytest.mark.parametrize("shape", [(2, 64, 16), (1, 16, 64), (3, 16, 16)])
def test_orthogonalize_brings_singular_values_near_1(shape):
    directions = orthogonalize(numbers(*shape, dtype=torch.float32))
    assert directions.shape == shape
    values = torch.linalg.svdvals(directions)
    assert 0.6 < values.min()
    assert values.max() < 1.25


def test_update_does_not_depend_on_the_size_of_the_gradient_but_is_zero_without_one():
    changes = []
    for scale in (1.0, 1e-4, 0.0):
        (matrix, *_), _ = parameters()
        start = matrix.detach().clone()
        optimizer = make_optimizer(
            [matrix, torch.nn.Parameter(torch.zeros(2))],
            OptimizerConfig(optimizer="muon", learning_rate=0.1),
            hidden=[matrix],
        )
        matrix.grad = scale * numbers(*matrix.shape)
        optimizer.step()
        changes.append(matrix.detach() - start)
    torch.testing.assert_close(changes[0], changes[1])
    # As with AdamW, about 0.2 times the learning rate.
    assert float(changes[0].square().mean().sqrt()) == pytest.approx(0.02, rel=0.25)
    assert not changes[2].any()


def test_other_parameters_are_updated_exactly_as_by_adamw():
    matrices, others = parameters(torch.float32)
    _, alone = parameters(torch.float32)
    run_steps(muon_of(matrices, others), others, range(4))
    run_steps(make_optimizer(alone, ADAMW), alone, range(4))
    for value, expected in zip(others, alone, strict=True):
        assert torch.equal(value, expected)


def test_parameters_without_gradient_do_not_change():
    """While only the softmax is trained, or with frozen layers."""
    matrices, others = parameters()
    before = [value.detach().clone() for value in (*matrices, *others)]
    optimizer = muon_of(matrices, others)
    optimizer.step()
    assert all(map(torch.equal, (*matrices, *others), before))
    set_gradients(matrices[:1], 0)
    optimizer.step()
    changed = [not torch.equal(*pair) for pair in zip((*matrices, *others), before, strict=True)]
    assert changed == [True] + [False] * (len(before) - 1)


def test_update_reads_no_value_of_a_tensor():
    """As CUDA graphs require; values of the meta device cannot be read."""
    matrices, others = (
        [torch.nn.Parameter(value.detach().to("meta")) for value in values]
        for values in parameters()
    )
    for value in matrices:
        value.grad = torch.empty_like(value)
    optimizer = muon_of(matrices, others)
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(0.1, device="meta")
    optimizer.step()


def test_nan_gradient_makes_weights_nan():
    """So that the training loop detects the divergence."""
    matrices, others = parameters()
    optimizer = muon_of(matrices, others)
    set_gradients(matrices, 0)
    matrices[0].grad[0, 0] = math.nan
    optimizer.step()
    assert matrices[0].isnan().all()
    assert matrices[2].isfinite().all()


# ------------------------------------------------------------------------------------ state


@pytest.mark.parametrize("tensors", [(False, False), (False, True), (True, False)])
def test_steps_after_loading_the_state_equal_uninterrupted_steps(tmp_path, tensors):
    """A learning rate that is a tensor, as in CUDA graphs, is neither saved nor replaced."""
    pairs = [parameters() for _ in range(2)]
    optimizer, resumed = (muon_of(*pair) for pair in pairs)
    values, loaded = ([*matrices, *others] for matrices, others in pairs)
    for each, is_tensor in zip((optimizer, resumed), tensors, strict=True):
        if is_tensor:
            for group in each.param_groups:
                group["lr"] = torch.tensor(0.5, dtype=torch.float64)
    run_steps(optimizer, values, range(3))
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    for value, other in zip(loaded, values, strict=True):
        value.data.copy_(other.data)
    load_optimizer(resumed, torch.load(tmp_path / "state.pt", weights_only=True))
    run_steps(optimizer, values, range(3, 6))
    run_steps(resumed, loaded, range(3, 6))
    assert all(map(torch.equal, loaded, values))
    kinds = {isinstance(group["lr"], torch.Tensor) for group in resumed.param_groups}
    assert kinds == {tensors[1]}


def test_state_dict_contains_one_momentum_per_matrix():
    matrices, others = parameters()
    optimizer = muon_of(matrices, others)
    run_steps(optimizer, [*matrices, *others], range(1))
    state = copy.deepcopy(optimizer.state_dict())
    names = [set(state["state"][number]) for number in range(len(matrices) + len(others))]
    assert names == [{"momentum"}] * len(matrices) + [{"step", "exp_avg", "exp_avg_sq"}] * 3


def test_capturable_muon_has_one_learning_rate_that_is_a_tensor():
    optimizer = muon_of(*parameters(), capturable=True)
    rates = [group["lr"] for group in optimizer.param_groups]
    assert all(isinstance(rate, torch.Tensor) for rate in rates)
    set_rate(optimizer, 0.25)
    assert [float(rate) for rate in rates] == [0.25] * 3


# ------------------------------------------------------------------------------------ parameters


def test_make_optimizer_uses_hidden_matrices_for_muon_only():
    matrices, others = parameters()
    assert isinstance(muon_of(matrices, others), Muon)
    assert type(muon_of(matrices, others, ADAMW)) is torch.optim.AdamW
    # Not even for Muon, if there are none or they belong to another optimizer.
    assert type(make_optimizer(others, MUON)) is torch.optim.AdamW
    assert type(make_optimizer(others, MUON, hidden=matrices)) is torch.optim.AdamW


LAYERS = {
    f"{direction}_lstm.layers.{layer}.weight_{kind}"
    for direction in ("forward", "backward")
    for layer in (0, 1)
    for kind in ("ih", "hh", "hr")
}
CHARACTERS = {"encoder.characters.highway.0.linear.weight", "encoder.projection.weight"}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (CHARACTER_MODEL, LAYERS | CHARACTERS),
        (ADAPTIVE_MODEL, LAYERS | CHARACTERS),
        (WORD_MODEL, LAYERS),
    ],
    ids=["characters", "adaptive", "words"],
)
def test_hidden_matrices_of_bilm_are_all_matrices_except_embeddings(shape, expected):
    bilm = make_network(shape).bilm
    names = {value: name for name, value in bilm.named_parameters()}
    assert {names[value] for value in hidden_matrices(bilm)} == expected
