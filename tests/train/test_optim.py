"""Tests of optimizers, sparse row updates, learning rate schedules and gradient clipping."""

import copy
import math

import numpy as np
import pytest
import torch

from elmo.config import OptimizerConfig
from elmo.train.optim import (
    Adagrad,
    RowOptimizer,
    clip_scale,
    learning_rate,
    load_optimizer,
    make_optimizer,
    seed_step,
    set_rate,
)

ROWS, DIM = 8, 3
ADAGRAD = OptimizerConfig(accumulator=0.5)
ADAMW = OptimizerConfig(optimizer="adamw", weight_decay=0.1, beta1=0.8, beta2=0.95)


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def gradients(step, shape):
    """Return gradients whose magnitude differs between steps."""
    return numbers(*shape, seed=10 + step) * 10.0 ** (step % 3 - 1)


# ------------------------------------------------------------------------------------ rows


@pytest.mark.parametrize("shape", [(ROWS, DIM), (ROWS,)])
def test_row_adagrad_equals_dense_adagrad(shape):
    """Rows without gradients do not change in dense Adagrad either."""
    table, dense = numbers(*shape), torch.nn.Parameter(numbers(*shape))
    rows = RowOptimizer(table, ADAGRAD)
    whole = torch.optim.Adagrad([dense], lr=0.3, initial_accumulator_value=0.5, eps=0.0)
    for step in range(6):
        ids = torch.randperm(ROWS, generator=torch.Generator().manual_seed(step))[: 2 + step]
        gradient = gradients(step, shape)
        rows.step(ids, gradient[ids], 0.3)
        dense.grad = torch.zeros_like(dense)
        dense.grad[ids] = gradient[ids]
        whole.step()
        torch.testing.assert_close(table, dense.data, rtol=0, atol=1e-14)
    torch.testing.assert_close(rows.state["sum"], whole.state[dense]["sum"], rtol=1e-14, atol=0)
    assert not torch.allclose(table, numbers(*shape))


@pytest.mark.parametrize("shape", [(ROWS, DIM), (ROWS,)])
def test_row_adamw_equals_dense_adamw_if_all_rows_are_updated(shape):
    table, dense = numbers(*shape), torch.nn.Parameter(numbers(*shape))
    rows, whole = RowOptimizer(table, ADAMW), make_optimizer([dense], ADAMW)
    for step in range(6):
        rate = 0.1 / (step + 1)
        whole.param_groups[0]["lr"] = rate
        gradient = gradients(step, shape)
        # Rows in random order.
        ids = torch.randperm(ROWS, generator=torch.Generator().manual_seed(step))
        rows.step(ids, gradient[ids], rate)
        dense.grad = gradient.clone()
        whole.step()
        torch.testing.assert_close(table, dense.data, rtol=0, atol=1e-6)
    assert not torch.allclose(table, numbers(*shape), atol=1e-2)


def test_row_adamw_counts_the_updates_of_each_row_separately():
    """A row that is updated only in some steps changes as if it were a separate table."""
    table = numbers(ROWS, DIM)
    rows = RowOptimizer(table, ADAMW)
    alone = torch.nn.Parameter(numbers(ROWS, DIM)[5:6].clone())
    single = make_optimizer([alone], ADAMW)
    for step in range(6):
        ids = torch.tensor([1, 5]) if step % 2 else torch.tensor([1, 2])
        gradient = gradients(step, (ROWS, DIM))
        rows.step(ids, gradient[ids], ADAMW.learning_rate)
        if step % 2:
            alone.grad = gradient[5:6].clone()
            single.step()
    torch.testing.assert_close(table[5:6], alone.data, rtol=0, atol=1e-6)


@pytest.mark.parametrize("config", [ADAGRAD, ADAMW], ids=lambda config: config.optimizer)
def test_row_optimizer_leaves_other_rows_unchanged(config):
    table = numbers(ROWS, DIM)
    rows = RowOptimizer(table, config)
    before = {"table": table.clone(), **{n: v.clone() for n, v in rows.state.items()}}
    ids = torch.tensor([6, 1])
    rows.step(ids, gradients(0, (2, DIM)), 0.3)
    others = [row for row in range(ROWS) if row not in (1, 6)]
    for name, value in {"table": table, **rows.state}.items():
        assert torch.equal(value[others], before[name][others]), name
        assert not torch.equal(value[ids], before[name][ids]), name


@pytest.mark.parametrize("config", [ADAGRAD, ADAMW], ids=lambda config: config.optimizer)
def test_row_optimizer_state_can_be_saved_and_loaded(config):
    first = RowOptimizer(numbers(ROWS, DIM), config)
    for step in range(3):
        first.step(torch.tensor([0, 3]), gradients(step, (2, DIM)), 0.3)
    second = RowOptimizer(first.table.clone(), config)
    saved = {name: value.clone() for name, value in first.state_dict().items()}
    second.load_state_dict(saved)
    for rows in (first, second):
        rows.step(torch.tensor([3, 4]), gradients(9, (2, DIM)), 0.3)
    assert torch.equal(first.table, second.table)
    # The state was copied.
    assert not any(torch.equal(saved[name], value) for name, value in second.state.items())


@pytest.mark.parametrize("shape", [(ROWS, DIM), (ROWS,)])
@pytest.mark.parametrize("config", [ADAGRAD, ADAMW], ids=lambda config: config.optimizer)
def test_row_optimizer_does_not_update_padding_rows(config, shape):
    """Padding rows do not change, and other rows change in the same way as without padding."""
    tables = numbers(*shape), numbers(*shape)
    padded, unpadded = (RowOptimizer(table, config) for table in tables)
    # Of the padding rows, 2 was updated before and 7 was not.
    ids, valid = torch.tensor([0, 2, 4, 7]), torch.tensor([1.0, 0.0, 1.0, 0.0])
    for rows in (padded, unpadded):
        rows.step(torch.tensor([0, 2, 3]), gradients(0, shape)[:3], 0.3)
    before = {"table": padded.table.clone(), **{n: v.clone() for n, v in padded.state.items()}}
    for step in range(1, 4):
        gradient = gradients(step, shape)[ids]
        gradient[valid == 0] = 0.0
        padded.step(ids, gradient, torch.tensor(0.3), valid)
        unpadded.step(ids[valid == 1], gradient[valid == 1], 0.3)
    for name, value in {"table": padded.table, **padded.state}.items():
        expected = unpadded.table if name == "table" else unpadded.state[name]
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-7)
        assert torch.equal(value[[2, 7]], before[name][[2, 7]]), name
        assert not torch.equal(value[[0, 4]], before[name][[0, 4]]), name


# ------------------------------------------------------------------------------------ dense


def paired(rate):
    """Return our Adagrad and PyTorch's on equal weights, the last of which has no gradient."""
    shapes = [(ROWS, DIM), (DIM,), (2, 2)]
    both = [
        [torch.nn.Parameter(numbers(*shape, seed=n)) for n, shape in enumerate(shapes)]
        for _ in range(2)
    ]
    ours = Adagrad(both[0], lr=rate, accumulator=0.5)
    theirs = torch.optim.Adagrad(both[1], lr=0.3, initial_accumulator_value=0.5, eps=0.0)
    return ours, theirs


def weights_of(optimizer):
    return [value for group in optimizer.param_groups for value in group["params"]]


def step_both(ours, theirs, step):
    for optimizer in (ours, theirs):
        first, second, _ = weights_of(optimizer)
        first.grad = gradients(step, first.shape)
        # In even steps the second weight has no gradient.
        second.grad = gradients(step, second.shape) if step % 2 else None
        optimizer.step()
    torch.testing.assert_close(weights_of(ours), weights_of(theirs), rtol=0, atol=1e-14)
    for one, other in zip(weights_of(ours), weights_of(theirs), strict=True):
        torch.testing.assert_close(ours.state[one]["sum"], theirs.state[other]["sum"])


@pytest.mark.parametrize("rate_type", [float, torch.tensor])
def test_adagrad_equals_pytorch_adagrad_without_epsilon(rate_type):
    ours, theirs = paired(rate_type(np.float64(0.3)))
    start = [value.detach().clone() for value in weights_of(ours)]
    for step in range(6):
        for optimizer in (ours, theirs):
            set_rate(optimizer, 0.3 / (step + 1))
        step_both(ours, theirs, step)
    changed = [not torch.allclose(*pair) for pair in zip(weights_of(ours), start, strict=True)]
    assert changed == [True, True, False]


def test_adagrad_loads_the_state_of_pytorch_adagrad():
    """Checkpoints of earlier versions contain the state of PyTorch's Adagrad."""
    ours, theirs = paired(0.3)
    step_both(ours, theirs, 1)
    resumed, _ = paired(0.7)
    for value, saved in zip(weights_of(resumed), weights_of(theirs), strict=True):
        value.data.copy_(saved.data)
    resumed.load_state_dict(copy.deepcopy(theirs.state_dict()))
    for step in range(2, 5):
        step_both(resumed, theirs, step)


@pytest.mark.parametrize("config", [ADAGRAD, ADAMW], ids=lambda config: config.optimizer)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_load_optimizer_loads_the_state_but_not_the_options(config, device):
    """The meta device stands for a GPU, whose learning rate must not move to the CPU."""
    weight = torch.nn.Parameter(numbers(2, 3).float())
    saved = make_optimizer([weight], config, capturable=device == "cpu")
    weight.grad = torch.ones_like(weight)
    saved.step()
    parameter = torch.nn.Parameter(torch.zeros(2, 3, device=device))
    resumed = make_optimizer([parameter], config)
    (group,) = resumed.param_groups
    if device == "meta":
        group |= {"lr": torch.zeros((), device=device), "capturable": True}
    load_optimizer(resumed, saved.state_dict())
    (loaded,) = resumed.param_groups
    assert {**loaded, "lr": None} == {**group, "lr": None}
    assert type(loaded["lr"]) is type(group["lr"])
    assert device == "cpu" or loaded["lr"].device.type == device
    state = resumed.state[parameter]
    assert {value.device.type for value in state.values()} == {device}
    for name, value in saved.state[weight].items():
        assert device == "meta" or torch.equal(state[name], value)


@pytest.mark.parametrize("config", [ADAGRAD, ADAMW], ids=lambda config: config.optimizer)
def test_set_rate_supports_float_and_tensor_learning_rates(config):
    optimizer = make_optimizer([torch.nn.Parameter(torch.ones(n, 2)) for n in (2, 3)], config)
    set_rate(optimizer, 0.25)
    assert all(group["lr"] == 0.25 for group in optimizer.param_groups)
    rate = torch.tensor(1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    set_rate(optimizer, 0.125)
    assert rate.item() == 0.125
    assert all(group["lr"] is rate for group in optimizer.param_groups)


def test_adagrad_follows_the_tensorflow_formula():
    weight = torch.nn.Parameter(torch.tensor([2.0, -1.0]))
    optimizer = make_optimizer([weight], OptimizerConfig(learning_rate=0.2))
    weight.grad = torch.tensor([3.0, 0.0])
    optimizer.step()
    expected = torch.tensor([2.0 - 0.2 * 3.0 / math.sqrt(1.0 + 9.0), -1.0])
    torch.testing.assert_close(weight.data, expected)


def test_weight_decay_is_applied_to_matrices_only():
    matrix, vector = (torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 2), (2,)))
    config = OptimizerConfig(optimizer="adamw", learning_rate=0.1, weight_decay=0.5)
    optimizer = make_optimizer([vector, matrix], config)
    for value in (matrix, vector):
        value.grad = torch.zeros_like(value)
    optimizer.step()
    assert torch.equal(vector.data, torch.ones(2))
    torch.testing.assert_close(matrix.data, torch.full((2, 2), 0.95))


@pytest.mark.parametrize("shape", [(2, 2), (2,)])
def test_make_optimizer_omits_empty_parameter_groups(shape):
    optimizer = make_optimizer([torch.nn.Parameter(torch.ones(shape))], ADAMW)
    assert [len(group["params"]) for group in optimizer.param_groups] == [1]


# ------------------------------------------------------------------------------------ rates


def rates(n_steps, **options):
    config = OptimizerConfig(learning_rate=2.0, **options)
    return [learning_rate(config, step, n_steps) for step in range(n_steps)]


def test_learning_rate_is_constant_after_warm_up():
    assert rates(4) == [2.0] * 4
    assert rates(5, warmup_steps=4) == [0.5, 1.0, 1.5, 2.0, 2.0]


def test_learning_rate_decays_along_a_cosine():
    decaying = rates(9, schedule="cosine", warmup_steps=1)
    assert decaying[:2] == [2.0, 2.0]
    assert decaying[5] == pytest.approx(1.0)
    assert decaying == sorted(decaying, reverse=True)
    config = OptimizerConfig(learning_rate=2.0, schedule="cosine", warmup_steps=1)
    # Steps beyond the planned end keep the last rate.
    assert learning_rate(config, 9, 9) == learning_rate(config, 100, 9) == pytest.approx(0.0)


def test_learning_rate_of_wsd_is_constant_until_a_linear_decay():
    assert rates(6, schedule="wsd", warmup_steps=2, decay_steps=2) == [1.0, 2.0, 2.0, 2.0, 2.0, 1.0]
    # By default the last fifth of the steps.
    assert rates(10, schedule="wsd") == [2.0] * 9 + [1.0]
    assert rates(2, schedule="wsd") == [2.0, 2.0]
    assert rates(4, schedule="wsd", decay_steps=4) == [2.0, 1.5, 1.0, 0.5]
    config = OptimizerConfig(learning_rate=2.0, schedule="wsd")
    # Steps beyond the planned end keep the final rate.
    assert learning_rate(config, 9, 9) == learning_rate(config, 100, 9) == 0.0


def test_learning_rate_warm_up_can_last_for_the_whole_run():
    assert rates(3, schedule="cosine", warmup_steps=3) == pytest.approx([2 / 3, 4 / 3, 2.0])
    assert rates(2, schedule="cosine", warmup_steps=5) == pytest.approx([0.4, 0.8])


# ------------------------------------------------------------------------------------ clipping


@pytest.mark.parametrize(("norm", "scale"), [(0.0, 1.0), (1.9, 1.0), (2.0, 1.0), (8.0, 0.25)])
def test_clip_scale_is_one_unless_the_norm_exceeds_the_limit(norm, scale):
    assert clip_scale(torch.tensor(norm), 2.0).item() == pytest.approx(scale)


def test_random_numbers_after_seed_step_depend_only_on_the_key():
    cpu = torch.device("cpu")

    def sample(*key):
        seed_step(cpu, *key)
        return torch.rand(3)

    first = sample(1, 2)
    assert torch.equal(sample(1, 2), first)
    assert not torch.equal(sample(2, 1), first)
    seed_step(cpu, 1, 2)
    state = torch.get_rng_state()
    torch.manual_seed(torch.initial_seed())
    assert torch.equal(torch.get_rng_state(), state)
